//! Rust sources by lines: the raw text, the code without comments and string contents, and
//! whether a line belongs to tests.
//!
//! Not a parser: it knows comments, strings, character literals and rustfmt's indentation.

use std::path::Path;

/// One line of a source file.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// As in the file.
    pub(crate) raw: String,
    /// Without comments; strings are empty quotes.
    pub(crate) code: String,
    /// Inside an item under `#[cfg(test)]`, or in a file of tests.
    pub(crate) test: bool,
}

/// One source file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> Source {
        let code = strip(text);
        let raw = text.split('\n').map(str::to_owned);
        let mut lines: Vec<Line> = raw
            .zip(code)
            .map(|(raw, code)| Line {
                raw,
                code,
                test: false,
            })
            .collect();
        if text.ends_with('\n') {
            lines.pop();
        }
        let gated = lines
            .iter()
            .any(|line| line.code.starts_with("#![cfg(test)]"));
        mark_tests(&mut lines, gated || is_test_path(path));
        Source {
            path: path.to_owned(),
            lines,
        }
    }

    /// Numbered lines that reach production.
    pub(crate) fn production(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.lines.iter().enumerate();
        numbered
            .filter(|(_, line)| !line.test)
            .map(|(index, line)| (index + 1, line.code.as_str()))
    }

    /// Part of a binary that is delivered: not tests, not benchmarks, not what stands in a workspace of its own beside
    /// them, not the simulated world.
    pub(crate) fn shipped(&self) -> bool {
        let outside = ["tests/", "sim/"];
        let inside = outside.iter().any(|folder| self.path.starts_with(folder));
        let beside = ["/benches/", "/fuzz/", "/cross/"];
        !inside && !beside.iter().any(|folder| self.path.contains(folder))
    }
}

/// Every Rust file of the checkout.
pub(crate) fn all() -> Vec<Source> {
    let root = redlatch_tests::repository();
    let mut sources: Vec<Source> = files()
        .iter()
        .filter(|path| path.ends_with(".rs"))
        .map(|path| Source::parse(path, &read(&root, path)))
        .collect();
    mark_test_modules(&mut sources);
    sources
}

/// Every file of the checkout, as paths from its root, sorted.
pub(crate) fn files() -> Vec<String> {
    let root = redlatch_tests::repository();
    let mut found = files_below(&root);
    found.sort();
    found
}

/// Folders that hold nothing written by people: build output marks itself with a tag file.
fn is_generated(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default();
    [".git", ".dev", "target"].iter().any(|it| name == *it) || folder.join("CACHEDIR.TAG").exists()
}

fn files_below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("the checkout is readable") {
            let path = entry.expect("the checkout is readable").path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() && !is_generated(&path) {
                open.push(path);
            } else if path.is_file() {
                let path = path.strip_prefix(root).expect("walked from the root");
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found
}

/// The text of one file; empty if it is gone or is not text.
pub(crate) fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

/// Does `code` contain `pattern`, not as a part of a longer word?
pub(crate) fn mentions(code: &str, pattern: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let opens = pattern.starts_with(word);
    let closes = pattern.ends_with(word);
    code.match_indices(pattern).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + pattern.len()..].chars().next();
        let inside = opens && before.is_some_and(word) || closes && after.is_some_and(word);
        !inside
    })
}

/// The number of spaces a line begins with.
pub(crate) fn indent(code: &str) -> usize {
    code.len() - code.trim_start().len()
}

fn is_test_path(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("_test.rs")
}

/// Marks each item under `#[cfg(test)]`, up to the closing brace at the item's own indentation.
fn mark_tests(lines: &mut [Line], whole_file: bool) {
    let mut index = 0;
    while index < lines.len() {
        let code = lines[index].code.trim_start().to_owned();
        let gated = code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test");
        if !gated {
            lines[index].test = whole_file;
            index += 1;
            continue;
        }
        let end = item_end(lines, index);
        for line in &mut lines[index..=end] {
            line.test = true;
        }
        index = end + 1;
    }
}

/// The last line of the item whose attributes begin at `from`.
pub(crate) fn item_end(lines: &[Line], from: usize) -> usize {
    let depth = indent(&lines[from].code);
    for (index, line) in lines.iter().enumerate().skip(from) {
        let code = line.code.trim();
        let attribute = code.starts_with("#[") || code.is_empty();
        if attribute || indent(&line.code) != depth {
            continue;
        }
        let closes = code.starts_with('}') || code.ends_with(';') || code.ends_with('}');
        if closes || code.ends_with(',') {
            return index;
        }
    }
    lines.len() - 1
}

/// `#[cfg(test)] mod name;` makes `name.rs` and everything below it a file of tests.
fn mark_test_modules(sources: &mut [Source]) {
    let mut files = Vec::new();
    for source in sources.iter() {
        for line in source.lines.iter().filter(|line| line.test) {
            let code = line.code.trim().trim_start_matches("pub(crate) ");
            let name = code
                .strip_prefix("mod ")
                .and_then(|it| it.strip_suffix(';'));
            if let Some(name) = name {
                files.push(module_stem(&source.path, name));
            }
        }
    }
    for source in sources {
        let stem = source.path.trim_end_matches(".rs");
        let inside = |file: &String| stem == file || stem.starts_with(&format!("{file}/"));
        if files.iter().any(inside) {
            for line in &mut source.lines {
                line.test = true;
            }
        }
    }
}

/// Path without `.rs` of the module `name` declared in the file `path`.
fn module_stem(path: &str, name: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let (folder, file) = stem.rsplit_once('/').unwrap_or(("", stem));
    match file {
        "lib" | "main" | "mod" => format!("{folder}/{name}"),
        _ => format!("{stem}/{name}"),
    }
}

/// What the scanner is inside of.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Code,
    Comment { depth: usize },
    Text,
    RawText { hashes: usize },
}

/// The code of each line of `text`.
fn strip(text: &str) -> Vec<String> {
    let mut inside = Inside::Code;
    text.split('\n')
        .map(|line| strip_line(line, &mut inside))
        .collect()
}

fn strip_line(line: &str, inside: &mut Inside) -> String {
    let chars: Vec<char> = line.chars().collect();
    let mut code = String::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        at += match *inside {
            Inside::Code if rest.starts_with(&['/', '/']) => break,
            Inside::Code => strip_code(rest, &mut code, inside),
            Inside::Comment { depth } => strip_comment(rest, depth, inside),
            Inside::Text if rest[0] == '\\' => 2,
            Inside::Text if rest[0] == '"' => close_text(&mut code, inside, 1),
            Inside::RawText { hashes } if ends_raw(rest, hashes) => {
                close_text(&mut code, inside, 1 + hashes)
            }
            Inside::Text | Inside::RawText { .. } => 1,
        };
    }
    code
}

/// Copies one piece of code, or enters a comment or a string; answers how many characters it took.
fn strip_code(rest: &[char], code: &mut String, inside: &mut Inside) -> usize {
    if rest.starts_with(&['/', '*']) {
        *inside = Inside::Comment { depth: 1 };
        return 2;
    }
    let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if rest[0] == 'r' && (!after_word || code.ends_with('b')) {
        let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
        if rest.get(1 + hashes) == Some(&'"') {
            code.push('"');
            *inside = Inside::RawText { hashes };
            return 2 + hashes;
        }
    }
    if rest[0] == '"' {
        *inside = Inside::Text;
    }
    if let Some(length) = character_literal(rest) {
        code.push_str("' '");
        return length;
    }
    code.push(rest[0]);
    1
}

/// The length of a character literal; a lifetime is none.
fn character_literal(rest: &[char]) -> Option<usize> {
    if rest[0] != '\'' {
        return None;
    }
    if rest.get(1) == Some(&'\\') {
        let close = rest.iter().skip(3).position(|c| *c == '\'')?;
        return Some(close + 4);
    }
    (rest.get(2) == Some(&'\'')).then_some(3)
}

fn strip_comment(rest: &[char], depth: usize, inside: &mut Inside) -> usize {
    if rest.starts_with(&['/', '*']) {
        *inside = Inside::Comment { depth: depth + 1 };
        return 2;
    }
    if rest.starts_with(&['*', '/']) {
        *inside = match depth {
            1 => Inside::Code,
            _ => Inside::Comment { depth: depth - 1 },
        };
        return 2;
    }
    1
}

fn close_text(code: &mut String, inside: &mut Inside, length: usize) -> usize {
    code.push('"');
    *inside = Inside::Code;
    length
}

fn ends_raw(rest: &[char], hashes: usize) -> bool {
    rest[0] == '"' && rest[1..].iter().take_while(|c| **c == '#').count() >= hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> Vec<String> {
        Source::parse("x/src/a.rs", text)
            .lines
            .into_iter()
            .map(|line| line.code)
            .collect()
    }

    #[test]
    fn comments_and_string_contents_are_not_code() {
        let text = "let a = \"tokio // \\\" \"; // tokio\n/* tokio\n/* x */ tokio */ let b = 'x';\nlet c = r#\"tokio \" \n tokio\"#; let d: &'a str;\n";
        let expected = [
            "let a = \"\"; ",
            "",
            " let b = ' ';",
            "let c = \"",
            "\"; let d: &'a str;",
        ];
        assert_eq!(code_of(text), expected);
    }

    #[test]
    fn quotes_in_character_literals_do_not_open_a_string() {
        assert_eq!(
            code_of("f('\"', '\\'', '\\u{41}') // \"\nx"),
            ["f(' ', ' ', ' ') ", "x"]
        );
    }

    #[test]
    fn an_item_under_cfg_test_is_no_production() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n#[cfg(test)]\nuse x;\nfn c() {}\n";
        let source = Source::parse("x/src/a.rs", text);
        let production: Vec<usize> = source.production().map(|(number, _)| number).collect();
        assert_eq!(production, [1, 9]);
    }

    #[test]
    fn a_module_declared_under_cfg_test_is_a_file_of_tests() {
        let mut sources = [
            Source::parse("x/src/sign.rs", "#[cfg(test)]\nmod checks;\nmod real;\n"),
            Source::parse("x/src/sign/checks.rs", "fn a() {}\n"),
            Source::parse("x/src/sign/real.rs", "fn a() {}\n"),
        ];
        mark_test_modules(&mut sources);
        assert_eq!(sources.map(|it| it.production().count()), [1, 0, 1]);
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_one() {
        assert!(mentions("use tokio::time", "tokio"));
        assert!(!mentions("use my_tokio::time", "tokio"));
        assert!(!mentions("use tokio_util", "tokio"));
        assert!(mentions("x.unwrap()", ".unwrap()"));
    }

    #[test]
    fn the_checkout_has_sources() {
        let files = files();
        assert!(files.contains(&"tests/tidy.rs".to_owned()), "{files:?}");
        assert!(!files.iter().any(|path| path.starts_with(".git/")));
    }

    #[test]
    fn build_output_below_the_root_is_not_read() {
        let folder = redlatch_tests::StateFolder::new("walk");
        let output = folder.process("output");
        std::fs::write(output.join("CACHEDIR.TAG"), "").expect("ours");
        std::fs::write(output.join("generated.rs"), "").expect("ours");
        std::fs::write(folder.process("src").join("a.rs"), "").expect("ours");
        assert_eq!(files_below(folder.path()), ["src/a.rs"]);
    }
}
