use super::*;
use crate::outbox::oid;
use crate::outbox::{CatalogType, TimePrecision, TypeCatalog, TypeKind, TypeOptions};

const ENUM: u32 = 20_000;
const DOMAIN: u32 = 20_001;
const HSTORE: u32 = 20_002;
const COMPOSITE: u32 = 20_003;
const ENUM_ARRAY: u32 = 20_004;

fn catalog() -> TypeCatalog {
    let mut catalog = TypeCatalog::default();
    let labels = vec!["sad".to_owned(), "happy".to_owned()];
    let base = oid::NUMERIC;
    for (oid, name, kind) in [
        (ENUM, "mood", TypeKind::Enum { labels }),
        (
            DOMAIN,
            "price",
            TypeKind::Domain {
                base,
                type_modifier: 655_366,
            },
        ),
        (HSTORE, "hstore", TypeKind::Base),
        (COMPOSITE, "pair", TypeKind::Other),
        (ENUM_ARRAY, "_mood", TypeKind::Array { element: ENUM }),
    ] {
        let name = name.to_owned();
        catalog.add_type(oid, CatalogType { name, kind });
    }
    catalog
}

fn read(oid: u32, modifier: i32, text: &str, options: &TypeOptions) -> Value<'static> {
    let column = ColumnType::of(oid, modifier, &catalog(), options).unwrap();
    column.read(text, Source::Stream).unwrap().into_owned()
}

fn by_default(oid: u32, modifier: i32, text: &str) -> Value<'static> {
    read(oid, modifier, text, &TypeOptions::default())
}

fn decimal(text: &'static str) -> Decimal<'static> {
    Decimal::parse(text).unwrap()
}

#[test]
fn values_are_those_that_debezium_makes() {
    for (oid, modifier, text, expected) in [
        (oid::BOOL, -1, "t", Value::Bool(true)),
        (oid::INT8, -1, "9223372036854775807", Value::Int(i64::MAX)),
        (
            oid::FLOAT8,
            -1,
            "-Infinity",
            Value::Double(f64::NEG_INFINITY),
        ),
        (
            oid::BYTEA,
            -1,
            "\\x00ff7a",
            Value::Buffer(vec![0, 255, 0x7A]),
        ),
        (
            oid::TIMESTAMP,
            -1,
            "2020-01-02 03:04:05.678901",
            Value::Int(1_577_934_245_678_901),
        ),
        (
            oid::TIMESTAMP,
            3,
            "2020-01-02 03:04:05.679",
            Value::Int(1_577_934_245_679),
        ),
        (
            oid::TIMESTAMPTZ,
            -1,
            "2020-01-02 01:04:05.6+00",
            Value::text("2020-01-02T01:04:05.600000Z"),
        ),
        (
            oid::TIMESTAMPTZ,
            3,
            "2020-01-02 03:04:05+02",
            Value::text("2020-01-02T01:04:05.000Z"),
        ),
        (
            oid::TIMESTAMPTZ,
            0,
            "2020-01-01 00:00:00+00",
            Value::text("2020-01-01T00:00:00Z"),
        ),
        (oid::TIMESTAMPTZ, -1, "infinity", Value::text("infinity")),
        (oid::DATE, -1, "infinity", Value::Int(-2_147_472_692)),
        (oid::TIME, 3, "03:04:05.678", Value::Int(11_045_678)),
        (oid::TIME, -1, "24:00:00", Value::Int(86_400_000_000)),
        (
            oid::TIMETZ,
            -1,
            "03:04:05.678901+02",
            Value::text("01:04:05.678901Z"),
        ),
        (oid::INTERVAL, -1, "1 day", Value::Int(86_400_000_000)),
        (oid::BIT, 1, "1", Value::Bool(true)),
        (oid::BIT, 5, "10101", Value::Bytes(vec![21])),
        (oid::BIT, 16, "1000000000000001", Value::Bytes(vec![1, 128])),
        (oid::VARBIT, -1, "000", Value::Bytes(vec![])),
        (
            oid::NUMERIC,
            655_366,
            "1.10",
            Value::Decimal(decimal("1.10")),
        ),
        (
            oid::NUMERIC,
            -1,
            "123.4500",
            Value::VariableDecimal(decimal("123.45")),
        ),
        (oid::NUMERIC, -1, "NaN", Value::Null),
        (DOMAIN, -1, "1.10", Value::Decimal(decimal("1.10"))),
        (
            oid::MONEY,
            -1,
            "-$1,234.567",
            Value::Decimal(decimal("-1234.57")),
        ),
        (oid::POINT, -1, "(1.5,2)", Value::Point { x: 1.5, y: 2.0 }),
        (oid::NAME, -1, "lost in the stream", Value::Null),
        (ENUM, -1, "happy", Value::text("happy")),
        (99_999, -1, "as it is", Value::text("as it is")),
        (
            HSTORE,
            -1,
            "\"a\"=>\"1\", \"b\"=>NULL",
            Value::text("{\"a\":\"1\",\"b\":null}"),
        ),
        (
            1231,
            327_686,
            "{1.10,NULL}",
            Value::Array(vec![Value::Decimal(decimal("1.10")), Value::Null]),
        ),
        (
            ENUM_ARRAY,
            -1,
            "{sad}",
            Value::Array(vec![Value::text("sad")]),
        ),
        (1561, -1, "{101}", Value::Null),
    ] {
        assert_eq!(by_default(oid, modifier, text), expected, "{oid} {text}");
    }
}

#[test]
fn modes_change_the_values() {
    let time = |time_precision| TypeOptions {
        time_precision,
        ..TypeOptions::default()
    };
    let decimal = |decimal| TypeOptions {
        decimal,
        ..TypeOptions::default()
    };
    let at = "2020-01-02 03:04:05.678901";
    let date = |ms, days| Value::Date { ms, days };
    for (oid, modifier, text, options, expected) in [
        (
            oid::TIMESTAMP,
            -1,
            at,
            time(TimePrecision::Connect),
            date(1_577_934_245_678, false),
        ),
        (
            oid::TIMESTAMP,
            0,
            at,
            time(TimePrecision::Nanoseconds),
            Value::Int(1_577_934_245_678_901_000),
        ),
        (
            oid::TIMESTAMP,
            -1,
            "infinity",
            time(TimePrecision::Nanoseconds),
            Value::Int(i64::MAX),
        ),
        (
            oid::TIMESTAMP,
            -1,
            "9999-01-01 00:00:00",
            time(TimePrecision::Nanoseconds),
            Value::Null,
        ),
        (
            oid::TIMESTAMP,
            3,
            at,
            time(TimePrecision::IsoString),
            Value::text("2020-01-02T03:04:05.678901Z"),
        ),
        (
            oid::DATE,
            -1,
            "2020-01-02",
            time(TimePrecision::IsoString),
            Value::text("2020-01-02Z"),
        ),
        (
            oid::DATE,
            -1,
            "1970-01-03",
            time(TimePrecision::Connect),
            date(172_800_000, true),
        ),
        (
            oid::TIME,
            3,
            "00:00:01",
            time(TimePrecision::AdaptiveTimeMicroseconds),
            Value::Int(1_000_000),
        ),
        (
            oid::TIME,
            -1,
            "00:00:01",
            time(TimePrecision::Connect),
            date(1000, false),
        ),
        (
            oid::NUMERIC,
            -1,
            "123.4500",
            decimal(DecimalHandling::String),
            Value::text("123.4500"),
        ),
        (
            oid::NUMERIC,
            -1,
            "NaN",
            decimal(DecimalHandling::String),
            Value::text("NAN"),
        ),
        (
            oid::NUMERIC,
            -1,
            "123.4500",
            decimal(DecimalHandling::Double),
            Value::Double(123.45),
        ),
        (
            oid::MONEY,
            -1,
            "$1,234.56",
            decimal(DecimalHandling::String),
            Value::text("1234.56"),
        ),
    ] {
        assert_eq!(
            read(oid, modifier, text, &options),
            expected,
            "{oid} {text} {options:?}"
        );
    }
    let binary = |binary| TypeOptions {
        binary,
        ..TypeOptions::default()
    };
    for (mode, text) in [
        (BinaryHandling::Base64, "AP8Q+w=="),
        (BinaryHandling::Base64UrlSafe, "AP8Q-w=="),
        (BinaryHandling::Hex, "00ff10fb"),
    ] {
        assert_eq!(
            read(oid::BYTEA, -1, "\\x00ff10fb", &binary(mode)),
            Value::text(text)
        );
    }
}

#[test]
fn times_in_arrays_end_at_the_millisecond() {
    let int = |values: &[i64]| Value::Array(values.iter().copied().map(Value::Int).collect());
    let options = TypeOptions::default();
    const TIMES: u32 = 1183;
    assert_eq!(
        read(TIMES, -1, "{00:00:01.234567,00:00:02}", &options),
        int(&[1_234_000, 2_000_000])
    );
    assert_eq!(
        read(oid::TIME, -1, "00:00:01.234567", &options),
        Value::Int(1_234_567)
    );
}

#[test]
fn types_without_a_rule_are_no_columns_unless_asked_for() {
    let lsn = 3220;
    for oid in [COMPOSITE, lsn, 603] {
        let column = ColumnType::of(oid, -1, &catalog(), &TypeOptions::default());
        assert_eq!(column, None, "{oid}");
    }
    let all = TypeOptions {
        include_unknown: true,
        ..TypeOptions::default()
    };
    assert_eq!(
        read(603, -1, "(1,1),(0,1e7)", &all),
        Value::Buffer(b"(1.0,1.0),(0.0,1.0E7)".to_vec())
    );
    assert_eq!(read(oid::NAME, -1, "n", &all), Value::text("n"));
    assert_eq!(
        read(COMPOSITE, -1, "(1,x)", &all),
        Value::Buffer(b"(1,x)".to_vec())
    );
}

#[test]
fn texts_that_a_type_cannot_have_are_refused() {
    for (oid, text) in [
        (oid::INT4, "x"),
        (oid::FLOAT8, "x"),
        (oid::BYTEA, "\\x0"),
        (oid::BYTEA, "00"),
        (oid::BYTEA, "\\xzz"),
        (oid::DATE, "x"),
        (oid::TIME, "x"),
        (oid::TIMESTAMP, "2020"),
        (oid::TIMESTAMPTZ, "2020-01-01 00:00:00"),
        (oid::TIMETZ, "x"),
        (oid::INTERVAL, "P1D"),
        (oid::NUMERIC, "x"),
        (oid::MONEY, "x"),
        (oid::POINT, "1,2"),
        (1007, "{1,x}"),
        (1007, "{1"),
        (HSTORE, "x"),
    ] {
        let column = ColumnType::of(oid, -1, &catalog(), &TypeOptions::default()).unwrap();
        assert!(column.read(text, Source::Stream).is_err(), "{oid} {text}");
    }
}
