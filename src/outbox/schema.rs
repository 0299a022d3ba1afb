//! What Kafka Connect knows of a value beside the value: its type, its name, its default.

use super::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub kind: Kind,
    pub optional: bool,
    /// A logical type such as `io.debezium.time.MicroTimestamp`.
    pub name: Option<String>,
    pub version: Option<i32>,
    pub doc: Option<&'static str>,
    /// In their order.
    pub parameters: Vec<(&'static str, String)>,
    pub default: Option<Value<'static>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Boolean,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    String,
    Bytes,
    Array(Box<Schema>),
    Map {
        key: Box<Schema>,
        value: Box<Schema>,
    },
    Struct(Vec<Field>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub schema: Schema,
}

impl Schema {
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            optional: false,
            name: None,
            version: None,
            doc: None,
            parameters: Vec::new(),
            default: None,
        }
    }

    /// A logical type of version 1, as all of Debezium's and Connect's are.
    pub fn logical(kind: Kind, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            version: Some(1),
            ..Self::new(kind)
        }
    }

    #[must_use]
    pub fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    #[must_use]
    pub fn parameter(mut self, name: &'static str, value: impl ToString) -> Self {
        self.parameters.push((name, value.to_string()));
        self
    }

    #[must_use]
    pub fn doc(self, doc: &'static str) -> Self {
        Self {
            doc: Some(doc),
            ..self
        }
    }

    pub fn array(items: Self) -> Self {
        Self::new(Kind::Array(Box::new(items)))
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }
}

impl Kind {
    /// As `JsonConverter` spells it, and as errors name it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float32 => "float",
            Self::Float64 => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Array(_) => "array",
            Self::Map { .. } => "map",
            Self::Struct(_) => "struct",
        }
    }
}

impl Field {
    pub fn new(name: &str, schema: Schema) -> Self {
        Self {
            name: name.to_owned(),
            schema,
        }
    }
}
