//! `JsonConverter`: values and schemas as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::converter::DecimalFormat;
use crate::java;
use crate::outbox::{Kind, Schema, Value, point_wkb};

pub(super) fn write_value(value: &Value<'_>, decimals: DecimalFormat, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => {
            out.extend_from_slice(if *value { b"true" } else { b"false" });
        }
        Value::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Float(value) => write_floating(&java::float(*value), out),
        Value::Double(value) => write_floating(&java::double(*value), out),
        Value::Text(text) => java::write_json_bytes(text, out),
        Value::Buffer(bytes) | Value::Bytes(bytes) => write_base64(bytes, out),
        Value::Decimal(decimal) => match decimals {
            DecimalFormat::Base64 => write_base64(&decimal.unscaled_bytes(), out),
            DecimalFormat::Numeric => out.extend_from_slice(decimal.java_string().as_bytes()),
        },
        Value::VariableDecimal(decimal) => {
            out.extend_from_slice(format!("{{\"scale\":{},\"value\":", decimal.scale()).as_bytes());
            write_base64(&decimal.unscaled_bytes(), out);
            out.push(b'}');
        }
        Value::Point { x, y } => {
            out.extend_from_slice(b"{\"x\":");
            write_floating(&java::double(*x), out);
            out.extend_from_slice(b",\"y\":");
            write_floating(&java::double(*y), out);
            out.extend_from_slice(b",\"wkb\":");
            write_base64(&point_wkb(*x, *y), out);
            out.extend_from_slice(b",\"srid\":null}");
        }
        Value::Date { ms, days } => {
            let number = if *days { ms.div_euclid(DAY_MS) } else { *ms };
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Value::Array(values) => {
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(value, decimals, out);
            }
            out.push(b']');
        }
        Value::Map(entries) => write_map(entries, out),
    }
}

const DAY_MS: i64 = 86_400_000;

/// What is not a finite number is a string.
pub(super) fn write_floating(text: &str, out: &mut Vec<u8>) {
    let finite = text.ends_with(|last: char| last.is_ascii_digit());
    let quote: &[u8] = if finite { b"" } else { b"\"" };
    out.extend_from_slice(quote);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(quote);
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(BASE64.encode(bytes).as_bytes());
    out.push(b'"');
}

fn write_map(entries: &[(String, Option<String>)], out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        java::write_json_bytes(key, out);
        out.push(b':');
        match value {
            Some(value) => java::write_json_bytes(value, out),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
}

/// A schema as the `schema` member of a message, or as a field of a struct's schema.
pub(super) fn write_schema(
    schema: &Schema,
    field: Option<&str>,
    decimals: DecimalFormat,
    out: &mut Vec<u8>,
) {
    write_kind(&schema.kind, decimals, out);
    write_traits(schema.optional, schema.name.as_deref(), out);
    if let Some(version) = schema.version {
        out.extend_from_slice(format!(",\"version\":{version}").as_bytes());
    }
    if let Some(doc) = schema.doc {
        out.extend_from_slice(b",\"doc\":");
        java::write_json_bytes(doc, out);
    }
    if !schema.parameters.is_empty() {
        out.extend_from_slice(b",\"parameters\":{");
        for (index, (name, value)) in schema.parameters.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            java::write_json_bytes(name, out);
            out.push(b':');
            java::write_json_bytes(value, out);
        }
        out.push(b'}');
    }
    if let Some(default) = &schema.default {
        out.extend_from_slice(b",\"default\":");
        write_value(default, decimals, out);
    }
    write_field(field, out);
}

fn write_kind(kind: &Kind, decimals: DecimalFormat, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_str().as_bytes());
    out.push(b'"');
    match kind {
        Kind::Array(items) => {
            out.extend_from_slice(b",\"items\":");
            write_schema(items, None, decimals, out);
        }
        Kind::Map { key, value } => {
            out.extend_from_slice(b",\"keys\":");
            write_schema(key, None, decimals, out);
            out.extend_from_slice(b",\"values\":");
            write_schema(value, None, decimals, out);
        }
        Kind::Struct(fields) => {
            out.extend_from_slice(b",\"fields\":[");
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_schema(&field.schema, Some(&field.name), decimals, out);
            }
            out.push(b']');
        }
        _ => {}
    }
}

/// `,"optional":…` and the name, which every schema has in this order.
pub(super) fn write_traits(optional: bool, name: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(if optional {
        b",\"optional\":true".as_slice()
    } else {
        b",\"optional\":false".as_slice()
    });
    if let Some(name) = name {
        out.extend_from_slice(b",\"name\":");
        java::write_json_bytes(name, out);
    }
}

/// The name of a struct's field stands last in its schema.
pub(super) fn write_field(field: Option<&str>, out: &mut Vec<u8>) {
    if let Some(field) = field {
        out.extend_from_slice(b",\"field\":");
        java::write_json_bytes(field, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Decimal;

    #[test]
    fn values_are_written_as_json_converter_does() {
        let decimal = || Decimal::parse("1.10").unwrap();
        for (value, expected) in [
            (Value::Null, "null"),
            (Value::Double(f64::NAN), "\"NaN\""),
            (Value::Double(100.0), "100.0"),
            (Value::Double(1e-5), "1.0E-5"),
            (Value::Decimal(decimal()), "\"bg==\""),
            (
                Value::VariableDecimal(decimal()),
                "{\"scale\":2,\"value\":\"bg==\"}",
            ),
            (
                Value::Date {
                    ms: 1_577_923_200_000,
                    days: true,
                },
                "18263",
            ),
            (
                Value::Array(vec![Value::text("a"), Value::Null]),
                "[\"a\",null]",
            ),
        ] {
            let mut out = Vec::new();
            write_value(&value, DecimalFormat::Base64, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut out = Vec::new();
        write_value(&Value::Decimal(decimal()), DecimalFormat::Numeric, &mut out);
        assert_eq!(out, b"1.10");
    }

    #[test]
    fn schemas_have_their_members_in_connects_order() {
        let schema = Schema {
            default: Some(Value::text("sad")),
            ..Schema::logical(Kind::String, "io.debezium.data.Enum")
                .parameter("allowed", "sad,happy")
                .optional()
        };
        let mut out = Vec::new();
        write_schema(&schema, Some("mood"), DecimalFormat::Base64, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"type\":\"string\",\"optional\":true,\"name\":\"io.debezium.data.Enum\",\"version\":1,\
             \"parameters\":{\"allowed\":\"sad,happy\"},\"default\":\"sad\",\"field\":\"mood\"}"
        );
    }
}
