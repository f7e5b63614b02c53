#!/usr/bin/env python3
"""Makes webauthn.txt: assertions built and judged apart from redlatch.

The bytes are laid out here and signed by `cryptography`; two relying parties written by others,
Yubico's `fido2` and Duo's `webauthn` (py_webauthn), judge them; the last column is the reason for
which WebAuthn Level 3 and ADR 0009 want them refused. `raft/core/tests/webauthn.rs` compares.

    pip install fido2==2.2.1 webauthn==3.0.1
    python3 make_webauthn.py > webauthn.txt
"""

import base64
import hashlib
import json
import struct

import fido2.cose
import fido2.server
import fido2.webauthn
import webauthn
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

RP_ID = "ops.redlatch.test"
ORIGIN = "https://ops.redlatch.test"
CREDENTIAL = b"\x07" * 16
LAST_COUNTER = 41
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def seed(*words):
    return hashlib.sha256("/".join(["redlatch webauthn vectors", *map(str, words)]).encode()).digest()


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Es256:
    name = "es256"

    def __init__(self, number):
        self.key = ec.derive_private_key(int.from_bytes(seed("es256", number)) % ORDER, ec.SECP256R1())

    def cose(self):
        numbers = self.key.public_key().public_numbers()
        x, y = numbers.x.to_bytes(32), numbers.y.to_bytes(32)
        return bytes.fromhex("a5010203262001215820") + x + bytes.fromhex("225820") + y

    def sign(self, message):
        return self.key.sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))

    def other_s(self, signature):
        r, s = decode_dss_signature(signature)
        return encode_dss_signature(r, ORDER - s)

    def fixed_width(self, signature):
        r, s = decode_dss_signature(signature)
        return r.to_bytes(32) + s.to_bytes(32)


class EdDsa:
    name = "eddsa"

    def __init__(self, number):
        self.key = ed25519.Ed25519PrivateKey.from_private_bytes(seed("eddsa", number))

    def cose(self):
        return bytes.fromhex("a4010103272006215820") + self.key.public_key().public_bytes_raw()

    def sign(self, message):
        return self.key.sign(message)


class Case:
    """A good assertion; the changes below break it."""

    def __init__(self, signer, number):
        self.signer = signer
        self.challenge = seed("challenge", signer.name, number)
        self.rp_id = RP_ID
        self.flags = 0x05
        self.counter = LAST_COUNTER + 1
        self.last_counter = LAST_COUNTER
        self.after = b""
        self.cut = None
        self.client = {
            "type": "webauthn.get",
            "challenge": b64(self.challenge),
            "origin": ORIGIN,
            "crossOrigin": False,
        }
        self.raw = None
        self.resign = lambda signature: signature
        self.resign_after = lambda data, client: (data, client)

    def parts(self):
        data = hashlib.sha256(self.rp_id.encode()).digest() + bytes([self.flags])
        data = (data + struct.pack(">I", self.counter) + self.after)[: self.cut]
        client = self.raw
        if client is None:
            client = json.dumps(self.client, separators=(",", ":"), ensure_ascii=False).encode()
        signature = self.resign(self.signer.sign(data + hashlib.sha256(client).digest()))
        data, client = self.resign_after(data, client)
        return data, client, signature


def text(case):
    return json.dumps(case.client, separators=(",", ":"))


def flip(index, bit):
    def change(data):
        data = bytearray(data)
        data[index] ^= bit
        return bytes(data)

    return change


def put(name, value):
    def change(case):
        case.client[name] = value

    return change


def drop(name):
    def change(case):
        del case.client[name]

    return change


def attribute(name, value):
    return lambda case: setattr(case, name, value)


def both(*changes):
    def change(case):
        for one in changes:
            one(case)

    return change


def raw(edit):
    def change(case):
        case.raw = edit(text(case)).encode()

    return change


def last_but_stray(challenge):
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return challenge[:-1] + alphabet[alphabet.index(challenge[-1]) + 1]


OK = "accepted"
CHANGES = [
    ("good", OK, lambda case: None),
    ("good again", OK, lambda case: None),
    ("no crossOrigin", OK, drop("crossOrigin")),
    ("unknown member", OK, put("other_keys_can_be_added_here", "do not compare clientDataJSON against a template")),
    ("unknown object", OK, put("extra", {"a": [1, 2.5, None, True]})),
    ("members in another order", OK, raw(lambda t: json.dumps(dict(reversed(json.loads(t).items()))))),
    ("escaped", OK, raw(lambda t: t.replace("https:", "https\\u003a"))),
    ("never counts", OK, both(attribute("counter", 0), attribute("last_counter", 0))),
    ("begins to count", OK, both(attribute("counter", 1), attribute("last_counter", 0))),
    ("counter at its end", OK, attribute("counter", 0xFFFFFFFF)),
    ("extensions", OK, both(attribute("flags", 0x85), attribute("after", bytes.fromhex("a16375766d8183020402")))),
    ("empty extensions", OK, both(attribute("flags", 0x85), attribute("after", b"\xa0"))),
    ("another type", "wrong_type", put("type", "webauthn.create")),
    ("another challenge", "wrong_challenge", put("challenge", b64(seed("another")))),
    ("a shorter challenge", "challenge_malformed", lambda case: put("challenge", b64(case.challenge[:31]))(case)),
    ("a padded challenge", "challenge_malformed", lambda case: put("challenge", b64(case.challenge) + "=")(case)),
    ("stray bits", "challenge_malformed", lambda case: put("challenge", last_but_stray(b64(case.challenge)))(case)),
    ("no challenge", "client_data_malformed", drop("challenge")),
    ("no origin", "client_data_malformed", drop("origin")),
    ("no type", "client_data_malformed", drop("type")),
    ("origin of another site", "wrong_origin", put("origin", "https://ops.redlatch.test.evil.example")),
    ("origin without TLS", "wrong_origin", put("origin", "http://ops.redlatch.test")),
    ("origin with a port", "wrong_origin", put("origin", "https://ops.redlatch.test:444")),
    ("origin of a subdomain", "wrong_origin", put("origin", "https://a.ops.redlatch.test")),
    ("null origin", "wrong_origin", put("origin", "null")),
    ("in a frame", "cross_origin", put("crossOrigin", True)),
    ("top origin", "top_origin", put("topOrigin", "https://top.test")),
    ("type twice", "duplicate_name", raw(lambda t: t.replace("{", '{"type":"webauthn.create",', 1))),
    ("origin twice", "duplicate_name", raw(lambda t: t.replace("{", '{"origin":"https://evil.example",', 1))),
    ("no JSON", "client_data_malformed", raw(lambda t: t[:-1])),
    ("a byte order mark", "client_data_malformed", raw(lambda t: "\ufeff" + t)),
    ("another relying party", "wrong_relying_party", attribute("rp_id", "redlatch.test")),
    ("nobody present", "user_not_present", attribute("flags", 0x04)),
    ("nobody verified", "user_not_verified", attribute("flags", 0x01)),
    ("reserved flag 1", "reserved_flags", attribute("flags", 0x07)),
    ("reserved flag 2", "reserved_flags", attribute("flags", 0x25)),
    ("backed up, not eligible", "backed_up_ineligible", attribute("flags", 0x15)),
    ("now eligible", "eligibility_changed", attribute("flags", 0x0D)),
    ("attested data without any", "attested_credential", attribute("flags", 0x45)),
    ("extensions without any", "extensions_malformed", attribute("flags", 0x85)),
    ("extensions of no map", "extensions_malformed", both(attribute("flags", 0x85), attribute("after", b"\x80"))),
    ("extensions cut", "extensions_malformed", both(attribute("flags", 0x85), attribute("after", b"\xa1\x61a"))),
    ("extensions with more", "extensions_malformed", both(attribute("flags", 0x85), attribute("after", b"\xa0\x00"))),
    ("extensions twice", "extensions_malformed", both(attribute("flags", 0x85), attribute("after", b"\xa2\x61a\x01\x61a\x02"))),
    ("trailing bytes", "trailing_bytes", attribute("after", b"\x00")),
    ("cut", "authenticator_data_truncated", attribute("cut", 36)),
    ("counter repeated", "counter_not_greater", attribute("counter", LAST_COUNTER)),
    ("counter behind", "counter_not_greater", attribute("counter", LAST_COUNTER - 1)),
    ("counter given up", "counter_not_greater", attribute("counter", 0)),
    ("counter changed after signing", "bad_signature", lambda case: setattr(case, "resign_after", lambda d, c: (flip(36, 4)(d), c))),
    ("member added after signing", "bad_signature", lambda case: setattr(case, "resign_after", lambda d, c: (d, c[:-1] + b',"a":1}'))),
    ("signature flipped", "bad_signature", attribute("resign", flip(12, 1))),
    ("signature and more", "signature_malformed", attribute("resign", lambda s: s + b"\x00")),
    ("signature cut", "signature_malformed", attribute("resign", lambda s: s[:-1])),
    ("no signature", "signature_malformed", attribute("resign", lambda s: b"")),
]
ES256_CHANGES = [
    ("the other s", OK, lambda case: setattr(case, "resign", case.signer.other_s)),
    ("fixed width", "signature_malformed", lambda case: setattr(case, "resign", case.signer.fixed_width)),
    ("long length", "signature_malformed", attribute("resign", lambda s: b"\x30\x81" + s[1:])),
]


def judged(judge):
    try:
        judge()
        return "accepts"
    except Exception:  # Whatever a verifier throws, it does not accept.
        return "refuses"


def answer(data, client, signature):
    return {
        "id": b64(CREDENTIAL),
        "rawId": b64(CREDENTIAL),
        "type": "public-key",
        "response": {
            "authenticatorData": b64(data),
            "clientDataJSON": b64(client),
            "signature": b64(signature),
        },
        "clientExtensionResults": {},
    }


def by_fido2(case, data, client, signature):
    party = fido2.webauthn.PublicKeyCredentialRpEntity(id=RP_ID, name="redlatch")
    server = fido2.server.Fido2Server(party, verify_origin=lambda origin: origin == ORIGIN)
    key = fido2.cose.CoseKey.parse(fido2.cbor.decode(case.signer.cose()))
    known = fido2.webauthn.AttestedCredentialData.create(b"\0" * 16, CREDENTIAL, key)
    state = {"challenge": b64(case.challenge), "user_verification": "required"}
    server.authenticate_complete(state, [known], answer(data, client, signature))


def by_webauthn(case, data, client, signature):
    webauthn.verify_authentication_response(
        credential=answer(data, client, signature),
        expected_challenge=case.challenge,
        expected_rp_id=RP_ID,
        expected_origin=[ORIGIN],
        credential_public_key=case.signer.cose(),
        credential_current_sign_count=case.last_counter,
        require_user_verification=True,
    )


def main():
    print("# Made by make_webauthn.py. name | expected | fido2 | webauthn | last counter | COSE key | challenge")
    print("# | authenticator data | client data | signature")
    for kind, changes in ((Es256, CHANGES + ES256_CHANGES), (EdDsa, CHANGES)):
        for number, (name, expected, change) in enumerate(changes):
            case = Case(kind(number), number)
            change(case)
            parts = case.parts()
            if name == "good":
                # Not judged(): a mistake in a call must not look like a refusal.
                by_fido2(case, *parts)
                by_webauthn(case, *parts)
            columns = [
                f"{kind.name} {name}",
                expected,
                judged(lambda: by_fido2(case, *parts)),
                judged(lambda: by_webauthn(case, *parts)),
                str(case.last_counter),
                case.signer.cose().hex(),
                case.challenge.hex(),
                *(part.hex() for part in parts),
            ]
            print("|".join(columns))


if __name__ == "__main__":
    main()
