//! Known notes and keys, and every spelling that is not the one.

use proptest::prelude::*;

use super::*;
use crate::bytes::PublicKey;
use crate::sign;

/// The example of Go's `golang.org/x/mod/sumdb/note`.
const KNOWN_KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const KNOWN_NOTE: &str = "If you think cryptography is the answer to your problem,\n\
    then you don't know what your problem is.\n\
    \n\
    — PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

fn name(name: &str) -> KeyName {
    KeyName::new(name).unwrap()
}

fn verifier(label: &str, algorithm: Algorithm, seed: u8) -> VerifierKey {
    VerifierKey::new(name(label), algorithm, key(seed).public_key()).unwrap()
}

#[test]
fn a_known_note_verifies_and_prints_as_it_was() {
    let known: VerifierKey = KNOWN_KEY.parse().unwrap();
    let note = Note::parse(KNOWN_NOTE).unwrap();
    let [line] = note.signatures() else {
        panic!("one line")
    };
    assert_eq!(known.verify(note.text(), line), Ok(Statement::Signed));
    assert_eq!(note.to_string(), KNOWN_NOTE);
    assert_eq!(known.to_string(), KNOWN_KEY);
    assert_eq!(known.id().to_string(), "c74f20a3");

    let changed = note.text().replace("know", "knew");
    let why = known.verify(&changed, line);
    assert_eq!(why, Err(SignatureError::BadSignature(sign::BadSignature)));
}

#[test]
fn a_known_key_has_its_known_id() {
    let text = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
    assert_eq!(text.parse::<VerifierKey>().unwrap().to_string(), text);
}

#[test]
fn fault_056_one_key_as_log_and_as_cosigner_has_two_ids_and_no_exchange() {
    let log = verifier("n", Algorithm::Ed25519, 1);
    let cosigner = verifier("n", Algorithm::Cosignature, 1);
    assert_ne!(log.id(), cosigner.id());

    let line = SignatureLine::by_cosigner(name("n"), &key(1), "text\n", 7).unwrap();
    assert_eq!(log.verify("text\n", &line), Err(SignatureError::OtherKey));
    let observed = cosigner.verify("text\n", &line);
    assert_eq!(observed, Ok(Statement::Observed { time_s: 7 }));

    let as_log = SignatureLine {
        key_id: log.id(),
        ..line.clone()
    };
    assert_eq!(
        log.verify("text\n", &as_log),
        Err(SignatureError::WrongLength)
    );
    let without_time = line.signature[8..].to_vec();
    let as_log = SignatureLine {
        key_id: log.id(),
        signature: without_time,
        ..line.clone()
    };
    assert!(log.verify("text\n", &as_log).is_err());

    // A log's signature over the cosigned message would be a cosignature: no checkpoint
    // starts like that, because its first line is an origin.
    assert!(
        "cosignature/v1"
            .parse::<crate::checkpoint::Origin>()
            .is_err()
    );
}

#[test]
fn a_cosignature_binds_its_time() {
    let cosigner = verifier("w", Algorithm::Cosignature, 2);
    let mut line = SignatureLine::by_cosigner(name("w"), &key(2), "text\n", 7).unwrap();
    line.signature[7] = 8;
    let why = cosigner.verify("text\n", &line);
    assert_eq!(why, Err(SignatureError::BadSignature(sign::BadSignature)));
    line.signature.pop();
    assert_eq!(
        cosigner.verify("text\n", &line),
        Err(SignatureError::WrongLength)
    );
    line.signature.truncate(7);
    assert_eq!(
        cosigner.verify("text\n", &line),
        Err(SignatureError::WrongLength)
    );
}

#[test]
fn fault_052_a_cosignature_of_time_zero_or_beyond_range_is_none() {
    for time_s in [0, COSIGNATURE_TIME_S_MAX + 1, u64::MAX] {
        let line = SignatureLine::by_cosigner(name("w"), &key(2), "text\n", time_s);
        assert_eq!(line, Err(SignatureError::BadTime));

        let message = format!("cosignature/v1\ntime {time_s}\ntext\n");
        let mut signature = time_s.to_be_bytes().to_vec();
        signature.extend_from_slice(&key(2).sign(message.as_bytes()).0);
        let cosigner = verifier("w", Algorithm::Cosignature, 2);
        let line = SignatureLine {
            name: name("w"),
            key_id: cosigner.id(),
            signature,
        };
        assert_eq!(
            cosigner.verify("text\n", &line),
            Err(SignatureError::BadTime)
        );
    }
    let latest = SignatureLine::by_cosigner(name("w"), &key(2), "text\n", COSIGNATURE_TIME_S_MAX);
    assert!(latest.is_ok());
}

#[test]
fn verifier_keys_have_one_spelling() {
    let (head, material) = KNOWN_KEY.rsplit_once('+').unwrap();
    let other_algorithm = encode_base64(&[[2].as_slice(), &[1; 32]].concat());
    let long = encode_base64(&[[1].as_slice(), &[1; 33]].concat());
    for (bad, why) in [
        (String::new(), KeyError::Malformed),
        ("name".to_owned(), KeyError::Malformed),
        (head.to_owned(), KeyError::Malformed),
        (format!("{head}+"), KeyError::Malformed),
        (format!("{KNOWN_KEY}="), KeyError::Malformed),
        (format!("{KNOWN_KEY}\n"), KeyError::Malformed),
        (format!("{head}+{long}"), KeyError::Malformed),
        (format!("{head}+{}", &material[..40]), KeyError::Malformed),
        (format!("+c74f20a3+{material}"), KeyError::BadName),
        (
            format!("Peter Neumann+c74f20a3+{material}"),
            KeyError::BadName,
        ),
        (
            format!("{}+c74f20a3+{material}", "n".repeat(256)),
            KeyError::BadName,
        ),
        (
            format!("PeterNeumann+c74f20a4+{material}"),
            KeyError::WrongId,
        ),
        (
            format!("PeterNeumann+C74F20A3+{material}"),
            KeyError::WrongId,
        ),
        (
            format!("PeterNeumann+0c74f20a3+{material}"),
            KeyError::WrongId,
        ),
        (format!("Neumann+c74f20a3+{material}"), KeyError::WrongId),
        (
            format!("{head}+{other_algorithm}"),
            KeyError::UnknownAlgorithm(2),
        ),
    ] {
        assert_eq!(bad.parse::<VerifierKey>(), Err(why), "{bad:?}");
    }
}

#[test]
fn fault_044_a_key_that_verifies_everything_is_no_verifier_key() {
    let mut identity = [0; 32];
    identity[0] = 1;
    let order_four = [0; 32];
    let mut not_canonical = [0xff; 32];
    (not_canonical[0], not_canonical[31]) = (0xee, 0x7f);
    for bytes in [identity, order_four, not_canonical] {
        for algorithm in [Algorithm::Ed25519, Algorithm::Cosignature] {
            let made = VerifierKey::new(name("n"), algorithm, PublicKey(bytes));
            assert_eq!(made, Err(KeyError::BadKey(sign::BadKey)));
            let id = KeyId::of(&name("n"), algorithm, &PublicKey(bytes));
            let material = encode_base64(&[[algorithm.byte()].as_slice(), &bytes].concat());
            let read = format!("n+{id}+{material}").parse::<VerifierKey>();
            assert_eq!(read, Err(KeyError::BadKey(sign::BadKey)));
        }
    }
}

#[test]
fn notes_have_one_spelling() {
    let (text, line) = KNOWN_NOTE.split_once("\n\n").unwrap();
    let line = line.trim_end();
    let malformed = |line| NoteError::MalformedSignature { line };
    for (bad, why) in [
        (String::new(), NoteError::NotWhole),
        ("\n".to_owned(), NoteError::NotWhole),
        (format!("{text}\n"), NoteError::NotWhole),
        (format!("{text}\n{line}\n"), NoteError::NotWhole),
        (format!("{text}\n\n"), NoteError::NotWhole),
        (format!("{text}\n\n{line}"), NoteError::NotWhole),
        (format!("{text}\n\n{line}\n\n"), NoteError::NotWhole),
        (format!("{text}\n\n{line}\nmore\n"), malformed(2)),
        (format!("{text}\n\nmore\n{line}\n"), malformed(1)),
        (format!("{text}\n\n {line}\n"), malformed(1)),
        (format!("{text}\n\n{line} \n"), malformed(1)),
        (format!("{text}\n\n{line}=\n"), malformed(1)),
        (
            format!("{text}\n\n{}\n", line.trim_end_matches('=')),
            malformed(1),
        ),
        (
            format!("{text}\n\n{}\n", line.replace("AM=", "AN=")),
            malformed(1),
        ),
        (
            format!("{text}\n\n{}\n", line.replace('—', "-")),
            malformed(1),
        ),
        (
            format!("{text}\n\n{}\n", line.replace("— ", "—")),
            malformed(1),
        ),
        (
            format!("{text}\n\n{}\n", line.replace("Peter", "Peter+")),
            malformed(1),
        ),
        (format!("{text}\n\n— PeterNeumann x08gow==\n"), malformed(1)),
        (format!("{text}\n\n— PeterNeumann x08g\n"), malformed(1)),
        (format!("{text}\n\n— PeterNeumann\n"), malformed(1)),
        (
            format!("{text}\n\n—  {}\n", &line["— PeterNeumann ".len()..]),
            malformed(1),
        ),
        (
            KNOWN_NOTE.replace('\n', "\r\n"),
            NoteError::ControlCharacter,
        ),
        (
            KNOWN_NOTE.replace("know", "kn\tow"),
            NoteError::ControlCharacter,
        ),
        (
            KNOWN_NOTE.replace("know", "kn\0ow"),
            NoteError::ControlCharacter,
        ),
        ("x".repeat(NOTE_BYTES_MAX + 1), NoteError::TooLong),
    ] {
        assert_eq!(Note::parse(&bad), Err(why), "{bad:?}");
    }
    let full = format!(
        "{text}\n\n{}",
        format!("{line}\n").repeat(NOTE_SIGNATURES_MAX)
    );
    assert_eq!(
        Note::parse(&full).unwrap().signatures().len(),
        NOTE_SIGNATURES_MAX
    );
    let one_more = Note::parse(&format!("{full}{line}\n"));
    assert_eq!(one_more, Err(NoteError::TooManySignatures));
}

#[test]
fn the_text_ends_at_the_last_blank_line() {
    let text = "first\n\nsecond\n";
    let line = SignatureLine::by_log(name("n"), &key(1), text);
    let note = Note::new(text.to_owned(), line).unwrap();
    assert_eq!(Note::parse(&note.to_string()), Ok(note.clone()));
    assert_eq!(note.text(), text);
    let log = verifier("n", Algorithm::Ed25519, 1);
    assert_eq!(
        log.verify(text, &note.signatures()[0]),
        Ok(Statement::Signed)
    );
}

#[test]
fn a_note_is_not_made_of_what_it_could_not_be_read_from() {
    let line = SignatureLine::by_log(name("n"), &key(1), "text\n");
    for (text, why) in [
        ("", NoteError::NotWhole),
        ("text", NoteError::NotWhole),
        ("text\r\n", NoteError::ControlCharacter),
    ] {
        assert_eq!(Note::new(text.to_owned(), line.clone()), Err(why));
    }
    let mut note = Note::new("text\n".to_owned(), line.clone()).unwrap();
    note.add(line.clone()).unwrap();
    assert_eq!(note.signatures().len(), 1, "the same line once");
    let long = SignatureLine {
        signature: vec![0; NOTE_BYTES_MAX],
        ..line.clone()
    };
    assert_eq!(note.add(long), Err(NoteError::TooLong));
    for number in 1..NOTE_SIGNATURES_MAX {
        let signature = number.to_be_bytes().to_vec();
        note.add(SignatureLine {
            signature,
            ..line.clone()
        })
        .unwrap();
    }
    let one_more = SignatureLine {
        signature: vec![1],
        ..line
    };
    assert_eq!(note.add(one_more), Err(NoteError::TooManySignatures));
}

#[test]
fn decimals_have_one_spelling() {
    for (text, number) in [("0", 0), ("7", 7), ("18446744073709551615", u64::MAX)] {
        assert_eq!(decode_decimal(text), Some(number));
    }
    for bad in [
        "",
        "00",
        "07",
        "+7",
        "-7",
        " 7",
        "7 ",
        "7_0",
        "٧",
        "18446744073709551616",
    ] {
        assert_eq!(decode_decimal(bad), None, "{bad:?}");
    }
}

proptest! {
    #[test]
    fn what_is_read_prints_as_it_was(note in "(a|\n|— n AAAAAAA=\n| ){0,12}") {
        if let Ok(read) = Note::parse(&note) {
            prop_assert_eq!(read.to_string(), note);
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = Note::parse(&text);
        let _ = text.parse::<VerifierKey>();
        let _ = text.parse::<SignatureLine>();
    }

    #[test]
    fn written_notes_and_keys_read_back(
        text in "[ -~\n]{0,80}",
        label in "[!-*,-~]{1,40}",
        seed: u8,
        time_s in 1..COSIGNATURE_TIME_S_MAX,
    ) {
        let text = format!("{text}\n");
        let by_log = SignatureLine::by_log(name(&label), &key(seed), &text);
        let mut note = Note::new(text.clone(), by_log).unwrap();
        note.add(SignatureLine::by_cosigner(name(&label), &key(seed), &text, time_s).unwrap())
            .unwrap();
        prop_assert_eq!(Note::parse(&note.to_string()), Ok(note));
        for algorithm in [Algorithm::Ed25519, Algorithm::Cosignature] {
            let key = verifier(&label, algorithm, seed);
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
    }
}
