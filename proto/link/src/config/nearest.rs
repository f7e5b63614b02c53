//! Edit distance between keys. It knows nothing about configuration.

/// The candidate nearest to `word`, if it is near enough to be what was meant: at most a third of the
/// longer word differs, or two letters.
pub(super) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    candidates
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(edits, candidate)| *edits <= (word.len().max(candidate.len()) / 3).max(2))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let differs = usize::from(left[i - 1] != right[j - 1]);
            let mut edits = (rows[i - 1][j - 1] + differs)
                .min(rows[i - 1][j] + 1)
                .min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                edits = edits.min(rows[i - 2][j - 2] + 1);
            }
            row.push(edits);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_single_edits() {
        let cases = [
            ("listen", "listen", 0),
            ("lisen", "listen", 1),
            ("lsiten", "listen", 1),
            ("", "abc", 3),
        ];
        for (left, right, edits) in cases {
            assert_eq!(distance(left, right), edits, "{left} {right}");
            assert_eq!(distance(right, left), edits, "{right} {left}");
        }
    }

    #[test]
    fn suggests_only_what_resembles() {
        let keys = ["address", "certificate", "diagnostics"];
        assert_eq!(nearest("adress", &keys), Some("address"));
        assert_eq!(nearest("certifcate", &keys), Some("certificate"));
        assert_eq!(nearest("colour", &keys), None);
    }
}
