//! A person's authenticator in a file: development organisms only (`attestation_class` software).
//!
//! It counts like one made of hardware: the counter is on the disk before an answer leaves the process, so a
//! copy of the file shows itself by a counter that does not go up.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rand_core::RngCore;
use redlatch_journal::development::authenticator::{SoftAssertion, SoftAuthenticator};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_types::records::HumanKeyV1;
use redlatch_types::{Digest, SubjectId};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Its name in a person's folder.
pub(crate) const FILE: &str = "authenticator.toml";

/// Bytes of a credential's id.
const CREDENTIAL_ID_LEN: usize = 16;

/// The file. Wiped when it is let go.
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
struct Stored {
    /// Whose it is.
    person: String,
    /// Hexadecimal.
    credential_id: String,
    /// The private scalar of an ES256 key, hexadecimal.
    secret: String,
    /// Of the last answer.
    counter: u32,
}

/// Draws a credential into a file that must not exist, and says how it is enrolled.
///
/// # Errors
/// [`Failure`] if the file cannot be written.
pub(crate) fn create(
    file: &Path,
    person: SubjectId,
    rng: &mut impl RngCore,
) -> Result<HumanKeyV1, Failure> {
    let mut credential_id = vec![0; CREDENTIAL_ID_LEN];
    rng.fill_bytes(&mut credential_id);
    // Of 2^256 values fewer than 2^225 are no scalar of P-256.
    let (secret, authenticator) = loop {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *secret);
        if let Ok(made) = SoftAuthenticator::es256(&secret, credential_id.clone(), 0) {
            break (secret, made);
        }
    };
    let stored = Stored {
        person: person.to_string(),
        credential_id: hex::encode(&credential_id),
        secret: hex::encode(*secret),
        counter: 0,
    };
    file::create_file(file, print(&stored)?.as_bytes(), Access::Private)?;
    authenticator
        .enrolled(person, 0)
        .map_err(|error| broken(file, &error))
}

/// The person whose authenticator this is, and the id of its credential.
///
/// # Errors
/// [`Failure`] if the file cannot be read.
pub(super) fn identity(file: &Path) -> Result<(SubjectId, Vec<u8>), Failure> {
    let stored = read(file)?;
    let id = hex::decode(&stored.credential_id).map_err(|error| broken(file, &error))?;
    let person = stored
        .person
        .parse()
        .map_err(|error| broken(file, &error))?;
    Ok((person, id))
}

/// Answers a challenge on a page of `origin`. The counter has moved on the disk before it does.
///
/// # Errors
/// [`Failure`] if the file cannot be read or written; nothing is answered then.
pub(super) fn answer(
    file: &Path,
    rp_id: &str,
    origin: &str,
    challenge: &Digest,
) -> Result<SoftAssertion, Failure> {
    let _alone = Alone::with(file)?;
    let mut stored = read(file)?;
    let bad = |error: &dyn std::fmt::Display| broken(file, error);
    let id = hex::decode(&stored.credential_id).map_err(|error| bad(&error))?;
    let mut secret = Zeroizing::new([0; 32]);
    hex::decode_to_slice(&stored.secret, &mut *secret).map_err(|error| bad(&error))?;
    let made = SoftAuthenticator::es256(&secret, id, stored.counter);
    let mut authenticator = made.map_err(|error| bad(&error))?;
    let answer = authenticator.assert(rp_id, origin, challenge);
    stored.counter = authenticator.counter();
    file::replace_file(file, print(&stored)?.as_bytes(), Access::Private)?;
    Ok(answer)
}

/// Other answers of the same authenticator wait as long as this lives: two at once would carry one counter,
/// and the later would be taken for a copy's.
struct Alone {
    _lock: File,
}

impl Alone {
    fn with(file: &Path) -> Result<Alone, Failure> {
        let path = file::beside(file, ".lock");
        let locked = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .and_then(|lock| lock.lock().map(|()| lock));
        match locked {
            Ok(lock) => Ok(Alone { _lock: lock }),
            Err(error) => {
                let text = format!("cannot lock {}: {error}", path.display());
                Err(Failure::new(ExitCode::Error, text))
            }
        }
    }
}

fn read(file: &Path) -> Result<Stored, Failure> {
    let bytes = file::read_private(file)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| broken(file, &error))?;
    toml::from_str(text).map_err(|error| broken(file, &error))
}

fn print(stored: &Stored) -> Result<Zeroizing<String>, Failure> {
    toml::to_string(stored)
        .map(Zeroizing::new)
        .map_err(|error| Failure::new(ExitCode::Error, error.to_string()))
}

fn broken(file: &Path, error: &dyn std::fmt::Display) -> Failure {
    let text = format!("{} is no authenticator: {error}", file.display());
    Failure::new(ExitCode::Usage, text).hint("`redlatch init --dev` makes one for each person")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redlatch_link::world;

    use redlatch_types::records::AttestationClass;

    use super::*;

    #[test]
    fn the_counter_is_on_the_disk_before_the_answer_and_only_its_owner_reads_it() {
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join(FILE);
        let person: SubjectId = "approver".parse().expect("a name");
        let key = create(&file, person.clone(), &mut world::rng()).expect("made");
        assert_eq!(key.attestation_class, AttestationClass::Software);
        assert_eq!(
            identity(&file).expect("read"),
            (person, key.credential_id.0.clone())
        );
        let challenge = Digest::of(b"challenge");
        for counter in 1..=3 {
            let answer =
                answer(&file, "localhost", "https://localhost", &challenge).expect("answered");
            assert_eq!(answer.credential_id, key.credential_id.0);
            assert_eq!(answer.authenticator_data[33..37], u32::to_be_bytes(counter));
            assert_eq!(read(&file).expect("read").counter, counter);
        }
        // Together as well: no counter stands in two answers.
        let answers = std::thread::scope(|scope| {
            let ask = || answer(&file, "localhost", "https://localhost", &challenge);
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            let counter = |it: SoftAssertion| it.authenticator_data[33..37].to_vec();
            let answered = asked.into_iter().map(|it| it.join().expect("no panic"));
            answered
                .map(|it| counter(it.expect("answered")))
                .collect::<BTreeSet<_>>()
        });
        assert_eq!(
            answers,
            (4..12).map(|n: u32| n.to_be_bytes().to_vec()).collect()
        );
        std::fs::write(&file, "person = 1").expect("written");
        assert!(answer(&file, "localhost", "https://localhost", &challenge).is_err());
    }
}
