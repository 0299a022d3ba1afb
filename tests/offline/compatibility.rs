//! `docs/compatibility.md` lists every wanted difference, as the table of the conformance cases has it.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use serde_json::Value;

const WRITE: &str = "OUTBOXD_WRITE_DOCS";
const DOCUMENT: &str = "docs/compatibility.md";
const DIFFERENCES: &str = "tests/data/conformance/differences.json";
const BEGIN: &str = "<!-- begin differences -->\n";
const END: &str = "<!-- end differences -->";

#[derive(Deserialize)]
struct Difference {
    debezium: String,
    outboxd: String,
    cases: BTreeMap<String, Value>,
}

#[test]
fn every_wanted_difference_is_documented() {
    let before = fs::read_to_string(DOCUMENT).unwrap();
    let text = fs::read_to_string(DIFFERENCES).unwrap();
    let differences: BTreeMap<String, Difference> = serde_json::from_str(&text).unwrap();
    let (head, rest) = before
        .split_once(BEGIN)
        .expect("the beginning of the table");
    let (_, tail) = rest.split_once(END).expect("the end of the table");
    let after = format!("{head}{BEGIN}\n{}\n{END}{tail}", table(&differences));
    if std::env::var_os(WRITE).is_some() {
        fs::write(DOCUMENT, after).unwrap();
        return;
    }
    assert_eq!(
        before, after,
        "run {WRITE}=1 cargo test --test offline compatibility"
    );
}

fn table(differences: &BTreeMap<String, Difference>) -> String {
    let mut table = "| what | Debezium 3.6 | outboxd | shown by |\n|---|---|---|---|\n".to_owned();
    for (name, difference) in differences {
        let cases: Vec<_> = difference
            .cases
            .keys()
            .map(|case| format!("`{case}`"))
            .collect();
        assert!(!cases.is_empty(), "no case shows \"{name}\"");
        table += &format!(
            "| {name} | {} | {} | {} |\n",
            difference.debezium,
            difference.outboxd,
            cases.join(", ")
        );
    }
    table
}
