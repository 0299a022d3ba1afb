//! `docs/compatibility.md` lists every wanted difference, as the table of the conformance cases has it.

use std::collections::BTreeMap;
use std::fs;

use outboxd::check::DIFFERENCES;
use serde::Deserialize;
use serde_json::Value;

const WRITE: &str = "OUTBOXD_WRITE_DOCS";
const DOCUMENT: &str = "docs/compatibility.md";
const CASES: &str = "tests/data/conformance/differences.json";
const BEGIN: &str = "<!-- begin differences -->\n";
const END: &str = "<!-- end differences -->";

/// What no recorded case can show, and the test that holds it.
const WITHOUT_CASES: &[(&str, &str)] = &[(
    "context headers",
    "the_context_of_a_run_is_told_where_that_is_asked_for",
)];

#[derive(Deserialize)]
struct Difference {
    cases: BTreeMap<String, Value>,
}

#[test]
fn every_wanted_difference_is_documented() {
    let before = fs::read_to_string(DOCUMENT).unwrap();
    let text = fs::read_to_string(CASES).unwrap();
    let cases: BTreeMap<String, Difference> = serde_json::from_str(&text).unwrap();
    for name in cases.keys() {
        let is_known = DIFFERENCES.iter().any(|difference| difference.name == name);
        assert!(is_known, "the code's table lacks \"{name}\"");
    }
    let (head, rest) = before
        .split_once(BEGIN)
        .expect("the beginning of the table");
    let (_, tail) = rest.split_once(END).expect("the end of the table");
    let after = format!("{head}{BEGIN}\n{}\n{END}{tail}", table(&cases));
    if std::env::var_os(WRITE).is_some() {
        fs::write(DOCUMENT, after).unwrap();
        return;
    }
    assert_eq!(
        before, after,
        "run {WRITE}=1 cargo test --test offline compatibility"
    );
}

fn table(cases: &BTreeMap<String, Difference>) -> String {
    let mut table = "| what | Debezium 3.6 | outboxd | shown by |\n|---|---|---|---|\n".to_owned();
    for difference in DIFFERENCES {
        let name = difference.name;
        let mut shown_by: Vec<String> = cases
            .get(name)
            .into_iter()
            .flat_map(|difference| difference.cases.keys())
            .map(|case| format!("`{case}`"))
            .collect();
        let tests = WITHOUT_CASES.iter().filter(|(without, _)| *without == name);
        shown_by.extend(tests.map(|(_, test)| format!("`{test}`")));
        assert!(!shown_by.is_empty(), "nothing shows \"{name}\"");
        table += &format!(
            "| {name} | {} | {} | {} |\n",
            difference.debezium,
            difference.outboxd,
            shown_by.join(", ")
        );
    }
    table
}

#[test]
fn differences_stand_in_the_order_of_their_names() {
    assert!(DIFFERENCES.is_sorted_by_key(|difference| difference.name));
}
