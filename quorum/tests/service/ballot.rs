//! Ceremony, ballot and signature, with verifiers that stop, crash and come back with an older disk.

use redlatch_ballot::coordinator::Abstention;
use redlatch_ballot::messages::SealedAnswerV1;
use redlatch_link::store::SyncFailure;
use redlatch_proto::v1;
use redlatch_proto::v1::voter_answer::Result as Wire;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Accepted;
use redlatch_types::records::{AgentQuorumDecisionV1, FindingsV1, VoteV1, VoteVerdict};
use redlatch_types::{Canonical, Digest};
use redlatch_verifier::{FatalCause, StartFailure};

use crate::quorum::{NAMES, Quorum, id, packet};

#[tokio::test(flavor = "multi_thread")]
async fn four_verifiers_make_a_key_and_the_journal_takes_their_decision() {
    let mut quorum = Quorum::new().await;
    quorum.against.insert("v4", "the file is too large");
    for name in NAMES {
        quorum.start(name).await.unwrap();
    }
    quorum.ready(&NAMES).await;
    let (intent, receipt) = quorum.journal.freeze(7);
    let decided = quorum.ballot(&intent, &receipt, 16).await.unwrap();
    let decision = decided.decision.open::<AgentQuorumDecisionV1>().unwrap();
    let counted = decision.record().signed_votes_dissents.clone();
    let verdicts: Vec<_> = counted.iter().map(|it| it.verdict).collect();
    use VoteVerdict::{Approve, Reject};
    assert_eq!(verdicts, [Approve, Approve, Approve, Reject]);
    let accepted = quorum
        .journal
        .apply(&RawCommand::Authorize(Box::new(decided.clone())));
    assert!(
        matches!(accepted, Ok(Accepted::Authorized(_))),
        "{accepted:?}"
    );
    // The dissent's reason is told by its digest, now that the vote is open.
    let dissent = decided.votes[3].open::<VoteV1>().unwrap().record().clone();
    let mut client = quorum.clients().remove(&id("v4")).unwrap();
    let request = v1::FindingsRequest {
        digest: dissent.findings_digest.0.to_vec(),
    };
    let told = client.findings(request).await.unwrap().into_inner();
    let bytes = told.findings.expect("opened");
    assert_eq!(Digest::of(&bytes), dissent.findings_digest);
    let findings = FindingsV1::from_canonical(&bytes).unwrap();
    let sentence = findings.findings[0].sentences[0].to_string();
    assert_eq!(sentence, "the file is too large");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_down_it_decides_and_with_two_down_it_abstains() {
    let mut quorum = Quorum::with_key().await;
    quorum.stop("v2").await;
    let (intent, receipt) = quorum.journal.freeze(1);
    let decided = quorum.ballot(&intent, &receipt, 16).await.unwrap();
    quorum
        .journal
        .apply(&RawCommand::Authorize(Box::new(decided)))
        .unwrap();
    quorum.stop("v3").await;
    let (intent, receipt) = quorum.journal.freeze(2);
    let abstained = quorum.ballot(&intent, &receipt, 16).await;
    assert_eq!(abstained, Err(Abstention::InsufficientQuorum));
    // Two come back, under later boots, and need no node to know the key.
    quorum.start("v2").await.unwrap();
    quorum.start("v3").await.unwrap();
    quorum.ready(&["v2", "v3"]).await;
    assert_eq!(quorum.generation("v2"), 2);
    let (intent, receipt) = quorum.journal.freeze(3);
    quorum.ballot(&intent, &receipt, 16).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_032_a_vote_that_was_durable_and_not_said_stands_and_its_nonces_are_dead() {
    let mut quorum = Quorum::with_key().await;
    let (intent, receipt) = quorum.journal.freeze(5);
    let mut clients = quorum.clients();
    let sealed = |answer: v1::VoterAnswer| match answer.result {
        Some(Wire::Answer(bytes)) => SealedAnswerV1::from_canonical(&bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    // Findings are kept, then the vote: its write reaches the disk and says that it failed.
    let client = clients.get_mut(&id("v3")).unwrap();
    let first = client.ballot(packet(&intent, &receipt, 16)).await.unwrap();
    let first = sealed(first.into_inner());
    quorum.disks["v3"].fail_next_sync(SyncFailure::Written);
    let asked = client.ballot(packet(&intent, &receipt, 17)).await;
    assert!(asked.is_err(), "nothing is said after a failed write");
    let cause = quorum.ended("v3").await;
    assert!(
        matches!(cause, StartFailure::Fatal(FatalCause::Storage(_))),
        "{cause}"
    );
    quorum.start("v3").await.unwrap();
    quorum.ready(&["v3"]).await;
    let mut clients = quorum.clients();
    let client = clients.get_mut(&id("v3")).unwrap();
    let again = client.ballot(packet(&intent, &receipt, 18)).await.unwrap();
    let again = sealed(again.into_inner());
    assert_eq!(again.sealed, first.sealed, "one vote per intent");
    let commitments = |it: &SealedAnswerV1| it.commitments.clone().expect("issued");
    assert_ne!(
        commitments(&again),
        commitments(&first),
        "one boot's nonces die with it"
    );
    quorum.ballot(&intent, &receipt, 32).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_034_a_verifier_whose_disk_went_back_in_time_stops() {
    let mut quorum = Quorum::with_key().await;
    let (intent, receipt) = quorum.journal.freeze(9);
    quorum.ballot(&intent, &receipt, 16).await.unwrap();
    quorum.stop("v1").await;
    quorum.start("v1").await.unwrap();
    quorum.ready(&["v1"]).await;
    assert_eq!(quorum.generation("v1"), 2);
    quorum.stop("v1").await;
    // The second boot's record is gone: the next one takes its number, and fellows know better.
    quorum.disks["v1"].rollback(1);
    quorum.start("v1").await.unwrap();
    let cause = quorum.ended("v1").await;
    let rolled_back = matches!(cause, StartFailure::Fatal(FatalCause::RolledBack { .. }));
    assert!(rolled_back, "{cause}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_that_is_not_the_frozen_one_gets_no_vote() {
    let quorum = Quorum::with_key().await;
    let (intent, receipt) = quorum.journal.freeze(1);
    let (_, other_receipt) = quorum.journal.freeze(2);
    let mut client = quorum.clients().remove(&id("v1")).unwrap();
    let mut altered = intent.clone();
    altered.expires_at += 1;
    let mut unsigned = receipt.clone();
    let last_line = unsigned.trim_end().rfind("\n— ").unwrap();
    unsigned.truncate(last_line + 1);
    for (intent, receipt, code) in [
        (&altered, &receipt, "candidate_mismatch"),
        (&intent, &other_receipt, "candidate_mismatch"),
        (&intent, &unsigned, "bad_signature"),
        (&intent, &String::new(), "bad_signature"),
    ] {
        let answer = client.ballot(packet(intent, receipt, 16)).await.unwrap();
        let refused = answer.into_inner().result.unwrap();
        assert_eq!(refused, Wire::Refusal(code.to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hides_the_key_from_its_readers_hides_it_from_no_verifier() {
    let mut quorum = Quorum::new().await;
    // Every one of them reads from this one first.
    quorum.journal.set_masking(1, "quorum_key_activated");
    for name in NAMES {
        quorum.start(name).await.unwrap();
    }
    quorum.ready(&NAMES).await;
    let (intent, receipt) = quorum.journal.freeze(7);
    quorum.ballot(&intent, &receipt, 16).await.unwrap();
}
