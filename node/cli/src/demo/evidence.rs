//! Receipts as an auditor sees them: two files in a folder of their own, and no cluster to ask.

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};

use super::repository::text;
use super::stage::Stage;
use super::timeline::{below, expect, typed};

/// Exit code of `receipt verify` for a receipt that does not hold.
const INVALID: i32 = 1;
/// Lines of a verified receipt that are shown.
const SHOWN: [&str; 4] = ["valid", "position", "root", "event"];

/// Fetches the receipt of a leaf, and has it verified with the trust policy and nothing else; then an altered
/// one, which must not hold.
///
/// # Errors
/// [`Failure`] if a receipt is judged otherwise.
pub(super) async fn verify(
    stage: &Stage,
    name: &str,
    position: u64,
    event: &str,
) -> Result<(), Failure> {
    let auditor = stage.place().join("auditor");
    file::create_private_folder(&auditor)?;
    let at = position.to_string();
    let arguments = ["--dir", stage.dir(), "receipt", "get", "--position", &at];
    let receipt = stage.tool.done(&arguments).await?;
    let path = auditor.join(format!("{name}.tlog-proof"));
    let policy = auditor.join("trust-policy.txt");
    typed(&format!(
        "{} > auditor/{name}.tlog-proof",
        stage.tool.typed(&arguments)
    ))?;
    file::replace_file(&path, receipt.as_bytes(), Access::Public)?;
    let trust = file::read_file(&stage.organism().join("trust-policy.txt"))?;
    file::replace_file(&policy, &trust, Access::Public)?;

    let (file, policy) = (text(&path)?, text(&policy)?);
    let arguments = ["receipt", "verify", file, "--policy", policy];
    typed(&stage.tool.typed(&arguments))?;
    let said = stage.tool.done(&arguments).await?;
    for line in said.lines() {
        let (word, rest) = line.split_once("  ").unwrap_or((line, ""));
        if SHOWN.contains(&word) {
            below(word, rest.trim())?;
        }
    }
    let told = said
        .lines()
        .any(|line| line.split_whitespace().eq(["event", event]));
    expect(told, format!("a receipt of {event}"), &said)?;

    let altered = auditor.join("altered.tlog-proof");
    let bytes = alter(&receipt)?;
    file::replace_file(&altered, bytes.as_bytes(), Access::Public)?;
    let arguments = ["receipt", "verify", text(&altered)?, "--policy", policy];
    stage.tool.run(&arguments).await?.ended_with(INVALID)?;
    Ok(())
}

/// The same receipt for another position.
fn alter(receipt: &str) -> Result<String, Failure> {
    let index = receipt.lines().find(|line| line.starts_with("index "));
    let index = index.ok_or_else(|| {
        Failure::new(
            ExitCode::Error,
            "expected an index in the receipt; saw none",
        )
    })?;
    Ok(receipt.replacen(index, "index 0", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_altered_receipt_says_another_position() {
        let altered = alter("c2sp.org/tlog-proof@v1\nindex 17\nx\n").expect("altered");
        assert_eq!(altered, "c2sp.org/tlog-proof@v1\nindex 0\nx\n");
        assert!(alter("nothing").is_err());
    }
}
