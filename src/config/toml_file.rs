//! outboxd's own file.

use std::path::Path;

use super::settings::{Origin, Settings};
use super::{Fault, keys};

pub(super) fn read(path: &Path, settings: &mut Settings, faults: &mut Vec<Fault>) {
    let place = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            faults.push(Fault::new(place, format!("cannot be read: {error}")));
            return;
        }
    };
    match text.parse::<toml::Table>() {
        Ok(table) => flatten("", &table, &place, settings, faults),
        // The message shows the line itself, which may hold a password: only its place is told.
        Err(error) => {
            let line = error
                .span()
                .map_or(0, |span| text[..span.start].lines().count().max(1));
            faults.push(Fault::new(
                place,
                format!("line {line}: {}", error.message()),
            ));
        }
    }
}

fn flatten(
    prefix: &str,
    table: &toml::Table,
    place: &str,
    settings: &mut Settings,
    faults: &mut Vec<Fault>,
) {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        let text = match value {
            toml::Value::Table(table) => {
                flatten(&key, table, place, settings, faults);
                continue;
            }
            toml::Value::String(text) => text.clone(),
            toml::Value::Array(values) => {
                let texts = values.iter().map(|value| match value {
                    toml::Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                texts.collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        if keys::is_known(&key) {
            settings.set(&key, text, Origin::File(place.to_owned()));
        } else {
            faults.push(keys::unknown(place, &key));
        }
    }
}
