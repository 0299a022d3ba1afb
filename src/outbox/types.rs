//! From a PostgreSQL type to Connect's: which schema a column has and how its text is read.
//!
//! The rules are those of Debezium 3.6.1's PostgreSQL connector (`PostgresValueConverter`).

use super::catalog::{TypeCatalog, TypeKind};
use super::oid;
use super::options::{
    BinaryHandling, DecimalHandling, HstoreHandling, IntervalHandling, TimePrecision, TypeOptions,
};
use super::schema::{Field, Kind, Schema};

/// How one column's text becomes a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reader {
    Bool,
    Integer,
    Float,
    Double,
    Text,
    /// The text of `name`: Debezium reads it from a snapshot, and from the stream only among the
    /// types without a rule.
    Name,
    Binary(BinaryHandling),
    /// bit(1) and varbit(1).
    Bit,
    Bits,
    Date(DateForm),
    Time(TimeForm),
    /// The same without what is below a millisecond.
    TimeOfMillis(TimeForm),
    Timestamp(TimestampForm),
    Instant {
        precision: u8,
    },
    OffsetTime,
    Interval(IntervalHandling),
    Numeric {
        form: NumericForm,
        scale: Option<usize>,
    },
    Money {
        form: DecimalHandling,
        scale: usize,
    },
    Point,
    Hstore(HstoreHandling),
    /// Bytes of the text, of a type without a rule.
    Unknown {
        geometric: bool,
    },
    Array(Box<Self>),
    AlwaysNull,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DateForm {
    Days,
    Connect,
    Iso,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TimeForm {
    Millis,
    Micros,
    Nanos,
    Connect,
    Iso,
}

pub(super) type TimestampForm = TimeForm;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NumericForm {
    Decimal,
    VariableDecimal,
    Double,
    String,
}

/// A column's type under one set of options.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnType {
    pub(super) reader: Reader,
    pub schema: Schema,
}

/// A built-in type, and the modifier that goes with it.
#[derive(Clone, Copy)]
pub(super) struct Base {
    pub(super) oid: u32,
    pub(super) modifier: i32,
}

impl ColumnType {
    /// `None` for types that Debezium leaves out of its events (composites, tsquery, pg_lsn …).
    pub fn of(
        oid: u32,
        modifier: i32,
        catalog: &TypeCatalog,
        options: &TypeOptions,
    ) -> Option<Self> {
        let Some(base) = root(Base { oid, modifier }, catalog) else {
            return unknown(false, options);
        };
        if let Some(element) = element(base.oid, catalog) {
            return array(element, base.modifier, catalog, options);
        }
        if base.oid < oid::FIRST_NORMAL {
            builtin(base, options)
        } else {
            extension(base.oid, catalog, options)
        }
    }

    /// The text as it is, whatever the type.
    pub(crate) const fn text() -> Self {
        Self {
            reader: Reader::Text,
            schema: Schema::new(Kind::String),
        }
    }

    fn new(reader: Reader, schema: Schema) -> Option<Self> {
        Some(Self { reader, schema })
    }

    /// The Connect type's name, for errors.
    pub const fn type_name(&self) -> &'static str {
        self.schema.kind.as_str()
    }
}

/// Through domains, at most as many as can be nested without a loop in a damaged catalog.
pub(super) fn root(mut base: Base, catalog: &TypeCatalog) -> Option<Base> {
    for _ in 0..64 {
        match catalog.get_type(base.oid).map(|found| &found.kind) {
            Some(TypeKind::Domain {
                base: oid,
                type_modifier,
            }) => {
                base = Base {
                    oid: *oid,
                    modifier: if *type_modifier == -1 {
                        base.modifier
                    } else {
                        *type_modifier
                    },
                };
            }
            _ => return Some(base),
        }
    }
    None
}

pub(super) fn element(oid: u32, catalog: &TypeCatalog) -> Option<u32> {
    let built_in = oid::ARRAYS.iter().find(|(array, _)| *array == oid);
    match built_in {
        Some((_, element)) => Some(*element),
        None => match catalog.get_type(oid).map(|found| &found.kind) {
            Some(TypeKind::Array { element }) if oid >= oid::FIRST_NORMAL => Some(*element),
            _ => None,
        },
    }
}

fn array(
    element: u32,
    modifier: i32,
    catalog: &TypeCatalog,
    options: &TypeOptions,
) -> Option<ColumnType> {
    // Arrays of domains are left out, as their elements have no rule.
    if matches!(
        catalog.get_type(element).map(|found| &found.kind),
        Some(TypeKind::Domain { .. })
    ) {
        return unknown(false, options);
    }
    let element = ColumnType::of(element, modifier, catalog, options)?;
    let items = match &element.schema {
        // An array of an enum is the one whose items Debezium forgets to make optional.
        schema if schema.is_named(ENUM) => schema.clone(),
        schema => schema.clone().optional(),
    };
    // Inside arrays the JDBC driver makes times of day of milliseconds.
    let reader = match element.reader {
        Reader::Time(form) => Reader::TimeOfMillis(form),
        reader => reader,
    };
    ColumnType::new(Reader::Array(Box::new(reader)), Schema::array(items))
}

const ENUM: &str = "io.debezium.data.Enum";
const JSON: &str = "io.debezium.data.Json";

fn builtin(base: Base, options: &TypeOptions) -> Option<ColumnType> {
    let plain = |reader, kind| ColumnType::new(reader, Schema::new(kind));
    let logical = |reader, kind, name| ColumnType::new(reader, Schema::logical(kind, name));
    match base.oid {
        oid::BOOL => plain(Reader::Bool, Kind::Boolean),
        oid::INT2 => plain(Reader::Integer, Kind::Int16),
        oid::INT4 => plain(Reader::Integer, Kind::Int32),
        oid::INT8 | oid::OID => plain(Reader::Integer, Kind::Int64),
        oid::FLOAT4 => plain(Reader::Float, Kind::Float32),
        oid::FLOAT8 => plain(Reader::Double, Kind::Float64),
        oid::CHAR | oid::TEXT | oid::BPCHAR | oid::VARCHAR => plain(Reader::Text, Kind::String),
        oid::NAME if options.include_unknown => plain(Reader::Text, Kind::String),
        oid::NAME => plain(Reader::Name, Kind::String),
        oid if oid::PLAIN_TEXT.contains(&oid) => plain(Reader::Text, Kind::String),
        oid::JSON | oid::JSONB => logical(Reader::Text, Kind::String, JSON),
        oid::XML => logical(Reader::Text, Kind::String, "io.debezium.data.Xml"),
        oid::UUID => logical(Reader::Text, Kind::String, "io.debezium.data.Uuid"),
        oid::TSVECTOR => logical(Reader::Text, Kind::String, "io.debezium.data.Tsvector"),
        oid::BYTEA => ColumnType::new(Reader::Binary(options.binary), binary_schema(options)),
        oid::BIT | oid::VARBIT => bits(base.modifier),
        oid::BIT_ARRAY => {
            bits(base.modifier).and_then(|bits| ColumnType::new(Reader::AlwaysNull, bits.schema))
        }
        oid::DATE => date(options.time_precision),
        oid::TIME => time(options.time_precision, precision(base.modifier)),
        oid::TIMESTAMP => timestamp(options.time_precision, precision(base.modifier)),
        oid::TIMESTAMPTZ => {
            let precision = precision(base.modifier);
            logical(
                Reader::Instant { precision },
                Kind::String,
                "io.debezium.time.ZonedTimestamp",
            )
        }
        oid::TIMETZ => logical(
            Reader::OffsetTime,
            Kind::String,
            "io.debezium.time.ZonedTime",
        ),
        oid::INTERVAL => match options.interval {
            mode @ IntervalHandling::Numeric => logical(
                Reader::Interval(mode),
                Kind::Int64,
                "io.debezium.time.MicroDuration",
            ),
            mode @ IntervalHandling::String => logical(
                Reader::Interval(mode),
                Kind::String,
                "io.debezium.time.Interval",
            ),
        },
        oid::NUMERIC => numeric(base.modifier, options.decimal),
        oid::MONEY => money(options),
        oid::POINT => ColumnType::new(Reader::Point, point_schema()),
        oid if oid::GEOMETRIC.contains(&oid) => unknown(true, options),
        _ => unknown(false, options),
    }
}

/// Types of extensions and users, by what the catalog says of them.
fn extension(oid: u32, catalog: &TypeCatalog, options: &TypeOptions) -> Option<ColumnType> {
    let Some(found) = catalog.get_type(oid) else {
        return ColumnType::new(Reader::Text, Schema::new(Kind::String));
    };
    match (&found.kind, found.name.as_str()) {
        (TypeKind::Enum { labels }, _) => {
            let schema = Schema::logical(Kind::String, ENUM).parameter("allowed", labels.join(","));
            ColumnType::new(Reader::Text, schema)
        }
        (TypeKind::Base, "citext" | "isbn") => {
            ColumnType::new(Reader::Text, Schema::new(Kind::String))
        }
        (TypeKind::Base, "ltree") => ColumnType::new(
            Reader::Text,
            Schema::logical(Kind::String, "io.debezium.data.Ltree"),
        ),
        (TypeKind::Base, "hstore") => ColumnType::new(
            Reader::Hstore(options.hstore),
            match options.hstore {
                HstoreHandling::Json => Schema::logical(Kind::String, JSON),
                HstoreHandling::Map => Schema::new(Kind::Map {
                    key: Box::new(Schema::new(Kind::String)),
                    value: Box::new(Schema::new(Kind::String).optional()),
                }),
            },
        ),
        _ => unknown(false, options),
    }
}

fn unknown(geometric: bool, options: &TypeOptions) -> Option<ColumnType> {
    options
        .include_unknown
        .then(|| ColumnType::new(Reader::Unknown { geometric }, binary_schema(options)))?
}

fn binary_schema(options: &TypeOptions) -> Schema {
    Schema::new(match options.binary {
        BinaryHandling::Bytes => Kind::Bytes,
        BinaryHandling::Base64 | BinaryHandling::Base64UrlSafe | BinaryHandling::Hex => {
            Kind::String
        }
    })
}

/// The modifier of bit and varbit is the length itself.
fn bits(modifier: i32) -> Option<ColumnType> {
    match modifier {
        1 => ColumnType::new(Reader::Bit, Schema::new(Kind::Boolean)),
        _ => {
            let length = if modifier < 0 { i32::MAX } else { modifier };
            let schema = Schema::logical(Kind::Bytes, "io.debezium.data.Bits");
            ColumnType::new(Reader::Bits, schema.parameter("length", length))
        }
    }
}

/// Digits behind the seconds that a date or time type keeps; 6 where the column does not say.
fn precision(modifier: i32) -> u8 {
    u8::try_from(modifier).unwrap_or(6)
}

fn date(mode: TimePrecision) -> Option<ColumnType> {
    let (form, kind, name) = match mode {
        TimePrecision::IsoString => (DateForm::Iso, Kind::String, "io.debezium.time.IsoDate"),
        TimePrecision::Connect => (
            DateForm::Connect,
            Kind::Int32,
            "org.apache.kafka.connect.data.Date",
        ),
        _ => (DateForm::Days, Kind::Int32, "io.debezium.time.Date"),
    };
    ColumnType::new(Reader::Date(form), Schema::logical(kind, name))
}

fn time(mode: TimePrecision, precision: u8) -> Option<ColumnType> {
    const MICROS: (TimeForm, Kind, &str) =
        (TimeForm::Micros, Kind::Int64, "io.debezium.time.MicroTime");
    let (form, kind, name) = match mode {
        TimePrecision::Adaptive if precision <= 3 => {
            (TimeForm::Millis, Kind::Int32, "io.debezium.time.Time")
        }
        TimePrecision::Adaptive
        | TimePrecision::AdaptiveTimeMicroseconds
        | TimePrecision::Microseconds => MICROS,
        TimePrecision::Nanoseconds => (TimeForm::Nanos, Kind::Int64, "io.debezium.time.NanoTime"),
        TimePrecision::Connect => (
            TimeForm::Connect,
            Kind::Int32,
            "org.apache.kafka.connect.data.Time",
        ),
        TimePrecision::IsoString => (TimeForm::Iso, Kind::String, "io.debezium.time.IsoTime"),
    };
    ColumnType::new(Reader::Time(form), Schema::logical(kind, name))
}

pub(crate) const TIMESTAMP_MS: &str = "io.debezium.time.Timestamp";

fn timestamp(mode: TimePrecision, precision: u8) -> Option<ColumnType> {
    let (form, kind, name) = match mode {
        TimePrecision::Adaptive | TimePrecision::AdaptiveTimeMicroseconds if precision <= 3 => {
            (TimestampForm::Millis, Kind::Int64, TIMESTAMP_MS)
        }
        TimePrecision::Adaptive
        | TimePrecision::AdaptiveTimeMicroseconds
        | TimePrecision::Microseconds => (
            TimestampForm::Micros,
            Kind::Int64,
            "io.debezium.time.MicroTimestamp",
        ),
        TimePrecision::Nanoseconds => (
            TimestampForm::Nanos,
            Kind::Int64,
            "io.debezium.time.NanoTimestamp",
        ),
        TimePrecision::Connect => (
            TimestampForm::Connect,
            Kind::Int64,
            "org.apache.kafka.connect.data.Timestamp",
        ),
        TimePrecision::IsoString => (
            TimestampForm::Iso,
            Kind::String,
            "io.debezium.time.IsoTimestamp",
        ),
    };
    ColumnType::new(Reader::Timestamp(form), Schema::logical(kind, name))
}

pub(crate) const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

/// The modifier is 4 more than precision and scale, 16 bits each.
fn numeric(modifier: i32, mode: DecimalHandling) -> Option<ColumnType> {
    let declared = (modifier >= 4).then(|| {
        let packed = modifier - 4;
        (
            packed >> 16 & 0xFFFF,
            usize::try_from(packed & 0xFFFF).unwrap_or(0),
        )
    });
    let (form, schema) = match (mode, declared) {
        (DecimalHandling::Double, _) => (NumericForm::Double, Schema::new(Kind::Float64)),
        (DecimalHandling::String, _) => (NumericForm::String, Schema::new(Kind::String)),
        (DecimalHandling::Precise, Some((precision, scale))) => (
            NumericForm::Decimal,
            Schema::logical(Kind::Bytes, DECIMAL)
                .parameter("scale", scale)
                .parameter("connect.decimal.precision", precision),
        ),
        (DecimalHandling::Precise, None) => {
            (NumericForm::VariableDecimal, variable_decimal_schema())
        }
    };
    let scale = declared.map(|(_, scale)| scale);
    ColumnType::new(Reader::Numeric { form, scale }, schema)
}

fn variable_decimal_schema() -> Schema {
    let fields = vec![
        Field::new("scale", Schema::new(Kind::Int32)),
        Field::new("value", Schema::new(Kind::Bytes)),
    ];
    Schema::logical(
        Kind::Struct(fields),
        "io.debezium.data.VariableScaleDecimal",
    )
    .doc("Variable scaled decimal")
}

fn money(options: &TypeOptions) -> Option<ColumnType> {
    let scale = usize::from(options.money_fraction_digits);
    let form = options.decimal;
    let schema = match form {
        DecimalHandling::Precise => Schema::logical(Kind::Bytes, DECIMAL).parameter("scale", scale),
        DecimalHandling::Double => Schema::new(Kind::Float64),
        DecimalHandling::String => Schema::new(Kind::String),
    };
    ColumnType::new(Reader::Money { form, scale }, schema)
}

fn point_schema() -> Schema {
    let fields = vec![
        Field::new("x", Schema::new(Kind::Float64)),
        Field::new("y", Schema::new(Kind::Float64)),
        Field::new("wkb", Schema::new(Kind::Bytes).optional()),
        Field::new("srid", Schema::new(Kind::Int32).optional()),
    ];
    Schema::logical(Kind::Struct(fields), "io.debezium.data.geometry.Point").doc("Geometry (POINT)")
}
