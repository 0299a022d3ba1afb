//! `docs/configuration.md`, from the definitions that the code reads.

use super::connector::{Row, tables};
use super::keys::{KEYS, limits};

/// Every key of outboxd's own, as a Markdown table.
pub fn keys_reference() -> String {
    let mut text = String::from("| key | default | meaning |\n|---|---|---|\n");
    for key in KEYS {
        let name = match key.name.strip_suffix('.') {
            Some(prefix) => format!("{prefix}.*"),
            None => key.name.to_owned(),
        };
        let default = match key.default {
            "" => String::new(),
            default => format!("`{}`", cell(default)),
        };
        let limits = match limits(key.name) {
            Some(limits) => format!(" {limits}."),
            None => String::new(),
        };
        text += &format!("| `{name}` | {default} | {}{limits} |\n", cell(key.help));
    }
    text
}

/// What becomes of every property of Kafka Connect and Debezium, one Markdown table for each place
/// where properties stand.
pub fn properties_reference() -> String {
    let mut text = String::new();
    for (title, rows) in tables() {
        text += &format!("### {title}\n\n| property | here |\n|---|---|\n");
        for Row { name, here } in rows {
            text += &format!("| `{}` | {} |\n", cell(name), cell(&here));
        }
        text += "\n";
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
