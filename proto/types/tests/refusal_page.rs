//! docs/refusals.md is the refusal table, word for word.

use redlatch_types::Refusal;

fn page() -> String {
    let mut page = String::from(
        "# Refusals\n\n\
         A refusal means that nothing happened. Its code is stable; `redlatch` exits with 3 and prints\n\
         the code, what it means and what you can do. *Not leader*, *unavailable* (exit 4) and\n\
         *indeterminate* (exit 5) are answers of a process and stand in none of these rows.\n\n\
         | code | what it means | what you can do |\n|---|---|---|\n",
    );
    for refusal in Refusal::ALL {
        page += &format!(
            "| `{}` | {} | {} |\n",
            refusal.code(),
            refusal.what(),
            refusal.hint()
        );
    }
    page
}

#[test]
fn the_page_is_the_table() {
    let written = include_str!("../../../docs/refusals.md");
    let expected = page();
    for (line, (is, should)) in written.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should, "docs/refusals.md line {}", line + 1);
    }
    assert_eq!(written, expected);
}
