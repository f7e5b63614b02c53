//! The quorum's key on real processes: another key of the same four, and another verifier (DESIGN D13, FAULTS 38 to 42).

use redlatch_tests::organism::Organism;
use serde_json::Value;

const USAGE: i32 = 2;
const REFUSED: i32 = 3;
/// Longer than any decision takes, seconds.
const WAIT: u32 = 60;
const VERIFIERS: [&str; 4] = ["v1", "v2", "v3", "v4"];

fn shown(organism: &Organism) -> Value {
    let shown = organism.tool(&["-o", "json", "key", "status"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    shown.json()
}

#[track_caller]
fn lands(organism: &Organism, name: &str) {
    let commit = organism.commit(name);
    let landed = organism.land(&commit, WAIT);
    assert_eq!(landed.code, Some(0), "{landed:#?}");
    assert_eq!(organism.head(), Some(commit));
}

/// The key is void, so each verifier ends by itself and says why.
fn all_end(organism: &mut Organism) {
    for name in VERIFIERS {
        let (code, text) = organism.ended(name);
        assert_eq!(code, Some(1), "{name}: {text}");
        assert!(text.contains("the verifiers, their key"), "{name}: {text}");
    }
    let between = shown(organism);
    assert_eq!(between["quorum_key_epoch"], "0");
    assert_eq!(between["confirmed"], false);
}

/// The four have made the key of this epoch, and decide under it.
fn decide_under(organism: &Organism, epoch: &str, commit: &str) {
    let status = shown(organism);
    assert_eq!(status["quorum_key_epoch"], epoch);
    assert_eq!(status["confirmed"], true);
    lands(organism, commit);
}

#[test]
fn the_four_make_another_key_and_then_one_of_them_is_replaced() {
    let mut organism = Organism::start("keys");
    decide_under(&organism, "1", "first");

    organism.decide(&["key", "dkg"]);
    all_end(&mut organism);
    organism.start_all();
    decide_under(&organism, "2", "second");

    let vote = organism.new_key("v2-vote");
    let witness = organism.new_key("v2-witness");
    let keys = ["--vote-key", &vote, "--witness-key", &witness];
    let unknown = organism.tool(&[&["key", "replace", "v9"], &keys[..]].concat());
    unknown.says(USAGE, &["no verifier of the roster is called v9"]);
    organism.decide(&[&["key", "replace", "v2"], &keys[..]].concat());
    all_end(&mut organism);
    let seated = shown(&organism);
    assert_eq!(seated["verifiers"][1]["vote_key"], vote);

    // Whoever held the seat is sent away; the new one starts on an empty disk.
    organism.spawn_with("v2", &[]);
    let (code, text) = organism.ended("v2");
    assert_eq!(code, Some(REFUSED), "{text}");
    assert!(
        text.contains("the vote key is not the one in the roster"),
        "{text}"
    );
    organism.wipe("v2");
    let own_key = format!("keys.vote={}", organism.key_file("v2-vote"));
    organism.spawn_with("v2", &[&own_key]);
    organism.start_all();
    decide_under(&organism, "3", "third");

    // Three shares of the new key are enough, the new verifier's among them.
    organism.stop("v4");
    lands(&organism, "fourth");
}

#[test]
fn a_wrong_passphrase_is_refused_and_the_right_one_still_opens_the_share() {
    let mut organism = Organism::start("passphrase");
    organism.stop("v3");
    let other = organism.place().join("verifiers/v1/share.passphrase");
    let wrong = format!("keys.share_passphrase={}", other.display());
    organism.spawn_with("v3", &[&wrong]);
    let (code, text) = organism.ended("v3");
    assert_eq!(code, Some(REFUSED), "{text}");
    assert!(text.contains("the passphrase does not open"), "{text}");
    organism.start_again("v3");
    organism.stop("v4");
    lands(&organism, "landed");
}
