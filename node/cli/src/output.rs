//! How answers are printed: one line of JSON, or aligned text.
//!
//! Whoever reads may stop reading (`redlatch status | head`): that ends no command and changes no exit code.
//! An answer that cannot be written for another reason, such as a full disk, is a failure.

use std::io::{self, Write};

use clap::ValueEnum;
use redlatch_link::exit::{ExitCode, Failure};

use crate::answer::Answer;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Table,
    /// JSON for programs.
    Json,
}

/// Whether anybody still reads the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The text was written.
    Reads,
    /// The other end of the pipe is closed.
    Gone,
}

/// Prints an answer as one line of JSON, or as the text that `table` makes of it.
///
/// # Errors
/// As from [`put`].
pub(crate) fn print<T: Answer>(
    format: Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<Reader, Failure> {
    match format {
        Format::Json => put(&(json(value) + "\n")),
        Format::Table => put(&table(value)),
    }
}

/// Writes text to standard output. A stream of answers ends where its reader is gone.
///
/// # Errors
/// [`Failure`] if it cannot be written although somebody may still read it.
pub(crate) fn put(text: &str) -> Result<Reader, Failure> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn written(result: io::Result<()>) -> Result<Reader, Failure> {
    match result {
        Ok(()) => Ok(Reader::Reads),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => {
            let text = format!("the answer cannot be written: {error}");
            Err(Failure::new(ExitCode::Error, text).hint("the command itself was carried out"))
        }
    }
}

/// Writes a line for people to standard error. Nobody has to read it.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// An answer as one line of JSON.
pub(crate) fn json<T: Answer>(answer: &T) -> String {
    // Our own types have string keys only, so this cannot fail.
    serde_json::to_string(answer).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

/// Rows under their headings, columns aligned by two blanks.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let heading: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            let pad = width.saturating_sub(cell.chars().count()) + 2;
            line.push_str(cell);
            line.push_str(&" ".repeat(pad));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Key and value lines, values aligned.
pub(crate) fn lines(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    pairs
        .iter()
        .map(|(key, value)| format!("{key:width$}  {value}\n"))
        .collect()
}

/// A state time or wall time in milliseconds as RFC 3339 in UTC.
pub(crate) use redlatch_types::time::rfc3339 as time;

/// A line as a person reads it before they sign: nothing in somebody else's words moves the cursor, turns the
/// line around or hides in it.
pub(crate) fn clean(line: &str) -> String {
    line.chars().fold(String::new(), |mut text, it| {
        match hidden(it) {
            true => text.extend(it.escape_unicode()),
            false => text.push(it),
        }
        text
    })
}

/// Control characters, marks of direction (Unicode UAX #9) and characters without width.
fn hidden(it: char) -> bool {
    it.is_control()
        || matches!(it,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_is_no_failure_and_a_full_disk_is_one() {
        let result = |kind| written(Err(io::Error::from(kind)));
        assert_eq!(written(Ok(())), Ok(Reader::Reads));
        assert_eq!(result(io::ErrorKind::BrokenPipe), Ok(Reader::Gone));
        let failure = result(io::ErrorKind::StorageFull).expect_err("a failure");
        assert_eq!(failure.code, ExitCode::Error);
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let rows = [
            vec!["n1".into(), "leader".into()],
            vec!["node-2".into(), "x".into()],
        ];
        assert_eq!(
            table(&["NODE", "ROLE"], &rows),
            "NODE    ROLE\nn1      leader\nnode-2  x\n"
        );
    }

    #[test]
    fn nothing_in_a_proposal_hides_from_the_person_who_reads_it() {
        for (raw, shown) in [
            ("plain: änderung 改", "plain: änderung 改"),
            ("a\u{1b}[2Kb\r", "a\\u{1b}[2Kb\\u{d}"),
            ("main\u{202e}niam", "main\\u{202e}niam"),
            ("ma\u{200b}in\u{feff}", "ma\\u{200b}in\\u{feff}"),
            ("\u{2066}x\u{2069}", "\\u{2066}x\\u{2069}"),
        ] {
            assert_eq!(clean(raw), shown);
        }
    }
}
