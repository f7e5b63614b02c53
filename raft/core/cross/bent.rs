//! Answers with something wrong in them: changed after they were signed, or signed like that.

use redlatch_journal::development::authenticator::{SoftAuthenticator, client_data};
use redlatch_types::Digest;

use crate::parties::{Given, ORIGIN, RP_ID};

/// Of the last accepted answer.
pub(crate) const LAST_COUNTER: u32 = 41;
/// Where the flags are in authenticator data.
pub(crate) const FLAGS_AT: usize = 32;
/// Flags: extensions follow, a new credential follows, bits without a meaning.
pub(crate) const EXTENSIONS: u8 = 0x80;
pub(crate) const ATTESTED: u8 = 0x40;
pub(crate) const RESERVED: u8 = 0x22;
/// Somebody is there and verified.
const PERSON: u8 = 0x05;

/// An answer, and what is special about it.
pub(crate) struct Bent {
    pub(crate) what: String,
    pub(crate) given: Given,
}

/// Every byte of `good` changed in three ways, one at a time, without a new signature.
pub(crate) fn bytes(good: &Given) -> Vec<(String, Given)> {
    let mut found = Vec::new();
    for flip in [0x01, 0x20, 0x80] {
        for at in 0..good.data.len() {
            let mut given = good.clone();
            given.data[at] ^= flip;
            found.push((format!("authenticator data {at} ^ {flip:02x}"), given));
        }
        for at in 0..good.client.len() {
            let mut given = good.clone();
            given.client[at] ^= flip;
            found.push((format!("client data {at} ^ {flip:02x}"), given));
        }
        for at in 0..good.signature.len() {
            let mut given = good.clone();
            given.signature[at] ^= flip;
            found.push((format!("signature {at} ^ {flip:02x}"), given));
        }
    }
    for at in 0..good.signature.len() {
        let mut given = good.clone();
        given.signature.truncate(at);
        found.push((format!("signature cut at {at}"), given));
    }
    for (more, part) in [("00", vec![0]), ("a copy", good.signature.clone())] {
        let mut given = good.clone();
        given.signature.extend(part);
        found.push((format!("signature and {more}"), given));
    }
    found
}

/// An authenticator of ours that signs whatever it is told.
pub(crate) struct Soft(pub(crate) SoftAuthenticator);

impl Soft {
    /// What it answers honestly.
    pub(crate) fn good(&self, challenge: &Digest) -> Given {
        self.sign(
            data(RP_ID, PERSON, LAST_COUNTER + 1, &[]),
            client_data(ORIGIN, challenge),
        )
    }

    fn sign(&self, data: Vec<u8>, client: Vec<u8>) -> Given {
        let signed = self.0.sign(data, client);
        Given {
            data: signed.authenticator_data,
            client: signed.client_data_json,
            signature: signed.signature,
        }
    }

    /// Statements of every kind, each truly signed.
    pub(crate) fn statements(&self, challenge: &Digest) -> Vec<Bent> {
        let client = client_data(ORIGIN, challenge);
        let honest = data(RP_ID, PERSON, LAST_COUNTER + 1, &[]);
        let by_data = datas()
            .into_iter()
            .map(|(what, data)| (what, data, client.clone()));
        let by_client = clients(challenge)
            .into_iter()
            .map(|(what, client)| (what, honest.clone(), client));
        by_data
            .chain(by_client)
            .map(|(what, data, client)| Bent {
                what,
                given: self.sign(data, client),
            })
            .collect()
    }
}

fn data(rp_id: &str, flags: u8, counter: u32, after: &[u8]) -> Vec<u8> {
    let hash = Digest::of(rp_id.as_bytes());
    [
        &hash.as_bytes()[..],
        &[flags],
        &counter.to_be_bytes(),
        after,
    ]
    .concat()
}

/// Authenticator data: flags, counters, relying parties, lengths, what follows.
fn datas() -> Vec<(String, Vec<u8>)> {
    let next = LAST_COUNTER + 1;
    let honest = data(RP_ID, PERSON, next, &[]);
    let mut found = vec![("good".to_owned(), honest.clone())];
    for flags in 0..=u8::MAX {
        found.push((format!("flags {flags:02x}"), data(RP_ID, flags, next, &[])));
    }
    for counter in [
        0,
        1,
        LAST_COUNTER - 1,
        LAST_COUNTER,
        next,
        next + 1,
        1 << 31,
        u32::MAX,
    ] {
        found.push((
            format!("counter {counter}"),
            data(RP_ID, PERSON, counter, &[]),
        ));
    }
    for rp_id in [
        "",
        "redlatch.test",
        "OPS.redlatch.test",
        "ops.redlatch.test.",
        "a.ops.redlatch.test",
    ] {
        found.push((
            format!("relying party {rp_id:?}"),
            data(rp_id, PERSON, next, &[]),
        ));
    }
    for bit in 0..256 {
        let mut other = honest.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        found.push((format!("bit {bit} of the relying party"), other));
    }
    for length in 0..honest.len() {
        found.push((format!("cut at {length}"), honest[..length].to_vec()));
    }
    found.extend(followed(next));
    found
}

/// Authenticator data with something behind its fixed part.
fn followed(next: u32) -> impl Iterator<Item = (String, Vec<u8>)> {
    // A credential: model, length of its id, id, COSE key.
    let key = SoftAuthenticator::es256(&[9; 32], vec![9; 16], 0).expect("a scalar");
    let cose = key.public_key().expect("a key").to_cose();
    let credential = [&[0; 16][..], &[0, 16], &[9; 16], &cose].concat();
    let after: [(&str, u8, &[u8]); 11] = [
        ("a byte", 0, &[0]),
        ("a map without its flag", 0, &[0xa0]),
        ("an empty map", EXTENSIONS, &[0xa0]),
        (
            "an extension",
            EXTENSIONS,
            &[0xa1, 0x63, b'u', b'v', b'm', 0x81, 0x83, 2, 4, 2],
        ),
        ("a map and more", EXTENSIONS, &[0xa0, 0]),
        ("a list", EXTENSIONS, &[0x80]),
        ("a map that is cut", EXTENSIONS, &[0xa1, 0x61, b'a']),
        (
            "a name twice",
            EXTENSIONS,
            &[0xa2, 0x61, b'a', 1, 0x61, b'a', 2],
        ),
        ("a long length", EXTENSIONS, &[0xb8, 0]),
        ("a map without end", EXTENSIONS, &[0xbf, 0xff]),
        ("a credential", ATTESTED, &credential),
    ];
    let followed = after.map(|(what, flag, after)| {
        let data = data(RP_ID, PERSON | flag, next, after);
        (format!("{what} after"), data)
    });
    followed.into_iter()
}

/// Client data: each byte changed, removed and doubled, and statements that a reader might misread.
fn clients(challenge: &Digest) -> Vec<(String, Vec<u8>)> {
    let honest = client_data(ORIGIN, challenge);
    let text = String::from_utf8(honest.clone()).expect("JSON");
    let mut found = Vec::new();
    for at in 0..honest.len() {
        for flip in [0x01, 0x20] {
            let mut other = honest.clone();
            other[at] ^= flip;
            found.push((format!("client data {at} ^ {flip:02x}"), other));
        }
        let mut shorter = honest.clone();
        shorter.remove(at);
        found.push((format!("client data without {at}"), shorter));
        let mut longer = honest.clone();
        longer.insert(at, honest[at]);
        found.push((format!("client data with {at} twice"), longer));
    }
    let said = |name: &str, value: &str| {
        text.replace(r#""crossOrigin":false"#, &format!(r#""{name}":{value}"#))
    };
    let origin = |other: &str| text.replace(ORIGIN, other);
    let first = |member: &str| text.replacen('{', &format!("{{{member},"), 1);
    let others = [
        ("in a frame", said("crossOrigin", "true")),
        ("a frame of null", said("crossOrigin", "null")),
        ("a frame of text", said("crossOrigin", r#""false""#)),
        ("a top origin", said("topOrigin", r#""https://top.test""#)),
        ("no word on frames", said("extra", "1")),
        (
            "an unknown object",
            said("extra", r#"{"a":[1,2.5,null,true]}"#),
        ),
        ("an unknown one twice", first(r#""extra":1,"extra":2"#)),
        ("type twice", first(r#""type":"webauthn.get""#)),
        ("challenge twice", first(r#""challenge":"AAAA""#)),
        ("origin twice", first(r#""origin":"https://evil.test""#)),
        (
            "an enrolment",
            text.replace("webauthn.get", "webauthn.create"),
        ),
        (
            "another site",
            origin("https://ops.redlatch.test.evil.test"),
        ),
        ("a subdomain", origin("https://a.ops.redlatch.test")),
        ("a parent", origin("https://redlatch.test")),
        ("another port", origin("https://ops.redlatch.test:444")),
        ("the port of TLS", origin("https://ops.redlatch.test:443")),
        ("without TLS", origin("http://ops.redlatch.test")),
        ("a slash", origin("https://ops.redlatch.test/")),
        ("a path", origin("https://ops.redlatch.test/path")),
        ("a user", origin("https://user@ops.redlatch.test")),
        ("capitals", origin("HTTPS://OPS.REDLATCH.TEST")),
        ("no origin", origin("null")),
        ("an escape", text.replace("https:", r"https\u003a")),
        ("padding", text.replace(r#"","origin"#, r#"=","origin"#)),
        ("a byte order mark", format!("\u{feff}{text}")),
        ("spaces", text.replace(',', " ,\n")),
        ("two documents", format!("{text}{text}")),
        ("a list", format!("[{text}]")),
        ("nothing", String::new()),
    ];
    found.extend(others.map(|(what, text)| (what.to_owned(), text.into_bytes())));
    found
}
