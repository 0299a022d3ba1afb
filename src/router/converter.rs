//! Kafka Connect's converters: from a value to the bytes on the wire.

use bytes::Bytes;

use super::{json, text};
use crate::outbox::{DECIMAL, Kind, Schema, Value};

/// `key.converter`, `value.converter`, `header.converter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converters {
    pub key: Converter,
    pub value: Converter,
    pub header: Converter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Converter {
    /// outboxd's own: the text as PostgreSQL prints it, bytea as its bytes, no defaults for nulls.
    Raw,
    /// `org.apache.kafka.connect.storage.StringConverter`
    String,
    /// `org.apache.kafka.connect.storage.SimpleHeaderConverter`
    Simple,
    /// `org.apache.kafka.connect.json.JsonConverter`
    Json(JsonOptions),
    /// `org.apache.kafka.connect.converters.ByteArrayConverter`
    ByteArray,
    /// `io.debezium.converters.BinaryDataConverter` and `ByteArrayConverter`, with
    /// `delegate.converter.type` for what is not bytes.
    BinaryData { delegate: Option<Box<Self>> },
    /// `org.apache.kafka.connect.converters.LongConverter` and its kin.
    Number(NumberKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonOptions {
    /// `schemas.enable`
    pub schemas: bool,
    /// `decimal.format`
    pub decimals: DecimalFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecimalFormat {
    #[default]
    Base64,
    Numeric,
}

/// Connect's type that the converter takes; it takes no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    Short,
    Integer,
    Long,
    Float,
    Double,
    Boolean,
}

impl Converters {
    /// Everything as PostgreSQL prints it.
    pub const fn raw() -> Self {
        Self {
            key: Converter::Raw,
            value: Converter::Raw,
            header: Converter::Raw,
        }
    }
}

impl Default for Converters {
    /// What Kafka Connect does unless told otherwise.
    fn default() -> Self {
        let schemas = JsonOptions {
            schemas: true,
            ..JsonOptions::default()
        };
        Self {
            key: Converter::Json(schemas),
            value: Converter::Json(schemas),
            header: Converter::Simple,
        }
    }
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            schemas: true,
            decimals: DecimalFormat::Base64,
        }
    }
}

/// The converter does not take this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub(super) converter: &'static str,
    pub(super) expected: &'static str,
}

impl Converter {
    /// `JsonConverter` with `schemas.enable=false`.
    pub const JSON: Self = Self::Json(JsonOptions {
        schemas: false,
        decimals: DecimalFormat::Base64,
    });

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::String => "StringConverter",
            Self::Simple => "SimpleHeaderConverter",
            Self::Json(_) => "JsonConverter",
            Self::ByteArray => "ByteArrayConverter",
            Self::BinaryData { .. } => "BinaryDataConverter",
            Self::Number(kind) => kind.converter(),
        }
    }

    /// The converter that gets to see a value that is not bytes.
    pub(super) fn for_text(&self) -> Result<&Self, Mismatch> {
        match self {
            Self::BinaryData {
                delegate: Some(delegate),
            } => delegate.for_text(),
            Self::BinaryData { delegate: None } | Self::ByteArray | Self::Number(_) => {
                Err(self.mismatch())
            }
            other => Ok(other),
        }
    }

    pub(super) const fn mismatch(&self) -> Mismatch {
        let expected = match self {
            Self::Number(kind) => kind.expected(),
            _ => "bytes",
        };
        Mismatch {
            converter: self.as_str(),
            expected,
        }
    }

    /// Whether it takes values of this type at all.
    pub(super) fn takes(&self, schema: &Schema) -> Result<(), Mismatch> {
        let is_bytes = schema.kind == Kind::Bytes && !schema.is_named(DECIMAL);
        match self {
            Self::Raw | Self::String | Self::Simple | Self::Json(_) => Ok(()),
            Self::ByteArray | Self::BinaryData { .. } if is_bytes => Ok(()),
            Self::BinaryData {
                delegate: Some(delegate),
            } => delegate.takes(schema),
            Self::Number(kind) if kind.connect_kind() == schema.kind => Ok(()),
            Self::ByteArray | Self::BinaryData { delegate: None } | Self::Number(_) => {
                Err(self.mismatch())
            }
        }
    }

    /// What stands before every value of a column: with schemas, the schema.
    pub(super) fn prefix(&self, schema: &Schema) -> Vec<u8> {
        match self {
            Self::Json(JsonOptions {
                schemas: true,
                decimals,
            }) => {
                let mut prefix = b"{\"schema\":".to_vec();
                json::write_schema(schema, None, *decimals, &mut prefix);
                prefix.extend_from_slice(b",\"payload\":");
                prefix
            }
            Self::BinaryData {
                delegate: Some(delegate),
            } => delegate.prefix(schema),
            _ => Vec::new(),
        }
    }

    /// `prefix` is that of the schema.
    pub(super) fn convert(
        &self,
        value: &Value<'_>,
        schema: &Schema,
        prefix: &[u8],
    ) -> Result<Option<Bytes>, Mismatch> {
        Ok(Some(match (self, value) {
            (Self::Json(options), value) => {
                let mut out = Vec::with_capacity(prefix.len() + size_hint(value));
                out.extend_from_slice(prefix);
                json::write_value(value, options.decimals, &mut out);
                if options.schemas {
                    out.push(b'}');
                }
                Bytes::from(out)
            }
            (
                Self::BinaryData {
                    delegate: Some(delegate),
                },
                value,
            ) if schema.kind != Kind::Bytes => {
                return delegate.convert(value, schema, prefix);
            }
            (_, Value::Null) => return Ok(None),
            (
                Self::ByteArray | Self::BinaryData { .. },
                Value::Buffer(bytes) | Value::Bytes(bytes),
            ) => Bytes::copy_from_slice(bytes),
            (
                Self::BinaryData {
                    delegate: Some(delegate),
                },
                value,
            ) => {
                return delegate.convert(value, schema, prefix);
            }
            (Self::Raw | Self::String | Self::Simple, Value::Text(text)) => {
                Bytes::copy_from_slice(text.as_bytes())
            }
            (Self::Raw | Self::String, value) => {
                let mut out = String::new();
                text::write_java(value, &mut out);
                Bytes::from(out)
            }
            (Self::Simple, value) => {
                let mut out = String::new();
                text::write_simple(value, false, &mut out);
                Bytes::from(out)
            }
            (Self::Number(kind), value) => {
                return kind
                    .convert(value, &schema.kind)
                    .map(Some)
                    .ok_or(self.mismatch());
            }
            (Self::ByteArray | Self::BinaryData { delegate: None }, _) => {
                return Err(self.mismatch());
            }
        }))
    }
}

/// Room for the value's JSON text, give or take.
fn size_hint(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len() + text.len() / 8 + 3,
        Value::Buffer(bytes) | Value::Bytes(bytes) => bytes.len() * 4 / 3 + 6,
        _ => 24,
    }
}

impl NumberKind {
    const fn converter(self) -> &'static str {
        match self {
            Self::Short => "ShortConverter",
            Self::Integer => "IntegerConverter",
            Self::Long => "LongConverter",
            Self::Float => "FloatConverter",
            Self::Double => "DoubleConverter",
            Self::Boolean => "BooleanConverter",
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::Short => "int16",
            Self::Integer => "int32",
            Self::Long => "int64",
            Self::Float => "float",
            Self::Double => "double",
            Self::Boolean => "boolean",
        }
    }

    const fn connect_kind(self) -> Kind {
        match self {
            Self::Short => Kind::Int16,
            Self::Integer => Kind::Int32,
            Self::Long => Kind::Int64,
            Self::Float => Kind::Float32,
            Self::Double => Kind::Float64,
            Self::Boolean => Kind::Boolean,
        }
    }

    /// Big-endian, as Kafka's serializers write numbers.
    fn convert(self, value: &Value<'_>, kind: &Kind) -> Option<Bytes> {
        let bytes = match (self, kind, value) {
            (Self::Short, Kind::Int16, Value::Int(value)) => {
                i16::try_from(*value).ok()?.to_be_bytes().to_vec()
            }
            (Self::Integer, Kind::Int32, Value::Int(value)) => {
                i32::try_from(*value).ok()?.to_be_bytes().to_vec()
            }
            (Self::Long, Kind::Int64, Value::Int(value)) => value.to_be_bytes().to_vec(),
            (Self::Float, Kind::Float32, Value::Float(value)) => value.to_be_bytes().to_vec(),
            (Self::Double, Kind::Float64, Value::Double(value)) => value.to_be_bytes().to_vec(),
            (Self::Boolean, Kind::Boolean, Value::Bool(value)) => vec![u8::from(*value)],
            _ => return None,
        };
        Some(Bytes::from(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_big_endian_and_of_one_type() {
        let convert = |kind, value: &Value<'_>, schema| {
            let schema = Schema::new(schema);
            let bytes = Converter::Number(kind).convert(value, &schema, b"");
            bytes.map(|bytes| bytes.map(|bytes| bytes.to_vec()))
        };
        let int = Value::Int(258);
        assert_eq!(
            convert(NumberKind::Integer, &int, Kind::Int32),
            Ok(Some(vec![0, 0, 1, 2]))
        );
        assert_eq!(
            convert(NumberKind::Long, &int, Kind::Int64),
            Ok(Some(vec![0, 0, 0, 0, 0, 0, 1, 2]))
        );
        assert_eq!(
            convert(NumberKind::Boolean, &Value::Bool(true), Kind::Boolean),
            Ok(Some(vec![1]))
        );
        assert_eq!(
            convert(NumberKind::Long, &Value::Null, Kind::Int64),
            Ok(None)
        );
        assert_eq!(
            convert(NumberKind::Long, &int, Kind::Int32),
            Err(Mismatch {
                converter: "LongConverter",
                expected: "int64"
            })
        );
    }

    #[test]
    fn bytes_go_through_and_the_rest_to_the_delegate() {
        let binary = |delegate| Converter::BinaryData { delegate };
        let json = || Some(Box::new(Converter::JSON));
        let (bytes, string) = (Schema::new(Kind::Bytes), Schema::new(Kind::String));
        let buffer = Value::Buffer(vec![0, 255]);
        let raw = Ok(Some(Bytes::from_static(&[0, 255])));
        assert_eq!(binary(None).convert(&buffer, &bytes, b""), raw);
        assert_eq!(binary(json()).convert(&buffer, &bytes, b""), raw);
        assert_eq!(
            binary(json()).convert(&Value::text("x"), &string, b""),
            Ok(Some(Bytes::from_static(b"\"x\"")))
        );
        assert_eq!(binary(json()).convert(&Value::Null, &bytes, b""), Ok(None));
        assert!(
            binary(None)
                .convert(&Value::text("x"), &string, b"")
                .is_err()
        );
    }
}
