//! Which converter writes key, value and headers, what it makes of the columns, and who chose it.

use super::columns::UsedColumn;
use crate::config::{Config, Origin};
use crate::postgres::preflight::Check;
use crate::router::{ColumnRole, Converter, DecimalFormat, JsonOptions};

/// A part of a record, and the key that says how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Key,
    Value,
    Headers,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::Headers => "headers",
        }
    }

    const fn setting(self) -> &'static str {
        match self {
            Self::Key => "outbox.key_format",
            Self::Value => "outbox.value_format",
            Self::Headers => "outbox.header_format",
        }
    }

    const fn has(self, role: &ColumnRole) -> bool {
        matches!(
            (self, role),
            (Self::Key, ColumnRole::Key)
                | (Self::Value, ColumnRole::Payload)
                | (Self::Headers, ColumnRole::Id | ColumnRole::Header(_))
        )
    }
}

/// One line for each part. `used` is empty where no table could be looked at.
pub(super) fn checks(config: &Config, used: &[UsedColumn]) -> Vec<Check> {
    let converters = &config.router.converters;
    [
        (Part::Key, &converters.key),
        (Part::Value, &converters.value),
        (Part::Headers, &converters.header),
    ]
    .into_iter()
    .map(|(part, converter)| {
        let columns: Vec<&UsedColumn> = used
            .iter()
            .filter(|column| part.has(&column.role))
            .collect();
        let how = match part {
            Part::Value => value(config, converter, &columns),
            Part::Key | Part::Headers => plain(converter, &columns),
        };
        let why = why(config, part.setting());
        Check::ok(part.name(), format!("{how} ({why})"))
    })
    .collect()
}

/// Who chose it.
fn why(config: &Config, setting: &str) -> String {
    let name = config.door.spell(setting);
    match config.settings.origin(setting) {
        Origin::Default => format!("{name} is not set"),
        Origin::ConnectorDefault => {
            format!("neither connector nor worker sets {name}: Kafka Connect's default")
        }
        Origin::File { file, property } => format!("{} in {file}", property.unwrap_or(name)),
        Origin::Environment(variable) => format!("environment variable {variable}"),
        Origin::Flag => format!("--set {setting}"),
    }
}

fn value(config: &Config, converter: &Converter, columns: &[&UsedColumn]) -> String {
    let router = &config.router;
    let is_text = columns
        .iter()
        .all(|column| column.connect_type.kind == "string");
    let payload = match router.expand_json && is_text && *converter != Converter::Raw {
        true => format!(
            "{}: the document that {} holds",
            named(converter),
            names(columns, "the payload column")
        ),
        false => plain(converter, columns),
    };
    if router.has_envelope() {
        let members = router
            .columns()
            .into_iter()
            .filter_map(|(_, _, role, _)| match role {
                ColumnRole::Envelope(name) => Some(name),
                _ => None,
            });
        let members: Vec<String> = members.collect();
        return format!("{payload}, in an envelope beside {}", members.join(", "));
    }
    payload
}

fn plain(converter: &Converter, columns: &[&UsedColumn]) -> String {
    let (texts, others): (Vec<&UsedColumn>, Vec<&UsedColumn>) = columns
        .iter()
        .copied()
        .partition(|column| column.connect_type.kind == "string");
    let name = named(converter);
    match converter {
        Converter::Raw => {
            let of_bytea = |column: &&UsedColumn| column.sql_type == "bytea";
            let (bytes, texts): (Vec<&UsedColumn>, Vec<&UsedColumn>) =
                columns.iter().copied().partition(of_bytea);
            let mut parts = Vec::new();
            if !texts.is_empty() || bytes.is_empty() {
                parts.push(format!(
                    "the text of {} as it is",
                    names(&texts, "the column")
                ));
            }
            if !bytes.is_empty() {
                parts.push(format!("the bytes of {}", names(&bytes, "")));
            }
            format!("{name}: {}", parts.join(", "))
        }
        Converter::String | Converter::Simple => {
            let mut parts = Vec::new();
            if !texts.is_empty() || others.is_empty() {
                parts.push(format!("the text of {}", names(&texts, "the column")));
            }
            if !others.is_empty() {
                parts.push(format!("{} as Java prints it", names(&others, "")));
            }
            format!("{name}: {}", parts.join(", "))
        }
        Converter::Json(_) => format!("{name}: {} as a JSON value", names(columns, "the column")),
        Converter::ByteArray | Converter::BinaryData { .. } | Converter::Number(_) => {
            format!("{name}: {}", names(columns, "the column"))
        }
    }
}

/// With what it was told.
fn named(converter: &Converter) -> String {
    match converter {
        Converter::Json(JsonOptions { schemas, decimals }) => {
            let schemas = if *schemas {
                "with schemas"
            } else {
                "without schemas"
            };
            let decimals = match decimals {
                DecimalFormat::Base64 => "",
                DecimalFormat::Numeric => ", decimals as numbers",
            };
            format!("JsonConverter {schemas}{decimals}")
        }
        Converter::BinaryData {
            delegate: Some(delegate),
        } => format!(
            "BinaryDataConverter, for what is not bytes {}",
            named(delegate)
        ),
        Converter::Number(_) => format!("{}, big-endian", converter.as_str()),
        other => other.as_str().to_owned(),
    }
}

/// `"id" (uuid), "seq" (bigint)`; `unknown` where the columns are.
fn names(columns: &[&UsedColumn], unknown: &str) -> String {
    if columns.is_empty() {
        return unknown.to_owned();
    }
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        let name = format!("\"{}\" ({})", column.name, column.sql_type);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
