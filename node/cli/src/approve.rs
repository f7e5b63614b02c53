//! `redlatch approve`: a person decides on a frozen intent, by their authenticator.
//!
//! ```text
//!   freeze receipt ─▶ summary, rendered here ─┐
//!   OpenChallenge ─▶ challenge receipt ───────┴─▶ same bytes? ─▶ shown ─▶ yes? ─▶ assertion ─▶ leader
//!                                                                                └─▶ what becomes of it
//! ```
//!
//! Nothing that is shown is believed: intent and challenge are proven by the trust policy, and the text is
//! rendered here from the proven intent. The authenticator signs over exactly that text.

pub(crate) mod authenticator;

use std::convert::Infallible;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use redlatch_journal::development::authenticator::SoftAssertion;
use redlatch_journal::summary::summary;
use redlatch_journal::{IndexKey, webauthn};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::event::Event;
use redlatch_types::records::{
    ChallengeRequestV1, CommonBindingSet, HumanApprovalV1, HumanKeyV1, OwnerChallengeV1,
    SovereignActionIntentV1,
};
use redlatch_types::{Bytes, Canonical, Digest, EventId, IntentDigest, Refusal, Scope, SubjectId};

use crate::answer::{Approved, Drawn};
use crate::client::{Client, Signer, random, refused};
use crate::in_force::InForce;
use crate::output::{Format, note};
use crate::watch::{End, Watch, undecided};
use crate::{Common, Done, output};

/// How long the request for a challenge is accepted, in state time.
const REQUEST_TTL_MS: u64 = 10 * 60 * 1_000;
/// How often an approval is brought again while it waits for others: a new leader does not have it.
const BRING_AGAIN: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct Approve {
    /// The intent.
    intent: IntentDigest,
    /// Do not ask; whoever runs this has read what it is about.
    #[arg(long)]
    yes: bool,
    /// How long to wait until it has taken effect, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u64,
}

/// A new authenticator, to be enrolled by `redlatch propose key enrol`.
#[derive(Args)]
pub(crate) struct NewAuthenticator {
    /// Whose it is.
    #[arg(long, value_name = "NAME")]
    person: SubjectId,
    /// Where the authenticator is written, readable by its owner alone; its public record is written beside it.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Draws an authenticator of software. Nothing is enrolled by it.
pub(crate) fn make(arguments: &NewAuthenticator, format: Format) -> Done {
    let person = arguments.person.clone();
    let key = authenticator::create(&arguments.out, person, &mut world::rng())?;
    let record = file::beside(&arguments.out, ".key");
    file::create_file(&record, &key.to_canonical(), Access::Public)?;
    let answer = Drawn {
        person: key.subject_id.to_string(),
        key: key.id().to_string(),
        authenticator: arguments.out.display().to_string(),
        record: record.display().to_string(),
    };
    output::print(format, &answer, |answer| {
        output::lines(&[
            ("key", answer.key.clone()),
            ("of", answer.person.clone()),
            ("authenticator", answer.authenticator.clone()),
            ("record", answer.record.clone()),
        ])
    })?;
    note(&format!(
        "next: redlatch propose key enrol {}",
        answer.record
    ));
    Ok(0)
}

/// A person with what they decide by.
struct Person<'a> {
    client: &'a Client,
    signer: Signer,
    in_force: InForce,
    key: HumanKeyV1,
}

pub(crate) async fn run(arguments: &Approve, common: &Common) -> Done {
    let client = Client::current(common, "approver").await?;
    let (signer, in_force) = client.signer().await?;
    if !arguments.yes && !io::stdin().is_terminal() {
        // Said before a challenge is opened: an intent has few of them.
        return Err(Failure::new(ExitCode::Usage, "nobody is there to be asked")
            .hint("run it in a terminal, or say --yes"));
    }
    let person = Person::new(&client, signer, in_force)?;
    let intent = frozen(&client, arguments.intent).await?;
    let challenge = person.ask(&arguments.intent, &intent).await?;
    output::note(&shown(&challenge));
    if !arguments.yes && !confirmed(&challenge)? {
        let text = "not approved: nothing was signed";
        return Err(Failure::new(ExitCode::Refused, text));
    }
    let scope = *client.status().await?.scope();
    let approval = person.approve(scope, &challenge)?;
    let until = Monotonic::now().plus(Duration::from_secs(arguments.wait));
    person.bring(arguments.intent, &approval, until).await?;
    let end = person.wait(arguments.intent, &approval, until).await?;
    let answer = Approved {
        intent: arguments.intent.to_string(),
        approver: challenge.approver_subject_id.to_string(),
        challenge: challenge.id().to_string(),
        stage: end.word().to_owned(),
        position: end.position().into(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("approved", answer.intent.clone()),
            ("by", answer.approver.clone()),
            ("stage", answer.stage.clone()),
            ("position", answer.position.to_string()),
        ])
    })?;
    Ok(0)
}

/// The intent of a proven freeze.
async fn frozen(client: &Client, digest: IntentDigest) -> Result<SovereignActionIntentV1, Failure> {
    let at = At::IndexKey(IndexKey::Frozen(digest).to_bytes());
    match client.proven(at).await?.0 {
        Event::Frozen(found, _, intent, _) if found == digest && intent.digest() == digest => {
            Ok(*intent)
        }
        other => Err(another(&other)),
    }
}

fn another(event: &Event) -> Failure {
    let text = format!(
        "a node gave another leaf than was asked for: {}",
        event.word()
    );
    Failure::new(ExitCode::Error, text)
}

impl<'a> Person<'a> {
    fn new(client: &'a Client, signer: Signer, in_force: InForce) -> Result<Person<'a>, Failure> {
        let (person, credential_id) = authenticator::identity(client.authenticator()?)?;
        let key = in_force.human_keys.iter().find(|key| {
            key.subject_id == person
                && key.credential_id.0 == credential_id
                && key.revoked_at_optional.is_none()
        });
        let key = key.cloned().ok_or_else(|| {
            let text = format!("no live key of {person} is enrolled for this authenticator");
            Failure::new(ExitCode::Refused, text)
                .hint("its enrolment is a decision of its own: redlatch propose key enrol")
        })?;
        Ok(Person {
            client,
            signer,
            in_force,
            key,
        })
    }

    /// Has the journal ask this person, and checks that it asks what is shown here.
    async fn ask(
        &self,
        digest: &IntentDigest,
        intent: &SovereignActionIntentV1,
    ) -> Result<OwnerChallengeV1, Failure> {
        let event = EventId(random());
        let request = ChallengeRequestV1 {
            intent_digest: *digest,
            approver_subject_id: self.key.subject_id.clone(),
            nonce: random(),
        };
        let submitted = self
            .client
            .submit_stamped(&self.signer, event, REQUEST_TTL_MS, |stamp| {
                self.signer.challenge(stamp, event, &request)
            })
            .await?;
        submitted.accepted().map_err(refused)?;
        let origin = IndexKey::Origin(self.signer.subject.subject_id.clone(), event);
        let (event, _) = self.client.proven(At::IndexKey(origin.to_bytes())).await?;
        let challenge = match event {
            Event::ChallengeIssued(id, challenge, _) if challenge.id() == id => *challenge,
            other => return Err(another(&other)),
        };
        match same(digest, intent, &self.key.subject_id, &challenge) {
            true => Ok(challenge),
            false => Err(Failure::new(
                ExitCode::Error,
                "the journal asks something else than its intent says: nothing was signed",
            )
            .hint(
                "tool and nodes must have the same version; if they have, show this to an auditor",
            )),
        }
    }

    /// The assertion over the challenge.
    fn approve(
        &self,
        scope: Scope,
        challenge: &OwnerChallengeV1,
    ) -> Result<HumanApprovalV1, Failure> {
        let constitution = &self.in_force.constitution;
        let origin = constitution.webauthn_origins.first().ok_or_else(|| {
            Failure::new(
                ExitCode::Refused,
                "the constitution allows no origin in which a person may be asked",
            )
        })?;
        let expected = webauthn::challenge(
            &scope,
            &challenge.nonce,
            &challenge.binding.intent_digest,
            &Digest::of(&challenge.canonical_summary.0),
            &challenge.approver_subject_id,
        );
        let rp_id = constitution.webauthn_rp_id.as_str();
        let file = self.client.authenticator()?;
        let answer = authenticator::answer(file, rp_id, origin.as_str(), &expected)?;
        Ok(approval(challenge, &self.key, answer))
    }

    /// Brings the approval to the leader until it is held.
    async fn bring(
        &self,
        intent: IntentDigest,
        approval: &HumanApprovalV1,
        until: Monotonic,
    ) -> Result<(), Failure> {
        let brought = v1::support_request::Support::Approval(approval.to_canonical());
        let answer = self.client.nodes.support(brought, left(until)).await?;
        if answer.refusal.is_empty() {
            let (persons, required) = (answer.persons, answer.required);
            note(&format!("held: {persons} of {required} persons approve"));
            return Ok(());
        }
        match answer.refusal.parse::<Refusal>() {
            // Others were enough: what they decided is told like one's own decision.
            Ok(Refusal::UnknownChallenge | Refusal::AlreadySpent) if self.decided(intent).await => {
                note("decided already, by others");
                Ok(())
            }
            _ => Err(undecided(&answer.refusal)),
        }
    }

    /// Whether a decision on the intent is in the journal.
    async fn decided(&self, intent: IntentDigest) -> bool {
        let at = At::IndexKey(IndexKey::Authorized(intent).to_bytes());
        let leaf = self.client.nodes.leaf(at, self.client.deadline);
        leaf.await.is_ok()
    }

    /// Waits for what becomes of the intent, and brings the approval again meanwhile.
    async fn wait(
        &self,
        intent: IntentDigest,
        approval: &HumanApprovalV1,
        until: Monotonic,
    ) -> Result<End, Failure> {
        let mut watch = Watch::new(self.client, intent).await?;
        tokio::select! {
            biased;
            end = watch.in_effect(until) => end,
            never = self.bring_again(approval) => match never {},
        }
    }

    async fn bring_again(&self, approval: &HumanApprovalV1) -> Infallible {
        loop {
            world::sleep(BRING_AGAIN).await;
            let brought = v1::support_request::Support::Approval(approval.to_canonical());
            // Refused once it is decided, and then the journal says how it ended.
            let _ = self.client.nodes.support(brought, BRING_AGAIN).await;
        }
    }
}

/// Whether the challenge is about exactly this intent, this person and the text rendered here.
fn same(
    digest: &IntentDigest,
    intent: &SovereignActionIntentV1,
    person: &SubjectId,
    challenge: &OwnerChallengeV1,
) -> bool {
    challenge.binding == CommonBindingSet::of(intent, *digest)
        && challenge.approver_subject_id == *person
        && challenge.canonical_summary.0 == summary(intent, digest).into_bytes()
}

fn left(until: Monotonic) -> Duration {
    until.since(Monotonic::now())
}

fn approval(
    challenge: &OwnerChallengeV1,
    key: &HumanKeyV1,
    answer: SoftAssertion,
) -> HumanApprovalV1 {
    let data = &answer.authenticator_data;
    let counter = data.get(33..37).and_then(|it| it.try_into().ok());
    HumanApprovalV1 {
        challenge_id: challenge.id(),
        key_id: key.id(),
        user_presence_flags: data.get(32).copied().unwrap_or_default(),
        counter: counter.map_or(0, u32::from_be_bytes),
        authenticator_data: Bytes(answer.authenticator_data),
        client_data_json: Bytes(answer.client_data_json),
        signature: Bytes(answer.signature),
        public_key: key.public_key.clone(),
    }
}

/// What the person reads before they decide.
fn shown(challenge: &OwnerChallengeV1) -> String {
    let text = String::from_utf8_lossy(&challenge.canonical_summary.0);
    let lines: Vec<String> = text.lines().map(output::clean).collect();
    let until = output::time(challenge.expires_at);
    format!(
        "{}\nasked: {}, until {until}",
        lines.join("\n"),
        challenge.approver_subject_id
    )
}

/// Asks the person; only the word itself is a yes.
fn confirmed(challenge: &OwnerChallengeV1) -> Result<bool, Failure> {
    let _ = write!(
        io::stderr().lock(),
        "type `approve` to approve as {}: ",
        challenge.approver_subject_id
    );
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failure::new(ExitCode::Error, format!("no answer: {error}")))?;
    Ok(line.trim() == "approve")
}
