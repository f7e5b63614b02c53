//! An excerpt of a program's output in a document: the same lines in the same order, and `…` where some are left out.
//!
//! What differs from run to run (positions, identifiers, times) counts as equal; nothing else does.

/// Where an excerpt leaves something out: a line of its own.
const GAP: &str = "…";

/// The lines of the first fenced block after the line that begins with `opening`.
pub fn block<'a>(document: &'a str, opening: &str) -> Vec<&'a str> {
    let after = document.lines().skip_while(|it| !it.starts_with(opening));
    let block = after.skip_while(|it| !it.starts_with("```")).skip(1);
    block.take_while(|it| !it.starts_with("```")).collect()
}

/// Where an excerpt departs from the whole output; none if it shows what was printed.
pub fn departure(excerpt: &[&str], whole: &str) -> Option<String> {
    let whole: Vec<String> = whole.lines().filter_map(shape).collect();
    let excerpt: Vec<String> = excerpt.iter().filter_map(|it| shape(it)).collect();
    let mut parts = excerpt.split(|line| line == GAP);
    let first = parts.next().unwrap_or_default();
    if let Some(at) = (0..first.len()).find(|at| whole.get(*at) != first.get(*at)) {
        return Some(differs(&first[at], whole.get(at)));
    }
    let mut read = first.len();
    let mut parts = parts.peekable();
    if parts.peek().is_none() && read < whole.len() {
        return Some(differs("the end", whole.get(read)));
    }
    while let Some(part) = parts.next() {
        let left = &whole[read..];
        let last = parts.peek().is_none();
        let at = if last {
            // What follows the last gap is the end, to the last line.
            left.ends_with(part).then(|| left.len() - part.len())
        } else {
            (0..=left.len().saturating_sub(part.len())).find(|at| left[*at..].starts_with(part))
        };
        match at {
            Some(at) => read += at + part.len(),
            None => return Some(missing(part, left)),
        }
    }
    None
}

fn differs(shown: &str, printed: Option<&String>) -> String {
    let printed = printed.map_or("the end", String::as_str);
    format!("shown:   {shown}\nprinted: {printed}")
}

/// Says which line of a part is not where it belongs.
fn missing(part: &[String], left: &[String]) -> String {
    let longest = (0..left.len())
        .map(|at| {
            let pairs = part.iter().zip(&left[at..]);
            (pairs.take_while(|(a, b)| a == b).count(), at)
        })
        .max_by_key(|(equal, at)| (*equal, std::cmp::Reverse(*at)));
    match (longest, part.first()) {
        (Some((equal, at)), Some(_)) if equal > 0 && equal < part.len() => {
            differs(&part[equal], left.get(at + equal))
        }
        (_, Some(first)) => format!("shown, but not printed from there on: {first}"),
        (_, None) => "nothing".to_owned(),
    }
}

/// A line without what differs from run to run; none if it is blank.
fn shape(line: &str) -> Option<String> {
    let line = line.trim_end();
    if line.is_empty() || line.trim_start() == GAP {
        return (!line.is_empty()).then(|| GAP.to_owned());
    }
    let text = line.trim_start();
    let digits = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(0);
    let positioned = digits > 0 && line.starts_with(' ') && text[digits..].starts_with(' ');
    let (start, rest) = if positioned {
        ("<position>".to_owned(), &text[digits..])
    } else {
        (line[..line.len() - text.len()].to_owned(), text)
    };
    let words = rest.split(' ').map(word);
    Some(start + &words.collect::<Vec<_>>().join(" "))
}

/// A word, or what kind of variable it is.
fn word(word: &str) -> String {
    let bare = word.trim_end_matches([',', ':', ';']);
    let tail = &word[bare.len()..];
    let hex = |text: &str| text.len() >= 8 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let kind = if bare.strip_suffix(GAP).is_some_and(hex) {
        "<id>"
    } else if bare.len() == 24 && bare.ends_with('Z') && bare.as_bytes()[10] == b'T' {
        "<time>"
    } else {
        bare
    };
    format!("{kind}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "== one\n$ go\n     4  FROZEN  intent 2b89928a7d70…: main\n        GREEN   until 2026-11-30T13:37:07.156Z\n    ok  first\n\n== two\n    12  LATCH   latch 1\n    ok  second\n\nall held\n";

    fn of(text: &str) -> Option<String> {
        departure(&text.lines().collect::<Vec<_>>(), PRINTED)
    }

    #[test]
    fn what_was_printed_may_be_left_out_where_the_excerpt_says_so() {
        for shown in [
            PRINTED,
            "…\n",
            "== one\n…\n",
            "…\nall held\n",
            "== one\n$ go\n  …\n    ok  first\n== two\n…\nall held",
            "…\n    17  FROZEN  intent 0123456789ab…: main\n        GREEN   until 1999-01-01T00:00:00.000Z\n    ok  first\n…",
        ] {
            assert_eq!(of(shown), None, "{shown}");
        }
    }

    #[test]
    fn every_departure_is_found() {
        let departures = [
            // Left out without a word.
            (
                "== one\n…\n        GREEN   until 2026-11-30T13:37:07.156Z\n== two\n…",
                "ok  first",
            ),
            ("$ go\n…", "== one"),
            ("== one\n…\n    ok  second", "ok  second"),
            ("== one\n$ go", "FROZEN"),
            // In another order, another text, added.
            ("…\n== two\n…\n== one\n…", "== one"),
            ("…\n    12  LATCH   latch 2\n…", "latch 2"),
            ("…\nall held\nand more", "and more"),
            ("…\n    12  LATCH  latch 1\n…", "LATCH  latch"),
        ];
        for (shown, names) in departures {
            let found = of(shown).unwrap_or_else(|| panic!("nothing found in {shown}"));
            assert!(found.contains(names), "{shown}\n{found}");
        }
    }

    #[test]
    fn a_block_is_the_first_after_its_opening() {
        let text = "```sh\na\n```\nWhat it prints:\n\n```text\nb\nc\n```\n```text\nd\n```\n";
        assert_eq!(block(text, "What it prints"), ["b", "c"]);
        assert!(block(text, "What else").is_empty());
    }
}
