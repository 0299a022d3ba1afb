//! The names of metrics in an expression, found without a parser: words that are neither in braces
//! nor quoted, and are no function, keyword or label of a grouping.

use std::collections::BTreeSet;

pub(super) fn metrics(expression: &str) -> BTreeSet<String> {
    let outside = without(&without(expression, '{', '}'), '[', ']');
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = outside.split(|c: char| !letter(c));
    words
        .filter(|word| {
            word.starts_with("outboxd_") || word.starts_with("process_") || *word == "up"
        })
        .map(str::to_owned)
        .collect()
}

fn without(text: &str, open: char, close: char) -> String {
    let mut depth = 0_usize;
    text.chars()
        .filter(|&c| {
            if c == open {
                depth += 1;
            }
            let outside = depth == 0;
            if c == close {
                depth = depth.saturating_sub(1);
            }
            outside
        })
        .collect()
}

#[test]
fn names_are_found_and_labels_are_not() {
    let expression = "sum by (job) (rate(outboxd_a_total{job=\"outboxd_x\"}[5m])) > 0 or up == 0";
    let expected = ["outboxd_a_total", "up"].map(str::to_owned);
    assert_eq!(metrics(expression), BTreeSet::from(expected));
}
