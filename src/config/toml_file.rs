//! outboxd's own file.

use std::path::Path;

use super::settings::{Origin, beside};
use super::{Fault, keys};

type Layer = Vec<(String, String, Origin)>;

pub(super) fn read(path: &Path, faults: &mut Vec<Fault>) -> Layer {
    let place = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            faults.push(Fault::new(place, format!("cannot be read: {error}")));
            return Layer::new();
        }
    };
    match text.parse::<toml::Table>() {
        Ok(table) => {
            let mut layer = Layer::new();
            let mut file = File {
                path,
                place,
                layer: &mut layer,
                faults,
            };
            file.flatten("", &table);
            layer
        }
        // The parser's own display shows the line, which may hold a password.
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let line = text
                .bytes()
                .take(start)
                .filter(|byte| *byte == b'\n')
                .count()
                + 1;
            faults.push(Fault::new(format!("{place}: line {line}"), error.message()));
            Layer::new()
        }
    }
}

struct File<'a> {
    path: &'a Path,
    place: String,
    layer: &'a mut Layer,
    faults: &'a mut Vec<Fault>,
}

impl File<'_> {
    /// Tables within tables are names with dots.
    fn flatten(&mut self, prefix: &str, table: &toml::Table) {
        for (name, value) in table {
            let key = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}.{name}")
            };
            match value {
                toml::Value::Table(table) => self.flatten(&key, table),
                value => self.value(&key, value),
            }
        }
    }

    fn value(&mut self, key: &str, value: &toml::Value) {
        let text = match value {
            toml::Value::Array(values) => values
                .iter()
                .map(scalar)
                .collect::<Option<Vec<_>>>()
                .map(|texts| texts.join(",")),
            value => scalar(value),
        };
        let place = format!("{}: {key}", self.place);
        match text {
            _ if !keys::is_known(key) => self.faults.push(keys::unknown(&self.place, key)),
            None => self
                .faults
                .push(Fault::new(place, "a table cannot stand in a list")),
            Some(text) => {
                let text = if keys::is_path(key) {
                    beside(self.path, &text)
                } else {
                    text
                };
                let origin = Origin::File {
                    file: self.place.clone(),
                    property: None,
                };
                self.layer.push((key.to_owned(), text, origin));
            }
        }
    }
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Table(_) | toml::Value::Array(_) => None,
        other => Some(other.to_string()),
    }
}
