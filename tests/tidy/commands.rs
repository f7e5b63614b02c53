//! Every positive command passes the one fence (DESIGN §6: a latch fences every positive verb).
//!
//! The positive commands are those that `Command::is_positive` names. The dispatch in
//! `raft/core/src/decide` calls one function for each command; that function calls `fence(`, or hands
//! over to one of the same file that does.

use crate::finding::{Finding, none};
use crate::source::{self, Source, indent, mentions};

const CORE: &str = "raft/core/src/";
const DECIDE: &str = "raft/core/src/decide";

/// A function of the core: where it is and its production code.
struct Function<'a> {
    source: &'a Source,
    line: usize,
    body: String,
}

/// All functions called `name` in files whose path begins with `folder`.
fn functions<'a>(sources: &'a [Source], folder: &str, name: &str) -> Vec<Function<'a>> {
    let mut found = Vec::new();
    let opening = format!("fn {name}");
    for source in sources.iter().filter(|it| it.path.starts_with(folder)) {
        for (line, code) in source
            .production()
            .filter(|(_, code)| mentions(code, &opening))
        {
            let close = format!("{}}}", " ".repeat(indent(code)));
            let rest = source.production().skip_while(|(number, _)| *number < line);
            let mut body = String::new();
            for (_, code) in rest {
                body.push_str(code);
                body.push('\n');
                if code.starts_with(&close) {
                    break;
                }
            }
            found.push(Function { source, line, body });
        }
    }
    found
}

/// Variants that `is_positive` answers true for.
fn positive(body: &str) -> Vec<String> {
    let by_arms = body.contains("=> true") || body.contains("=> false");
    let mut variants = Vec::new();
    let mut pending = Vec::new();
    for piece in body.split("=>") {
        if by_arms && piece.trim_start().starts_with("true") {
            variants.append(&mut pending);
        }
        pending = variants_in(piece);
    }
    if !by_arms {
        variants = variants_in(body);
    }
    variants
}

/// Names after `Command::` or `Self::`.
fn variants_in(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for prefix in ["Command::", "Self::"] {
        for rest in code.split(prefix).skip(1) {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
            if name.starts_with(char::is_uppercase) {
                found.push(name);
            }
        }
    }
    found
}

/// The function that the dispatch calls for a variant: its module, if written, and its name.
fn called(dispatch: &str, variant: &str) -> Option<(Option<String>, String)> {
    let pattern = format!("Command::{variant}");
    let at = dispatch.match_indices(&pattern).find(|(at, _)| {
        let rest = &dispatch[at + pattern.len()..];
        !rest.starts_with(|c: char| c.is_alphanumeric())
    })?;
    let (_, after) = dispatch[at.0..].split_once("=>")?;
    let (call, _) = after.split_once('(')?;
    let path = call.rsplit(['{', ' ', '\n']).next()?.trim();
    let mut segments = path.rsplit("::");
    let name = segments.next()?.to_owned();
    Some((segments.next().map(str::to_owned), name))
}

fn unfenced(sources: &[Source]) -> Vec<Finding> {
    let deciding: Vec<&Source> = sources
        .iter()
        .filter(|it| it.path.starts_with(DECIDE) && it.production().next().is_some())
        .collect();
    let Some(first) = deciding.first() else {
        return Vec::new();
    };
    let definitions = functions(sources, CORE, "is_positive");
    let variants: Vec<String> = definitions
        .iter()
        .flat_map(|it| positive(&it.body))
        .collect();
    if definitions.len() != 1 || variants.is_empty() {
        return vec![Finding::new(
            &first.path,
            0,
            "Command::is_positive does not list the positive commands",
        )];
    }
    let fences = functions(sources, CORE, "fence");
    if fences.len() != 1 {
        return vec![Finding::new(
            &first.path,
            0,
            format!("{} functions are called fence, not one", fences.len()),
        )];
    }
    let dispatch: String = deciding
        .iter()
        .flat_map(|source| source.production())
        .flat_map(|(_, code)| [code, "\n"])
        .collect();
    variants
        .iter()
        .flat_map(|variant| unfenced_variant(sources, &dispatch, variant, &first.path))
        .collect()
}

/// Does the function call the fence, itself or through one function of its own file?
fn fenced(function: &Function<'_>) -> bool {
    let file = std::slice::from_ref(function.source);
    let names = function.source.production().filter_map(|(_, code)| {
        let (_, rest) = code.split_once("fn ")?;
        rest.split(['(', '<']).next()
    });
    let mut helpers = names.filter(|name| mentions(&function.body, &format!("{name}(")));
    mentions(&function.body, "fence(")
        || helpers.any(|name| {
            let called = functions(file, CORE, name);
            called.iter().any(|it| mentions(&it.body, "fence("))
        })
}

fn unfenced_variant(
    sources: &[Source],
    dispatch: &str,
    variant: &str,
    place: &str,
) -> Vec<Finding> {
    let Some((module, name)) = called(dispatch, variant) else {
        return vec![Finding::new(
            place,
            0,
            format!("no arm `Command::{variant}(…) => function(…)`"),
        )];
    };
    let mut candidates = functions(sources, DECIDE, &name);
    if let Some(module) = module.filter(|module| module != "self") {
        let stems = [format!("/{module}.rs"), format!("/{module}/mod.rs")];
        let of_module = |path: &str| stems.iter().any(|stem| path.ends_with(stem));
        candidates.retain(|it| of_module(&it.source.path));
    }
    if candidates.is_empty() {
        return vec![Finding::new(
            place,
            0,
            format!("{variant}: fn {name} is not below {DECIDE}"),
        )];
    }
    let open = candidates.into_iter().filter(|it| !fenced(it));
    open.map(|it| {
        Finding::new(
            &it.source.path,
            it.line,
            format!("{variant}: fn {name} calls no fence("),
        )
    })
    .collect()
}

#[test]
fn every_positive_command_passes_the_fence() {
    none(
        unfenced(&source::all()),
        "A positive command is decided by its own function, and that calls fence(…) before anything else.",
    );
}

mod bad_examples {
    use super::*;
    use crate::finding::places;

    const COMMAND: &str = "impl Command {\n    pub fn is_positive(&self) -> bool {\n        matches!(\n            self,\n            Command::Prepare(_) | Command::Commit(_)\n        )\n    }\n}\n";
    const DISPATCH: &str = "fn decide() {\n    match command {\n        Command::Prepare(it) => prepare::decide(state, it),\n        Command::Commit(it) => {\n            commit(state, it)\n        }\n        Command::Latch(it) => latch(state, it),\n    }\n}\nfn commit() {\n    fence(state)?;\n}\nfn fence() {}\n";

    fn judge(command: &str, dispatch: &str, prepare: &str) -> Vec<Finding> {
        unfenced(&[
            Source::parse("raft/core/src/command.rs", command),
            Source::parse("raft/core/src/decide/mod.rs", dispatch),
            Source::parse("raft/core/src/decide/prepare.rs", prepare),
        ])
    }

    #[test]
    fn a_positive_command_without_fence_is_found() {
        let fenced = "pub fn decide() {\n    fence(state)?;\n}\n";
        assert_eq!(judge(COMMAND, DISPATCH, fenced), []);
        let handed =
            "pub fn decide() {\n    try_it(state)\n}\nfn try_it() {\n    fence(state)?;\n}\n";
        assert_eq!(judge(COMMAND, DISPATCH, handed), []);
        let open = "//! fence(\npub fn decide() {\n    // fence(state)\n}\npub fn other() {\n    fence(state);\n}\n";
        let found = judge(COMMAND, DISPATCH, open);
        assert_eq!(places(&found), [("raft/core/src/decide/prepare.rs", 2)]);
    }

    #[test]
    fn a_positive_command_without_arm_and_a_missing_list_are_found() {
        let fenced = "pub fn decide() {\n    fence(state)?;\n}\n";
        let more = COMMAND.replace(
            "Command::Commit(_)",
            "Command::Commit(_) | Command::Mint(_)",
        );
        assert_eq!(judge(&more, DISPATCH, fenced).len(), 1);
        assert_eq!(judge("", DISPATCH, fenced).len(), 1);
        assert_eq!(
            judge(COMMAND, &DISPATCH.replace("fn fence", "fn fences"), fenced).len(),
            1
        );
    }

    #[test]
    fn positive_commands_are_read_from_arms_too() {
        let body = "match self {\n    Command::A(_) | Command::B(_) => true,\n    Command::C(_) => false,\n    Self::D => true,\n}\n";
        assert_eq!(positive(body), ["A", "B", "D"]);
    }
}
