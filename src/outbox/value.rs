//! A column's value as Kafka Connect would see it, from PostgreSQL's text output.
//!
//! The session's settings are pinned (ISO dates, UTC, bytea in hexadecimal), so the text of a type
//! has one form. What Debezium makes of each type: `docs/compatibility.md`.

use std::borrow::Cow;
use std::fmt;

use crate::pgoutput::{Column, Datum};

/// Built-in types by their fixed oid (`pg_type.dat` in PostgreSQL's source).
mod oid {
    pub(super) const BOOL: u32 = 16;
    pub(super) const BYTEA: u32 = 17;
    pub(super) const INT8: u32 = 20;
    pub(super) const INT2: u32 = 21;
    pub(super) const INT4: u32 = 23;
    pub(super) const OID: u32 = 26;
    pub(super) const FLOAT4: u32 = 700;
    pub(super) const FLOAT8: u32 = 701;
    pub(super) const DATE: u32 = 1082;
    pub(super) const TIMESTAMP: u32 = 1114;
    pub(super) const TIMESTAMPTZ: u32 = 1184;
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
    Bytes(Cow<'a, [u8]>),
    /// Microseconds since 1970-01-01 00:00, as if the text were UTC.
    TimestampUs(i64),
    /// The same for a type that has a time zone.
    InstantUs(i64),
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

impl<'a> Value<'a> {
    /// Types without a rule here are their text, as are enums, domains over text and json.
    pub fn read(column: &Column, datum: Datum<'a>) -> Result<Self, ValueError> {
        let fail = |expected| ValueError {
            column: column.name.clone(),
            expected,
        };
        let text = match datum {
            Datum::Null | Datum::UnchangedToast => return Ok(Value::Null),
            Datum::Text(bytes) => std::str::from_utf8(bytes).map_err(|_| fail("UTF-8"))?,
            Datum::Binary(_) => return Err(fail("text format")),
        };
        match column.type_oid {
            oid::BOOL => Ok(Value::Bool(text == "t")),
            oid::INT2 | oid::INT4 | oid::INT8 | oid::OID => {
                text.parse().map(Value::Int).map_err(|_| fail("an integer"))
            }
            oid::FLOAT4 | oid::FLOAT8 => text
                .parse()
                .map(Value::Double)
                .map_err(|_| fail("a number")),
            oid::BYTEA => bytea(text)
                .map(Value::Bytes)
                .ok_or_else(|| fail("bytea in hexadecimal")),
            oid::TIMESTAMP => timestamp_us(text)
                .map(Value::TimestampUs)
                .ok_or_else(|| fail("a timestamp")),
            oid::TIMESTAMPTZ => timestamp_us(text)
                .map(Value::InstantUs)
                .ok_or_else(|| fail("a timestamp")),
            oid::DATE => days(text).map(Value::Int).ok_or_else(|| fail("a date")),
            _ => Ok(Value::Text(text)),
        }
    }
}

fn bytea(text: &str) -> Option<Cow<'_, [u8]>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let nibble = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|n| u8::try_from(n).ok())
    };
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|[high, low]| Some((nibble(*high)? << 4) | nibble(*low)?))
        .collect::<Option<Vec<u8>>>()
        .map(Cow::Owned)
}

const DAY_US: i64 = 86_400_000_000;
/// What Debezium 3.6.1 was seen to make of PostgreSQL's infinite timestamps.
const INFINITY_US: i64 = 9_223_372_036_825_200_000;
const MINUS_INFINITY_US: i64 = -9_223_372_036_832_400_000;

/// `2020-01-02 03:04:05.678901`, with ` BC` or `+00` behind it, or an infinity.
fn timestamp_us(text: &str) -> Option<i64> {
    match text {
        "infinity" => return Some(INFINITY_US),
        "-infinity" => return Some(MINUS_INFINITY_US),
        _ => {}
    }
    let (text, era) = match text.strip_suffix(" BC") {
        Some(text) => (text, " BC"),
        None => (text, ""),
    };
    let (date, time) = text.split_once(' ')?;
    let time = time.strip_suffix("+00").unwrap_or(time);
    let day = if era.is_empty() {
        days(date)?
    } else {
        days(&format!("{date}{era}"))?
    };
    day.checked_mul(DAY_US)?.checked_add(time_us(time)?)
}

fn time_us(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let fraction_us = match fraction.len() {
        0 => 0,
        digits @ 1..=6 => {
            fraction.parse::<i64>().ok()? * 10_i64.pow(6 - u32::try_from(digits).ok()?)
        }
        _ => return None,
    };
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction_us)
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, from `2020-01-02` or `0044-03-15 BC`.
fn days(text: &str) -> Option<i64> {
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let mut parts = text.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = if before_christ { 1 - year } else { year };
    // Years from March on, so that the leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    const CYCLE_DAYS: i64 = 146_097;
    const MARCH_OF_YEAR_0_TO_EPOCH_DAYS: i64 = 719_468;
    Some(cycle * CYCLE_DAYS + day_of_cycle - MARCH_OF_YEAR_0_TO_EPOCH_DAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(type_oid: u32, text: &'static str) -> Result<Value<'static>, ValueError> {
        let column = Column {
            name: "c".to_owned(),
            type_oid,
            type_modifier: -1,
            is_key: false,
        };
        Value::read(&column, Datum::Text(text.as_bytes()))
    }

    #[test]
    fn timestamps_are_microseconds_as_if_utc() {
        let cases = [
            ("1970-01-01 00:00:00", 0),
            ("2020-01-02 01:04:05.678901", 1_577_927_045_678_901),
            ("2000-02-29 00:00:00.5", 951_782_400_500_000),
            ("1969-12-31 23:59:59.999999", -1),
            ("infinity", INFINITY_US),
            ("-infinity", MINUS_INFINITY_US),
        ];
        for (text, expected) in cases {
            assert_eq!(
                read(oid::TIMESTAMP, text),
                Ok(Value::TimestampUs(expected)),
                "{text}"
            );
        }
        assert_eq!(
            read(oid::TIMESTAMPTZ, "1970-01-01 00:00:01+00"),
            Ok(Value::InstantUs(1_000_000))
        );
        assert_eq!(read(oid::DATE, "0001-12-31 BC"), Ok(Value::Int(-719_163)));
    }

    #[test]
    fn bytea_is_its_bytes() {
        assert_eq!(
            read(oid::BYTEA, "\\x00ff7a"),
            Ok(Value::Bytes(Cow::Borrowed(b"\x00\xffz")))
        );
        for text in ["\\x0", "00", "\\xzz"] {
            assert!(read(oid::BYTEA, text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_types_are_their_text() {
        assert_eq!(read(99_999, "{\"a\": 1}"), Ok(Value::Text("{\"a\": 1}")));
    }
}
