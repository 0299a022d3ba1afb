//! `docs/configuration.md` says what the code does, because it is made from the same definitions.

use std::path::Path;

use outboxd::config::{Sources, keys_reference, load, properties_reference};

/// Set to write the tables into the document instead of comparing them.
const WRITE: &str = "OUTBOXD_WRITE_DOCS";
const DOCUMENT: &str = "docs/configuration.md";

#[test]
fn the_tables_of_the_document_are_those_of_the_code() {
    let before = std::fs::read_to_string(DOCUMENT).unwrap();
    let with_keys = replace(&before, "keys", &keys_reference());
    let after = replace(&with_keys, "properties", &properties_reference());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(DOCUMENT, after).unwrap();
        return;
    }
    assert_eq!(
        before, after,
        "run {WRITE}=1 cargo test --test offline configuration::documents"
    );
}

/// The text between the marks of a part.
fn replace(text: &str, part: &str, table: &str) -> String {
    let (begin, end) = (
        format!("<!-- begin {part} -->\n"),
        format!("<!-- end {part} -->"),
    );
    let (head, rest) = text
        .split_once(&begin)
        .expect("the beginning of a generated part");
    let (_, tail) = rest.split_once(&end).expect("the end of a generated part");
    format!("{head}{begin}\n{}\n{end}{tail}", table.trim_end())
}

#[test]
fn the_example_is_a_configuration() {
    let sources = Sources {
        config: Some(Path::new("docs/examples/outboxd.toml").to_owned()),
        needs_kafka: true,
        ..Sources::default()
    };
    let config = load(&sources, std::iter::empty()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.postgres.database, "shop");
    assert_eq!(config.router.topic.topic("order"), "outbox.event.order");
}
