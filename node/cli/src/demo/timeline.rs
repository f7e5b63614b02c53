//! What the demo prints: scenes, commands, leaves with their positions, assertions that held.

use std::fmt::Display;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_types::records::Text;

use crate::output;

/// Digits of a digest that are shown.
const SHORT: usize = 12;

/// A new scene.
///
/// # Errors
/// [`Failure`] if nothing can be written.
pub(super) fn scene(title: &str) -> Result<(), Failure> {
    line(&format!("\n== {title}"))
}

/// A command as it would be typed.
///
/// # Errors
/// As [`scene`].
pub(super) fn typed(command: &str) -> Result<(), Failure> {
    line(&format!("$ {command}"))
}

/// A leaf that was read.
///
/// # Errors
/// As [`scene`].
pub(super) fn leaf(position: u64, word: &str, text: &str) -> Result<(), Failure> {
    line(&format!("{position:>6}  {word:<16} {text}"))
}

/// What belongs to the leaf above.
///
/// # Errors
/// As [`scene`].
pub(super) fn below(word: &str, text: &str) -> Result<(), Failure> {
    line(&format!("{:>6}  {word:<16} {text}", ""))
}

/// An assertion that held.
///
/// # Errors
/// As [`scene`].
pub(super) fn held(text: &str) -> Result<(), Failure> {
    line(&format!("    ok  {text}"))
}

fn line(text: &str) -> Result<(), Failure> {
    let (break_before, text) = match text.strip_prefix('\n') {
        Some(rest) => ("\n", rest),
        None => ("", text),
    };
    // Others' words are their own: nothing in them moves the reader's cursor.
    let clean: String = text
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it })
        .collect();
    output::put(&format!("{break_before}{}\n", clean.trim_end())).map(|_| ())
}

/// Asserts.
///
/// # Errors
/// [`Failure`] that says what was expected and what was seen.
pub(super) fn expect(
    holds: bool,
    expected: impl Display,
    seen: impl Display,
) -> Result<(), Failure> {
    if holds {
        Ok(())
    } else {
        let text = format!("expected {expected}; saw {seen}");
        Err(Failure::new(ExitCode::Error, text))
    }
}

/// A digest or object id, cut short.
pub(super) fn short(id: impl Display) -> String {
    let text = Text::lossy(&id.to_string()).to_string();
    match text.get(..SHORT) {
        Some(head) if text.len() > SHORT => format!("{head}…"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assertion_that_fails_says_both_sides() {
        assert_eq!(expect(true, "a", "b"), Ok(()));
        let failure = expect(false, "one marker", 2).expect_err("does not hold");
        assert_eq!(failure.text, "expected one marker; saw 2");
        assert_eq!(failure.code, ExitCode::Error);
    }

    #[test]
    fn only_long_ids_are_cut() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short("ab".repeat(20)), "abababababab…");
    }
}
