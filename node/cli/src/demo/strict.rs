//! Too many verifiers with a stricter rule: the landing is refused, and the findings say which rule it was.

use redlatch_link::exit::Failure;
use redlatch_types::event::Event;

use super::journal::whole;
use super::landing::{self, Landing, Step};
use super::repository::Repository;
use super::stage::Stage;
use super::timeline::{below, expect, held, scene};

/// Exit code of a refusal.
const REFUSED: i32 = 3;

/// Plays the refused landing.
///
/// # Errors
/// [`Failure`] if it lands, or is refused for another reason.
pub(super) async fn play(
    stage: &Stage,
    repository: &Repository,
    strict: u8,
) -> Result<(), Failure> {
    scene(&format!(
        "a commit that {strict} of 4 verifiers reject is refused"
    ))?;
    let content = "A change that is larger than these verifiers like.\n".repeat(5);
    let commit = repository.commit("CHANGES", &content)?;
    landing::attest(stage, repository, &commit).await?;
    let from = stage.size().await?;
    let mut landing = Landing::start(stage, repository, &commit, from).await?;
    landing.read_until(stage, Step::Frozen).await?;
    let intent = landing.intent()?;
    for verifier in (5 - strict)..=4 {
        let vote = landing::findings(stage, intent, &format!("v{verifier}")).await?;
        below(
            "vote",
            &format!("{} {} {}", vote.verifier, vote.verdict, vote.failure_domain),
        )?;
        landing::tell_findings(&vote)?;
        landing::expect_too_large(&vote)?;
    }
    let ran = landing.end().await?.ended_with(REFUSED)?;
    below("land", ran.error())?;
    let code = ran.error().contains("insufficient_quorum");
    expect(code, "insufficient_quorum", ran.error())?;
    repository.expect_head(None)?;
    held("the branch does not exist")?;
    for name in stage.nodes()? {
        let leaves = whole(&stage.node(&name)?).await?;
        let decided = leaves
            .iter()
            .any(|(event, _)| matches!(event, Event::Authorized(..) | Event::Committed(..)));
        expect(!decided, format!("no decision on {name}"), "one")?;
    }
    held("no node's journal has a decision or a marker")
}
