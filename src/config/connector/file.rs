//! The shapes in which people keep a connector: a POST body of Kafka Connect, its bare map, a
//! properties file, Strimzi's resources, Debezium Server's properties.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use saphyr::{ScalarStyle, ScanError, Yaml, YamlLoader};
use saphyr_parser::Parser;
use serde_json::Value as Json;

use crate::config::{Fault, Origin};

/// One file's properties by name.
#[derive(Default)]
pub(super) struct Properties {
    pub(super) path: PathBuf,
    pub(super) shape: Shape,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: String,
    /// Where it stands and under which name, where that is not the name here.
    written: Option<Origin>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    #[default]
    Connect,
    DebeziumServer,
}

impl Properties {
    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.entries.get(name).map(|entry| entry.value.as_str())
    }

    /// Set to true, in any spelling that Kafka takes.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry.value.as_str()))
    }

    /// Names under `prefix`, without it.
    pub(super) fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
    }

    pub(super) fn origin(&self, name: &str) -> Origin {
        match self
            .entries
            .get(name)
            .and_then(|entry| entry.written.clone())
        {
            Some(written) => written,
            None => Origin::File {
                file: self.path.display().to_string(),
                property: Some(name.to_owned()),
            },
        }
    }

    pub(super) fn place(&self, name: &str) -> String {
        self.origin(name).place(name)
    }

    pub(super) fn set(&mut self, name: &str, value: &str, written: Origin) {
        let entry = Entry {
            value: value.to_owned(),
            written: Some(written),
        };
        self.entries.insert(name.to_owned(), entry);
    }

    /// Every value through `change`; faults name the place of the value that has one.
    pub(super) fn change_values(
        &mut self,
        change: impl Fn(&Self, &str) -> Result<String, String>,
        faults: &mut Vec<Fault>,
    ) {
        let mut entries = self.entries.clone();
        for (name, entry) in &mut entries {
            match change(self, &entry.value) {
                Ok(value) => entry.value = value,
                Err(reason) => faults.push(Fault::new(self.place(name), reason)),
            }
        }
        self.entries = entries;
    }
}

/// What stands in a file says what it is; its name only helps where that is not clear.
pub(super) fn read(path: &Path) -> Result<Properties, Fault> {
    let place = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| Fault::new(&place, format!("cannot be read: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("");
    let entries = if extension == "json" || text.trim_start().starts_with('{') {
        from_json(&text)
    } else if matches!(extension, "yaml" | "yml") || is_resource(&text) {
        from_yaml(&text)
    } else {
        from_properties(&bytes)
    };
    let mut entries = entries.map_err(|reason| Fault::new(&place, reason))?;
    // The way to comment in a JSON map.
    entries.retain(|name, _| !name.starts_with('_') && !name.starts_with("//"));
    let server = entries.keys().any(|name| name.starts_with("debezium."));
    let shape = if server {
        Shape::DebeziumServer
    } else {
        Shape::Connect
    };
    let entries = entries
        .into_iter()
        .map(|(name, value)| {
            (
                name,
                Entry {
                    value,
                    written: None,
                },
            )
        })
        .collect();
    Ok(Properties {
        path: path.to_owned(),
        shape,
        entries,
    })
}

type Entries = BTreeMap<String, String>;

fn from_json(text: &str) -> Result<Entries, String> {
    // serde_json's message has a line and a column and no text of the file.
    let json: Json = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let Json::Object(mut map) = json else {
        return Err("is not a JSON object".to_owned());
    };
    let mut entries = Entries::new();
    if let Some(Json::Object(config)) = map.get_mut("config") {
        let config = std::mem::take(config);
        if let Some(Json::String(name)) = map.get("name") {
            entries.insert("name".to_owned(), name.clone());
        }
        map = config;
    }
    for (name, value) in map {
        let value = match value {
            Json::String(text) => text,
            Json::Number(number) => number.to_string(),
            Json::Bool(flag) => flag.to_string(),
            Json::Null => continue,
            Json::Array(_) | Json::Object(_) => {
                return Err(format!("\"{name}\" is not a string, a number or a boolean"));
            }
        };
        entries.insert(name, value);
    }
    Ok(entries)
}

fn is_resource(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("apiVersion:"))
}

/// `KafkaConnector` for a connector, `KafkaConnect` for a worker; other resources in the same file
/// are passed over.
fn from_yaml(text: &str) -> Result<Entries, String> {
    let documents = load_yaml(text)?;
    let resource = documents.iter().find_map(|document| {
        let kind = text_of(field(document, "kind")?)?;
        matches!(kind.as_str(), "KafkaConnector" | "KafkaConnect").then_some((document, kind))
    });
    let Some((document, kind)) = resource else {
        return Err("has no resource of kind KafkaConnector or KafkaConnect".to_owned());
    };
    let mut entries = Entries::new();
    let spec = field(document, "spec").ok_or("has no spec")?;
    if let Some(config) = field(spec, "config").and_then(Yaml::as_mapping) {
        for (name, value) in config {
            let name = text_of(name).ok_or("spec.config has a name that is not text")?;
            let value = text_of(value).ok_or_else(|| {
                format!("spec.config.{name} is not a string, a number or a boolean")
            })?;
            entries.insert(name, value);
        }
    }
    let mut lift = |from: Option<&Yaml<'_>>, to: &str| {
        if let Some(value) = from.and_then(text_of) {
            entries.insert(to.to_owned(), value);
        }
    };
    if kind == "KafkaConnector" {
        let metadata = field(document, "metadata");
        lift(
            metadata.and_then(|metadata| field(metadata, "name")),
            "name",
        );
        lift(field(spec, "class"), "connector.class");
        lift(field(spec, "tasksMax"), "tasks.max");
    } else {
        lift(field(spec, "bootstrapServers"), "bootstrap.servers");
        for section in ["tls", "authentication"] {
            if field(spec, section).is_some() {
                return Err(format!(
                    "spec.{section} names Kubernetes secrets, which cannot be read here; set security.protocol, sasl.* and ssl.* in [kafka] or with --set"
                ));
            }
        }
    }
    Ok(entries)
}

/// Scalars stay as they are written: `5432` and `1.10` are text to Kafka Connect.
fn load_yaml(text: &str) -> Result<Vec<Yaml<'_>>, String> {
    let place = |error: &ScanError| format!("is not YAML: line {}", error.marker().line());
    let mut loader = YamlLoader::default();
    loader.early_parse(false);
    Parser::new_from_str(text)
        .load(&mut loader, true)
        .map_err(|error| place(&error))?;
    match loader.error() {
        Some(error) => Err(place(error)),
        None => Ok(loader.into_documents()),
    }
}

fn field<'a, 'text>(mapping: &'a Yaml<'text>, name: &str) -> Option<&'a Yaml<'text>> {
    let (_, value) = mapping
        .as_mapping()?
        .iter()
        .find(|(key, _)| matches!(key, Yaml::Representation(text, _, _) if text == name))?;
    Some(value)
}

fn text_of(value: &Yaml<'_>) -> Option<String> {
    match value {
        Yaml::Representation(text, ScalarStyle::Plain, _)
            if matches!(&**text, "" | "~" | "null") =>
        {
            None
        }
        Yaml::Representation(text, _, _) => Some(text.to_string()),
        _ => None,
    }
}

/// ISO 8859-1 with `\u` escapes, as Kafka Connect reads its files.
pub(super) fn from_properties(bytes: &[u8]) -> Result<Entries, String> {
    let mut entries = Entries::new();
    java_properties::PropertiesIter::new(bytes)
        .read_into(|name, value| {
            // Java keeps blanks at the end of a value; no setting here means them.
            entries.insert(name, value.trim_end().to_owned());
        })
        .map_err(|error| match error.line_number() {
            Some(line) => format!("line {line} is not a line of a properties file"),
            None => "is not a properties file".to_owned(),
        })?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(&str, &str)]) -> Entries {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn a_post_body_and_a_bare_map_are_the_same() {
        let wanted = entries(&[("name", "n"), ("a", "1"), ("b", "true"), ("c", "x")]);
        let body = r#"{"name":"n","config":{"a":1,"b":true,"c":"x","d":null}}"#;
        assert_eq!(from_json(body).unwrap(), wanted);
        assert_eq!(
            from_json(r#"{"name":"n","a":"1","b":true,"c":"x"}"#).unwrap(),
            wanted
        );
    }

    #[test]
    fn nested_json_names_the_property() {
        let error = from_json(r#"{"name":"n","config":{"a":["x"]}}"#).unwrap_err();
        assert_eq!(error, "\"a\" is not a string, a number or a boolean");
    }

    #[test]
    fn strimzi_values_stay_as_they_are_written() {
        let text = "kind: Secret\n---\napiVersion: x\nkind: KafkaConnector\nmetadata:\n  name: n\n\
                    spec:\n  class: C\n  tasksMax: 1\n  config:\n    port: 05432\n    off: no\n    \
                    d: ${env:A}\n    nothing:\n    q: \"\"\n";
        let error = from_yaml(text).unwrap_err();
        assert!(error.contains("spec.config.nothing"), "{error}");
        let parsed = from_yaml(&text.replace("    nothing:\n", "")).unwrap();
        let wanted = [
            ("name", "n"),
            ("connector.class", "C"),
            ("tasks.max", "1"),
            ("port", "05432"),
            ("off", "no"),
            ("d", "${env:A}"),
            ("q", ""),
        ];
        assert_eq!(parsed, entries(&wanted));
    }

    #[test]
    fn properties_follow_java() {
        let text = b"# c\n! c\na = x\nb:y\nc=one\\\n   two\nd=\\u00e9\ne=a\\:b\n";
        let wanted = [
            ("a", "x"),
            ("b", "y"),
            ("c", "onetwo"),
            ("d", "\u{e9}"),
            ("e", "a:b"),
        ];
        assert_eq!(from_properties(text).unwrap(), entries(&wanted));
    }
}
