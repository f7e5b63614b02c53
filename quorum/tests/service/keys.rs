//! The quorum's key between the verifiers and the journal: shares at rest.

use redlatch_link::store::{Store, Table};
use redlatch_verifier::store::KeptError;
use redlatch_verifier::{StartFailure, VaultError};

use crate::quorum::Quorum;

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
