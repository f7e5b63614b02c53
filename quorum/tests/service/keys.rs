//! The quorum's key between the verifiers and the journal: shares at rest, the key that comes after a key.

use redlatch_link::store::{SimDisk, Store, Table};
use redlatch_types::KeyEpoch;
use redlatch_verifier::store::KeptError;
use redlatch_verifier::{FatalCause, StartFailure, VaultError};

use crate::quorum::{NAMES, Quorum, key};

/// Every one of these ends by itself, to start again under what is in force now.
async fn end(quorum: &mut Quorum, names: &[&'static str]) {
    for name in names {
        let cause = quorum.ended(name).await;
        let other_terms = matches!(cause, StartFailure::Fatal(FatalCause::OtherTerms));
        assert!(other_terms, "{name}: {cause}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_four_make_another_key_once_theirs_is_void() {
    let mut quorum = Quorum::with_key().await;
    let first = quorum.journal.quorum_key().unwrap();
    let verifiers = quorum.journal.governance().roster.verifiers;
    quorum.journal.change_verifiers(verifiers);
    assert_eq!(quorum.journal.quorum_key(), None);
    end(&mut quorum, &NAMES).await;
    for name in NAMES {
        quorum.start(name).await.unwrap();
    }
    quorum.ready(&NAMES).await;
    let second = quorum.journal.quorum_key().unwrap();
    assert_eq!((first.epoch, second.epoch), (KeyEpoch(1), KeyEpoch(2)));
    assert_ne!(first.group_key, second.group_key);
    let (intent, receipt) = quorum.journal.freeze(9);
    quorum.ballot(&intent, &receipt, 16).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_that_is_replaced_is_sent_away_and_the_new_one_makes_the_next_key() {
    let mut quorum = Quorum::with_key().await;
    let first = quorum.journal.quorum_key().unwrap();
    let mut verifiers = quorum.journal.governance().roster.verifiers;
    verifiers[1].vote_key = key(62).public_key();
    verifiers[1].witness_key = key(72).public_key();
    quorum.journal.change_verifiers(verifiers);
    end(&mut quorum, &NAMES).await;
    let sent_away = quorum.start("v2").await.expect_err("it has no seat");
    assert!(matches!(sent_away, StartFailure::WrongKey), "{sent_away}");

    // Another machine in the second seat: it knows the genesis, in which its key is nobody's.
    quorum.disks.insert("v2", SimDisk::new());
    quorum.vote_keys.insert("v2", 62);
    for name in NAMES {
        quorum.start(name).await.unwrap();
    }
    quorum.ready(&NAMES).await;
    assert_eq!(quorum.generation("v2"), 1);
    let second = quorum.journal.quorum_key().unwrap();
    assert_eq!(second.epoch, KeyEpoch(2));
    assert_ne!(first.group_key, second.group_key);
    // With the new one, and without one of the old ones: three shares of the new key.
    quorum.stop("v3").await;
    let (intent, receipt) = quorum.journal.freeze(9);
    quorum.ballot(&intent, &receipt, 16).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_at_rest_is_sealed_and_a_wrong_passphrase_counts_no_boot() {
    let mut quorum = Quorum::with_key().await;
    quorum.stop("v1").await;
    let store = quorum.disks["v1"].open().unwrap();
    let shares = store.range(Table("signer"), b"s", Some(b"t"), 16).unwrap();
    assert_eq!(shares.len(), 1);
    for magic in [&b"RLQSHARE"[..], b"FROST-ED25519"] {
        let shown = shares[0].1.windows(magic.len()).any(|it| it == magic);
        assert!(!shown, "a share stands in the clear");
    }
    drop(store);

    let right = std::mem::replace(&mut quorum.passphrase, "another passphrase");
    let refused = quorum.start("v1").await.expect_err("another passphrase");
    let wrong = matches!(
        refused,
        StartFailure::Kept(KeptError::Vault(VaultError::WrongPassphrase))
    );
    assert!(wrong, "{refused}");

    quorum.passphrase = right;
    quorum.start("v1").await.unwrap();
    assert_eq!(quorum.generation("v1"), 2, "the refused start was no boot");
    quorum.ready(&["v1"]).await;
    quorum.stop("v4").await;
    let (intent, receipt) = quorum.journal.freeze(9);
    quorum.ballot(&intent, &receipt, 16).await.unwrap();
}
