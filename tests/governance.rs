//! Persons decide on nine real processes: what governs the organism, effects that are no landing, and what a
//! policy may decide alone (SPEC E.9, F.3, H.1; DESIGN §5, §9).

use redlatch_tests::caller::Caller;
use redlatch_tests::cluster::PATIENCE;
use redlatch_tests::eventually;
use redlatch_tests::home::Home as _;
use redlatch_tests::organism::Organism;
use redlatch_tests::process::Answer;
use redlatch_types::Canonical as _;
use redlatch_types::event::{Basis, Event};

const REFUSED: i32 = 3;
const UNAVAILABLE: i32 = 4;
/// Longer than any decision takes, seconds.
const WAIT: u32 = 60;

/// A mode by its word, with something to rest on.
fn mode(organism: &Organism, word: &str) -> Vec<String> {
    let proof = organism.file("proof", "every gate passed\n");
    let plan = organism.file("plan", "back to HUMAN_GATED\n");
    let words = ["mode", word, "--evidence", &proof, "--rollback-plan", &plan];
    words.map(str::to_owned).to_vec()
}

fn words(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

/// The intent that waits for a person.
fn waits_for_a_person(organism: &Organism) -> String {
    eventually("an intent waits for a person", PATIENCE, || {
        let tail = organism.tool(&["-o", "json", "journal", "tail", "--from", "0"]);
        let leaves = tail.out.lines().rev();
        let mut leaves = leaves.map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let frozen = leaves.find_map(|leaf| leaf.filter(|it| it["event"] == "frozen"))?;
        let intent = frozen["fields"]["intent"].as_str()?.to_owned();
        let shown = organism.tool(&["-o", "json", "intent", "show", &intent]);
        let decision = shown.json()["decision"].to_string();
        decision
            .contains("0 of 1 persons approve")
            .then_some(intent)
    })
}

#[track_caller]
fn refused(answer: &Answer, code: &str) {
    answer.says(REFUSED, &[&format!("refused: {code}")]);
}

#[test]
fn persons_decide_what_governs_and_every_landing_where_only_they_may() {
    let organism = Organism::start("governance");
    organism.put_in_force(&words(&mode(&organism, "HUMAN_GATED")));
    let status = organism.status();
    assert_eq!(status["mode"], "HUMAN_GATED");
    assert_eq!(status["autonomy_epoch"], "3");

    // No quorum decides a landing now. It waits for a person, and nobody who proposed it is one.
    let commit = organism.commit("gated");
    let intent = std::cell::OnceCell::new();
    let landed = std::thread::scope(|scope| {
        let landing = scope.spawn(|| organism.land(&commit, WAIT));
        let intent = intent.get_or_init(|| waits_for_a_person(&organism));
        let approved = organism.approve("deputy", intent);
        assert_eq!(approved.code, Some(0), "{approved:#?}");
        assert_eq!(approved.json()["stage"], "committed");
        landing.join().expect("it ends")
    });
    landed.says(0, &["approved by deputy"]);
    assert_eq!(organism.head(), Some(commit));
    // No tool takes from the gate what the gate alone makes.
    let landing = intent.get().expect("found above");
    let claimed = organism.tool_as("gate", &[], &["effect", "claim", landing]);
    claimed.says(REFUSED, &["land is no effect of an effector"]);

    // Whoever proposes does not approve, and only the key of the person who is asked counts.
    let back = mode(&organism, "POLICY_AUTONOMOUS");
    let proposal = [&["propose"], &words(&back)[..]].concat();
    let own = organism.tool_as("approver", &[], &proposal);
    assert_eq!(own.code, Some(0), "{own:#?}");
    let intent = own.json()["intent"].as_str().expect("a digest").to_owned();
    refused(&organism.approve("approver", &intent), "approver_excluded");
    let nobody = organism.tool_as("operator", &[], &["approve", &intent, "--yes"]);
    assert_eq!(nobody.code, Some(2), "{nobody:#?}");

    // From now on two persons must approve, one of them twice is one, and every verifier must.
    let printed = organism.tool(&["constitution"]);
    let edited = printed
        .out
        .replace(
            "human_approvals_required = 1",
            "human_approvals_required = 2",
        )
        .replace("quorum_threshold = 3", "quorum_threshold = 4");
    assert_ne!(edited, printed.out);
    let file = organism.file("constitution.toml", &edited);
    organism.put_in_force(&["constitution", &file]);
    let intent = organism.propose(&words(&mode(&organism, "POLICY_AUTONOMOUS")));
    for _ in 0..2 {
        let alone = ["approve", &intent, "--yes", "--wait", "2"];
        let alone = organism.tool_as("approver", &[], &alone);
        alone.says(UNAVAILABLE, &["held: 1 of 2 persons approve"]);
    }
    // The leader still holds the first person's approval, so the second one's is enough.
    let approved = organism.approve("deputy", &intent);
    assert_eq!(approved.code, Some(0), "{approved:#?}");
    assert_eq!(approved.json()["stage"], "in_force");
    let status = organism.status();
    assert_eq!(status["mode"], "POLICY_AUTONOMOUS");
    assert_eq!(status["constitution_epoch"], "2");

    // The quorum decides again, under the constitution and the epoch that are in force now.
    let commit = organism.commit("again");
    organism.land(&commit, WAIT).says(0, &["4 votes opened"]);
    assert_eq!(organism.head(), Some(commit));
}

#[test]
fn a_policy_decides_alone_what_its_clause_covers_and_only_on_its_runners_receipts() {
    let organism = Organism::start("policy");
    let key = organism.tool(&["-o", "json", "status"]);
    assert_eq!(key.code, Some(0), "{key:#?}");
    let runner = organism.public_key("runner");
    let clause = |gate: &str| {
        format!(
            "\n[[policy_clauses]]\nname = \"tested\"\nactions = [\"land\"]\nrisks = [\"low\"]\n\
             resources = [\"demo:refs/heads/\"]\nrequired_gates = [\"{gate}\"]\nrunners = [\"{runner}\"]\n"
        )
    };
    let amend = |gate: &str| {
        let printed = organism.tool(&["constitution"]).out;
        let without = printed.replace("policy_clauses = []\n", "");
        let kept = without.split("[[policy_clauses]]").next().expect("a part");
        let file = organism.file("constitution.toml", &(kept.to_owned() + &clause(gate)));
        organism.put_in_force(&["constitution", &file]);
    };
    amend("gate");
    let commit = organism.commit("tested");
    let landed = organism.land(&commit, WAIT);
    landed.says(0, &["by policy tested"]);
    assert_eq!(organism.head(), Some(commit.clone()));

    // A gate that never ran: the receipts are not what the clause asks for, and nobody else decides.
    amend("other");
    let second = organism.commit("untested");
    organism
        .land(&second, 5)
        .says(REFUSED, &["insufficient_quorum"]);
    assert_eq!(organism.head(), Some(commit));
}

#[test]
fn a_release_is_promoted_by_a_person_claimed_by_its_effector_and_never_twice() {
    let mut organism = Organism::start("release");
    organism.reconfigure("sentinel", |text| {
        text.replacen("allowed = [", "allowed = [\n    \"stage:channels/\",", 1)
    });
    for (name, kind) in [("effector", "gate"), ("releaser", "agent")] {
        let key = organism.new_key(name);
        let enrol = ["subject", "enrol", name, "--kind", kind, "--key", &key];
        organism.put_in_force(&[&enrol[..], &["--scope", "stage"]].concat());
    }
    // A rotation that names no scope keeps them: the new key claims in the same realm.
    let key = organism.new_key("effector-next");
    organism.put_in_force(&["subject", "rotate", "effector", "--key", &key]);
    let (effector, releaser) = (
        organism.key_file("effector-next"),
        organism.key_file("releaser"),
    );
    let effector = [("REDLATCH_SIGNING_KEY", effector.as_str())];
    let releaser = [("REDLATCH_SIGNING_KEY", releaser.as_str())];
    let release = |old: &str, new: &str| {
        let what = ["propose", "release", "--realm", "stage"];
        let path = ["--path", "channels/stable", "--old", old, "--new", new];
        let proposed = organism.tool_as("agent", &releaser, &[&what[..], &path].concat());
        assert_eq!(proposed.code, Some(0), "{proposed:#?}");
        assert_eq!(proposed.json()["decided_by"], "HUMAN");
        proposed.json()["intent"]
            .as_str()
            .expect("a digest")
            .to_owned()
    };
    let claim = |intent: &str| organism.tool_as("gate", &effector, &["effect", "claim", intent]);
    let report = |intent: &str, outcome: &str| {
        let report = ["effect", "report", intent, outcome];
        organism.tool_as("gate", &effector, &report)
    };
    let first = release("", "aa01");
    let stale = release("", "bb02");
    assert_eq!(claim(&first).code, Some(REFUSED), "nothing is committed");
    let approved = organism.approve("approver", &first);
    assert_eq!(approved.json()["stage"], "committed", "{approved:#?}");
    let claimed = claim(&first);
    assert_eq!(claimed.code, Some(0), "{claimed:#?}");
    assert_eq!(claimed.json()["new"], "aa01");
    assert_eq!(
        claim(&first).json(),
        claimed.json(),
        "a repeat is the same claim"
    );
    // While the effect is out, nothing else may change the channel.
    let waiting = ["approve", &stale, "--yes", "--wait", "3"];
    let waiting = organism.tool_as("approver", &[], &waiting);
    assert_ne!(waiting.code, Some(0), "{waiting:#?}");
    let reported = report(&first, "done");
    assert_eq!(reported.code, Some(0), "{reported:#?}");
    assert_eq!(claim(&first).code, Some(REFUSED), "it is made");

    // What was decided about another head ends; a new one that names the head as it is goes through.
    let shown = organism.tool(&["-o", "json", "intent", "show", &stale]);
    assert!(!shown.out.contains("committed"), "{shown:#?}");
    let next = release("aa01", "cc03");
    let approved = organism.approve("deputy", &next);
    assert_eq!(approved.code, Some(0), "{approved:#?}");
    assert_eq!(claim(&next).code, Some(0));
    // An effect that nobody can tell of keeps the channel until a person says how it ended.
    assert_eq!(report(&next, "outcome_unknown").code, Some(0));
    let transaction = report(&next, "outcome_unknown").json()["transaction"].clone();
    let transaction = transaction.as_str().expect("an id").to_owned();
    let blocked = release("aa01", "dd04");
    let approve = ["approve", &blocked, "--yes", "--wait", "3"];
    assert_ne!(organism.tool_as("approver", &[], &approve).code, Some(0));
    organism.put_in_force(&["resolve", &transaction, "done", "--head", "cc03"]);
    let last = release("cc03", "ee05");
    let approved = organism.approve("deputy", &last);
    assert_eq!(approved.code, Some(0), "{approved:#?}");
    // A node that is not asked could be the one that knows of a stop.
    let config = std::fs::read_to_string(organism.place().join("clients/gate/client.toml"));
    let config = config.expect("made by init");
    let lines = config.lines().filter(|line| !line.starts_with("n3 = "));
    let without = lines.collect::<Vec<_>>().join("\n");
    assert_ne!(without.lines().count(), config.lines().count(), "{config}");
    let folder = organism.place().join("clients/two");
    std::fs::create_dir(&folder).expect("writable");
    std::fs::write(folder.join("client.toml"), without).expect("writable");
    let partly = organism.tool_as("two", &effector, &["effect", "claim", &last]);
    partly.says(2, &["every voter is asked"]);
    // What was claimed before a stop is not made after it, however often it is claimed.
    assert_eq!(claim(&last).code, Some(0));
    let order = ["red", "raise", "--scope", "everything", "--reason", "drill"];
    let raised = organism.tool(&order);
    assert_eq!(raised.code, Some(0), "{raised:#?}");
    claim(&last).says(REFUSED, &["claimed, and refused since"]);
}

/// Whether the first stop has ended, and stays ended: `status` names a latch only until it is acknowledged.
fn is_terminal(organism: &Organism) -> bool {
    let shown = organism.tool(&["-o", "json", "red", "show"]).json();
    shown["latches"][0]["terminal_at"].is_string()
}

#[test]
fn a_person_reopens_what_a_red_froze_and_everybody_begins_again_at_the_bottom() {
    let organism = Organism::start("reset");
    let first = organism.commit("before");
    organism.land(&first, WAIT).says(0, &[]);
    let order = ["red", "raise", "--scope", "everything", "--reason", "drill"];
    let raised = organism.tool(&order);
    assert_eq!(raised.code, Some(0), "{raised:#?}");
    eventually("the stop is terminal", PATIENCE, || {
        is_terminal(&organism).then_some(())
    });
    let stopped = organism.commit("stopped");
    assert_ne!(organism.land(&stopped, 5).code, Some(0));

    // Nothing but a reset passes, and a reset is a person's.
    let epoch = |organism: &Organism| organism.status()["autonomy_epoch"].clone();
    let during = epoch(&organism);
    let other = organism.propose(&words(&mode(&organism, "HUMAN_GATED")));
    let approved = organism.tool_as(
        "approver",
        &[],
        &["approve", &other, "--yes", "--wait", "5"],
    );
    assert_ne!(approved.code, Some(0), "{approved:#?}");
    organism.put_in_force(&["reset", "--cause", "the drill is over"]);
    assert_ne!(epoch(&organism), during);
    eventually("nothing is stopped", PATIENCE, || {
        (organism.status()["state"] == "green").then_some(())
    });

    // SPEC E.9: out of a freeze leads only A0, and back up one tier at a time.
    assert_eq!(organism.grant_of("agent").1, "A0");
    assert_ne!(organism.land(&stopped, 5).code, Some(0));
    organism.promote_step_by_step("agent");
    // The gate asks nodes and actuator: the latter holds no more.
    let landed = organism.land(&stopped, WAIT);
    landed.says(0, &["votes opened"]);
    assert_eq!(organism.head(), Some(stopped));
}

/// What a request says of who approves counts for nothing: a name, a credential's id or a key that is claimed but not
/// held, and who it is that brings the approval.
#[test]
fn fault_070_who_approved_is_whose_authenticator_signed_and_not_who_the_request_names() {
    let organism = Organism::start("approver");
    let authenticator = |who: &str| {
        let file = organism
            .organism()
            .join(format!("clients/{who}/authenticator.toml"));
        std::fs::read_to_string(file).expect("made by init")
    };
    let line = |text: &str, name: &str| {
        let found = text.lines().find(|line| line.starts_with(name));
        found.expect("a setting of the file").to_owned()
    };
    let with = |who: &str, file: &str, intent: &str| {
        let held = [("REDLATCH_AUTHENTICATOR", file)];
        organism.tool_as(who, &held, &["approve", intent, "--yes"])
    };
    let (approver, deputy) = (authenticator("approver"), authenticator("deputy"));

    // The deputy signs, in the approver's name and for the approver's credential.
    let forged = approver.replace(&line(&approver, "secret"), &line(&deputy, "secret"));
    assert_ne!(forged, approver);
    let forged = private(&organism, "forged.toml", &forged);
    let intent = organism.propose(&words(&mode(&organism, "HUMAN_GATED")));
    with("approver", &forged, &intent).says(REFUSED, &["bad_assertion"]);
    // Nobody has another person asked.
    with("deputy", &forged, &intent).says(REFUSED, &["unauthorized"]);

    // The approver proposes, and so does not approve; that somebody else brings the approval makes nobody else of them.
    let mode = mode(&organism, "HUMAN_GATED");
    let mut proposal = vec!["propose"];
    proposal.extend(words(&mode));
    let own = organism.tool_as("approver", &[], &proposal);
    assert_eq!(own.code, Some(0), "{own:#?}");
    let own = own.json()["intent"].as_str().expect("a digest").to_owned();
    organism
        .approve("approver", &own)
        .says(REFUSED, &["approver_excluded"]);
    let carried = private(&organism, "approver.toml", &approver);
    with("deputy", &carried, &own).says(REFUSED, &["approver_excluded"]);

    let approved = organism.approve("deputy", &own);
    assert_eq!(approved.code, Some(0), "{approved:#?}");
    assert_eq!(approvers(&organism, &own), ["deputy"]);
}

/// Who approved an intent, as the journal has it.
fn approvers(organism: &Organism, intent: &str) -> Vec<String> {
    let caller = Caller::of(organism, "clients/agent");
    eventually("the decision is on the first node", PATIENCE, || {
        let leaves = caller.leaves("n1");
        leaves.iter().find_map(|leaf| {
            let Ok(Event::Authorized(body)) = Event::from_canonical(leaf) else {
                return None;
            };
            let Basis::Human(decision, _) = body.basis else {
                return None;
            };
            let this = decision.binding.intent_digest.to_string() == intent;
            this.then(|| decision.approvers.iter().map(|it| it.to_string()).collect())
        })
    })
}

/// A file that only its owner reads, beside the organism.
fn private(organism: &Organism, name: &str, content: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = organism.file(name, content);
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, mode).expect("the file was just made");
    path
}
