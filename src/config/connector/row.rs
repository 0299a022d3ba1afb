//! One property through its row of the table.

use super::Out;
use super::file::Properties;
use super::table::{self, As, Property, Treatment};
use crate::config::nearest::nearest;
use crate::config::settings::beside;
use crate::config::{Fault, Note, keys};

/// `option` is the name in `table`; `name` is how the file has it, with the prefix of its section.
pub(super) fn apply(
    table: &'static [Property],
    option: &str,
    properties: &Properties,
    name: &str,
    out: &mut Out<'_>,
) {
    let Some(property) = table::find(table, option) else {
        out.faults.push(unknown(table, option, properties, name));
        return;
    };
    treat(property, table, option, properties, name, out);
}

fn treat(
    property: &'static Property,
    table: &'static [Property],
    option: &str,
    properties: &Properties,
    name: &str,
    out: &mut Out<'_>,
) {
    let value = properties.get(name).unwrap_or("").trim();
    match property.treatment {
        Treatment::Becomes(key, how) => become_setting(key, how, properties, name, out),
        Treatment::Honoured(_) => {}
        Treatment::Only(allowed, reason) => {
            if !allowed
                .iter()
                .any(|allowed| allowed.eq_ignore_ascii_case(value))
            {
                out.faults
                    .push(only(properties, name, value, allowed, reason));
            }
        }
        Treatment::Ignored(reason) => {
            out.notes.push(Note::info(
                properties.place(name),
                format!("has no effect: {reason}"),
            ));
        }
        Treatment::Refused(reason) => {
            let message = format!("is not supported: {reason}");
            out.faults.push(Fault::new(properties.place(name), message));
        }
        Treatment::OldNameOf(new) => {
            let new_name = format!("{}{new}", name.strip_suffix(option).unwrap_or(""));
            if properties.get(&new_name).is_some() {
                let message = format!("is the old name of {new}, which is set too and counts");
                out.notes
                    .push(Note::warning(properties.place(name), message));
                return;
            }
            let message = format!("is the old name of {new}");
            out.notes
                .push(Note::warning(properties.place(name), message));
            if let Some(renamed) = table::find(table, new) {
                treat(renamed, table, option, properties, name, out);
            }
        }
    }
}

fn only(properties: &Properties, name: &str, value: &str, allowed: &[&str], reason: &str) -> Fault {
    let place = properties.place(name);
    match allowed {
        [""] => Fault::new(place, format!("is not supported: {reason}")),
        _ => {
            let allowed: Vec<_> = allowed
                .iter()
                .filter(|allowed| !allowed.is_empty())
                .collect();
            let names: Vec<_> = allowed
                .iter()
                .map(|allowed| format!("\"{allowed}\""))
                .collect();
            let message = format!(
                "\"{value}\" is not supported, only {}: {reason}",
                names.join(" and ")
            );
            Fault::new(place, message)
        }
    }
}

fn become_setting(
    key: &'static str,
    how: As,
    properties: &Properties,
    name: &str,
    out: &mut Out<'_>,
) {
    let Some(value) = properties.get(name) else {
        return;
    };
    let blank = value.trim().is_empty();
    let converted = match how {
        As::Text if keys::is_secret(key) => Ok(value.to_owned()),
        _ if blank => {
            let message = "is empty: as if it were not set";
            out.notes.push(Note::info(properties.place(name), message));
            return;
        }
        As::Text => Ok(value.trim().to_owned()),
        As::LowerCase => Ok(value.trim().to_lowercase()),
        As::Boolean => boolean(value),
        As::Milliseconds => milliseconds(value),
        As::Path => Ok(beside(&properties.path, value.trim())),
        As::Words(words) => {
            let word = words
                .iter()
                .find(|word| word.theirs.eq_ignore_ascii_case(value.trim()));
            if let Some(word) = word.filter(|word| word.old) {
                let message = format!("\"{}\" is the old name of \"{}\"", word.theirs, word.ours);
                out.notes
                    .push(Note::warning(properties.place(name), message));
            }
            word.map(|word| word.ours.to_owned()).ok_or_else(|| {
                let names: Vec<_> = words
                    .iter()
                    .filter(|word| !word.old)
                    .map(|word| word.theirs)
                    .collect();
                format!("\"{value}\" is not one of {}", names.join(", "))
            })
        }
    };
    match converted {
        Ok(value) => out.settings.set(key, value, properties.origin(name)),
        Err(reason) => out.faults.push(Fault::new(properties.place(name), reason)),
    }
}

fn boolean(value: &str) -> Result<String, String> {
    match value.trim().to_ascii_lowercase().as_str() {
        word @ ("true" | "false") => Ok(word.to_owned()),
        _ => Err(format!("\"{value}\" is not true or false")),
    }
}

fn milliseconds(value: &str) -> Result<String, String> {
    match value.trim().parse::<u64>() {
        Ok(ms) => Ok(format!("{ms}ms")),
        Err(_) => Err(format!("\"{value}\" is not a number of milliseconds")),
    }
}

/// Debezium and Kafka Connect pass over what they do not know; a slip then goes unnoticed.
fn unknown(table: &'static [Property], option: &str, properties: &Properties, name: &str) -> Fault {
    let prefix = name.strip_suffix(option).unwrap_or("");
    let known = table
        .iter()
        .map(|property| property.name.trim_end_matches(['*', '.']));
    let fault = Fault::new(properties.place(name), "unknown property");
    match nearest(option, known) {
        Some(nearest) => fault.hint(format!("The nearest known one is \"{prefix}{nearest}\".")),
        None => fault.hint("Remove it, or make it a comment with a leading _."),
    }
}
