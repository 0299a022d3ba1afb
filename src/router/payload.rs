//! The record's value: the payload, expanded or not, alone or in an envelope.

use bytes::Bytes;

use super::converter::{Converter, JsonOptions};
use super::expand::{self, Expanded, Expansion, Rules};
use super::plan::{Plan, PlannedColumn};
use super::{Note, Options, RouteError, json, text};
use crate::java;
use crate::outbox::{Kind, Source, Value};
use crate::pgoutput::{Datum, Tuple};

/// What the payload column came to.
enum Payload<'a> {
    /// As it is in the column.
    Plain(&'a Value<'a>),
    /// Compact JSON, of which nobody asks the type.
    Compact(Vec<u8>),
    Typed(Expansion<'a>),
    /// Text that Debezium publishes without a schema.
    Schemaless(&'a str),
    /// The JSON as it was written, where Debezium would fail; and its text.
    Untyped(Vec<u8>, &'a str),
}

/// The value, and what there is to count about it.
pub(super) fn value(
    row: &Tuple<'_>,
    source: Source,
    routed: &str,
    plan: &Plan,
    options: &Options,
) -> Result<(Option<Bytes>, Option<Note>), RouteError> {
    let column = &plan.payload;
    let converter = &options.converters.value;
    if *converter == Converter::Raw && plan.envelope.is_none() {
        return raw(row, column, options).map(|value| (value, None));
    }
    let value = column.read_or_default(row, source)?;
    if options.tombstone_on_empty && is_empty(&value) {
        return Ok((None, None));
    }
    let (payload, note) = payload(&value, column, options);
    let bytes = match &plan.envelope {
        None => alone(&payload, column, converter)?,
        Some(_) => Some(envelope(&payload, row, source, routed, plan, converter)?),
    };
    Ok((bytes, note))
}

/// Whether the value's converter takes what the options make of the payload column.
pub(super) fn takes_payload(column: &PlannedColumn, options: &Options) -> Result<(), RouteError> {
    let (converter, schema) = (&options.converters.value, &column.column.schema);
    let is_expanded = options.expand_json && schema.kind == Kind::String;
    let taken = if options.has_envelope() || is_expanded && *converter != Converter::Raw {
        converter.for_text().map(drop)
    } else {
        converter.takes(schema)
    };
    let found = match options.has_envelope() || is_expanded {
        true => "struct",
        false => column.column.type_name(),
    };
    taken.map_err(|mismatch| column.mismatch(mismatch, found))
}

/// Untouched: the text's bytes, or the bytes that bytea stands for.
fn raw(
    row: &Tuple<'_>,
    column: &PlannedColumn,
    options: &Options,
) -> Result<Option<Bytes>, RouteError> {
    let value = raw_bytes(row, column)?;
    let is_blank = |bytes: &Bytes| bytes.iter().all(|byte| *byte <= b' ');
    Ok(value.filter(|bytes| {
        !(options.tombstone_on_empty && !column.column.is_bytea() && is_blank(bytes))
    }))
}

pub(super) fn raw_bytes(
    row: &Tuple<'_>,
    column: &PlannedColumn,
) -> Result<Option<Bytes>, RouteError> {
    if let Datum::Text(bytes) = column.datum(row)
        && !column.column.is_bytea()
    {
        return Ok(Some(Bytes::copy_from_slice(bytes)));
    }
    Ok(match column.read(row, Source::Stream)? {
        Value::Null => None,
        Value::Buffer(bytes) => Some(Bytes::from(bytes)),
        value => {
            let mut out = String::new();
            text::write_java(&value, &mut out);
            Some(Bytes::from(out))
        }
    })
}

/// Null, or text that is blank as Java's `trim` sees it. Bytes are never empty: Java looks at the
/// description of a buffer there.
fn is_empty(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Text(text) => text.chars().all(|c| c <= ' '),
        _ => false,
    }
}

fn payload<'a>(
    value: &'a Value<'a>,
    column: &PlannedColumn,
    options: &Options,
) -> (Payload<'a>, Option<Note>) {
    if !options.expand_json || value.is_null() {
        return (Payload::Plain(value), None);
    }
    match value {
        Value::Text(text) if column.column.schema.kind == Kind::String => {
            expanded(value, text, column, options)
        }
        other => (Payload::Plain(other), Some(Note::NotExpanded)),
    }
}

fn expanded<'a>(
    value: &'a Value<'a>,
    text: &'a str,
    column: &PlannedColumn,
    options: &Options,
) -> (Payload<'a>, Option<Note>) {
    let rules = Rules {
        nulls: options.json_nulls,
        empty_arrays: options.json_empty_arrays,
        root: &column.name,
        unique_keys: column.is_jsonb,
    };
    let needs_no_type = matches!(
        options.converters.value.for_text(),
        Ok(Converter::Raw | Converter::Json(JsonOptions { schemas: false, .. }))
    );
    if needs_no_type && let Some(json) = expand::compact(text, &rules) {
        return (Payload::Compact(json), None);
    }
    match expand::expand(text, &rules) {
        Expanded::Typed(expansion) => {
            let note = expansion.keeps_more.then_some(Note::KeptMore);
            (Payload::Typed(expansion), note)
        }
        Expanded::Schemaless => (Payload::Schemaless(text), Some(Note::NotExpanded)),
        Expanded::Text => (Payload::Plain(value), Some(Note::NotExpanded)),
        Expanded::Untyped(json) => (Payload::Untyped(json, text), Some(Note::KeptUntyped)),
    }
}

/// Without an envelope.
fn alone(
    payload: &Payload<'_>,
    column: &PlannedColumn,
    converter: &Converter,
) -> Result<Option<Bytes>, RouteError> {
    if let Payload::Plain(value) = payload {
        let schema = &column.column.schema;
        return converter
            .convert(value, schema, &column.prefix)
            .map_err(|mismatch| column.mismatch(mismatch, column.column.type_name()));
    }
    let converter = converter
        .for_text()
        .map_err(|mismatch| column.mismatch(mismatch, "struct"))?;
    match converter {
        Converter::Json(options) => {
            let mut out = Vec::new();
            if options.schemas {
                out.extend_from_slice(b"{\"schema\":");
                match payload {
                    Payload::Typed(expansion) => expansion.write_schema(None, &mut out),
                    _ => out.extend_from_slice(b"null"),
                }
                out.extend_from_slice(b",\"payload\":");
                write_json(payload, *options, &mut out);
                out.push(b'}');
            } else {
                write_json(payload, *options, &mut out);
            }
            Ok(Some(Bytes::from(out)))
        }
        _ => {
            let mut out = String::new();
            write_java(payload, &mut out);
            Ok(Some(Bytes::from(out)))
        }
    }
}

fn write_json(payload: &Payload<'_>, options: JsonOptions, out: &mut Vec<u8>) {
    match payload {
        Payload::Plain(value) => json::write_value(value, options.decimals, out),
        Payload::Compact(json) | Payload::Untyped(json, _) => out.extend_from_slice(json),
        Payload::Typed(expansion) => expansion.write_json(out),
        Payload::Schemaless(text) => java::write_json_bytes(text, out),
    }
}

fn write_java(payload: &Payload<'_>, out: &mut String) {
    match payload {
        Payload::Plain(value) => text::write_java(value, out),
        Payload::Compact(json) => out.push_str(&String::from_utf8_lossy(json)),
        Payload::Typed(expansion) => expansion.write_java(out),
        Payload::Schemaless(text) | Payload::Untyped(_, text) => out.push_str(text),
    }
}

/// `{"payload": …, "<alias>": …}`
fn envelope(
    payload: &Payload<'_>,
    row: &Tuple<'_>,
    source: Source,
    routed: &str,
    plan: &Plan,
    converter: &Converter,
) -> Result<Bytes, RouteError> {
    let column = &plan.payload;
    let converter = converter
        .for_text()
        .map_err(|mismatch| column.mismatch(mismatch, "struct"))?;
    let members = plan.envelope.as_deref().unwrap_or_default();
    let mut values = Vec::with_capacity(members.len());
    for (name, column) in members {
        values.push((name.as_str(), column.read_or_default(row, source)?));
    }
    let options = match converter {
        Converter::String | Converter::Simple => return Ok(java_envelope(payload, &values)),
        Converter::Json(options) => *options,
        _ => JsonOptions {
            schemas: false,
            ..JsonOptions::default()
        },
    };
    let mut out = Vec::new();
    if options.schemas {
        out.extend_from_slice(b"{\"schema\":");
        let version = match &plan.schema_version {
            Some(column) => integer(column, row, source)?,
            None => None,
        };
        write_envelope_schema(payload, routed, version, plan, options, &mut out);
        out.extend_from_slice(b",\"payload\":");
    }
    out.extend_from_slice(b"{\"payload\":");
    match payload {
        // Under a schema, a payload without a type is its text.
        Payload::Untyped(_, text) if options.schemas => java::write_json_bytes(text, &mut out),
        payload => write_json(payload, options, &mut out),
    }
    for (name, value) in &values {
        out.push(b',');
        java::write_json_bytes(name, &mut out);
        out.push(b':');
        json::write_value(value, options.decimals, &mut out);
    }
    out.push(b'}');
    if options.schemas {
        out.push(b'}');
    }
    Ok(Bytes::from(out))
}

/// The integer of a column that must have one; `None` is NULL.
pub(super) fn integer(
    column: &PlannedColumn,
    row: &Tuple<'_>,
    source: Source,
) -> Result<Option<i64>, RouteError> {
    match column.read(row, source)? {
        Value::Int(value) => Ok(Some(value)),
        Value::Null => Ok(None),
        _ => Err(RouteError::NotAnInteger {
            column: column.name.clone(),
            found: column.column.type_name(),
        }),
    }
}

fn write_envelope_schema(
    payload: &Payload<'_>,
    routed: &str,
    version: Option<i64>,
    plan: &Plan,
    options: JsonOptions,
    out: &mut Vec<u8>,
) {
    const PAYLOAD: Option<&str> = Some("payload");
    out.extend_from_slice(b"{\"type\":\"struct\",\"fields\":[");
    match payload {
        Payload::Typed(expansion) => expansion.write_schema(PAYLOAD, out),
        _ => json::write_schema(&plan.payload.column.schema, PAYLOAD, options.decimals, out),
    }
    for (name, column) in plan.envelope.iter().flatten() {
        out.push(b',');
        json::write_schema(&column.column.schema, Some(name), options.decimals, out);
    }
    out.push(b']');
    let name = format!("{}{routed}.Value", plan.schema_name);
    json::write_traits(false, Some(&name), out);
    if let Some(version) = version {
        out.extend_from_slice(format!(",\"version\":{version}").as_bytes());
    }
    out.push(b'}');
}

/// `Struct{payload=…,alias=…}`, nulls left out.
fn java_envelope(payload: &Payload<'_>, members: &[(&str, Value<'_>)]) -> Bytes {
    let mut out = "Struct{".to_owned();
    let mut separator = "";
    if !matches!(payload, Payload::Plain(Value::Null)) {
        out.push_str("payload=");
        write_java(payload, &mut out);
        separator = ",";
    }
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        out.push_str(separator);
        out.push_str(name);
        out.push('=');
        text::write_java(value, &mut out);
        separator = ",";
    }
    out.push('}');
    Bytes::from(out)
}
