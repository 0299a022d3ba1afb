//! A column's value as Kafka Connect holds it.

use std::borrow::Cow;
use std::fmt;

use super::decimal::Decimal;

#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f32),
    Double(f64),
    Text(Cow<'a, str>),
    /// bytea: a `ByteBuffer` in Java, which shows when it is printed.
    Buffer(Vec<u8>),
    /// Bits: a `byte[]` in Java.
    Bytes(Vec<u8>),
    Decimal(Decimal<'a>),
    /// numeric without a scale: a struct of scale and value.
    VariableDecimal(Decimal<'a>),
    Point {
        x: f64,
        y: f64,
    },
    /// A `java.util.Date`: milliseconds since 1970-01-01 00:00 UTC. Days and times of day too.
    Date {
        ms: i64,
        days: bool,
    },
    Array(Vec<Self>),
    Map(Vec<(String, Option<String>)>),
}

impl<'a> Value<'a> {
    pub const fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::Double(value) => Value::Double(value),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Buffer(bytes) => Value::Buffer(bytes),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Decimal(decimal) => Value::Decimal(decimal.into_owned()),
            Self::VariableDecimal(decimal) => Value::VariableDecimal(decimal.into_owned()),
            Self::Point { x, y } => Value::Point { x, y },
            Self::Date { ms, days } => Value::Date { ms, days },
            Self::Array(values) => {
                Value::Array(values.into_iter().map(Value::into_owned).collect())
            }
            Self::Map(entries) => Value::Map(entries),
        }
    }
}

/// A text that its type cannot have. The text itself is not shown: it may be a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    pub column: String,
    pub expected: &'static str,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "column \"{}\": expected {}, found other text",
            self.column, self.expected
        )
    }
}

impl std::error::Error for ValueError {}

/// Well-known binary of a point, little-endian, without a reference system.
pub(crate) fn point_wkb(x: f64, y: f64) -> [u8; 21] {
    const LITTLE_ENDIAN: u8 = 1;
    const POINT: u32 = 1;
    let mut wkb = [0; 21];
    wkb[0] = LITTLE_ENDIAN;
    wkb[1..5].copy_from_slice(&POINT.to_le_bytes());
    wkb[5..13].copy_from_slice(&x.to_le_bytes());
    wkb[13..].copy_from_slice(&y.to_le_bytes());
    wkb
}
