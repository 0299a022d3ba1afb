//! A column's text as a value.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::decimal::{self, Decimal};
use super::interval::Interval;
use super::nested::{self, Element};
use super::options::{BinaryHandling, DecimalHandling, HstoreHandling, IntervalHandling};
use super::temporal::{self, DAY_US, Fraction};
use super::types::{ColumnType, DateForm, NumericForm, Reader, TimeForm, TimestampForm};
use super::value::Value;
use crate::java;

impl ColumnType {
    /// What the text stands for, or what was expected of it.
    pub fn read<'a>(&self, text: &'a str, source: Source) -> Result<Value<'a>, &'static str> {
        match &self.reader {
            // The hot ones first: they are the text itself.
            Reader::Text => Ok(Value::text(text)),
            Reader::Integer => text.parse().map(Value::Int).map_err(|_| "an integer"),
            Reader::Name if source == Source::Stream => Ok(Value::Null),
            reader => reader.read(text),
        }
    }

    /// bytea without a detour through a value.
    pub(crate) const fn is_bytea(&self) -> bool {
        matches!(self.reader, Reader::Binary(_))
    }

    /// It can date a record.
    pub(crate) const fn is_moment(&self) -> bool {
        matches!(
            self.reader,
            Reader::Timestamp(_) | Reader::Instant { .. } | Reader::Date(_)
        )
    }

    /// Microseconds for a column that can date a record, whatever the mode makes of it.
    pub(crate) fn read_moment(&self, text: &str) -> Option<Result<i64, &'static str>> {
        match self.reader {
            Reader::Timestamp(_) => Some(temporal::timestamp_us(text).ok_or("a timestamp")),
            Reader::Instant { .. } => Some(temporal::instant_us(text).ok_or("a timestamp")),
            Reader::Date(_) => {
                let days = temporal::date_days(text).ok_or("a date");
                Some(days.map(|days| days.saturating_mul(DAY_US)))
            }
            _ => None,
        }
    }
}

/// Where a row comes from. Debezium reads one type differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Stream,
    Snapshot,
}

impl Reader {
    fn read<'a>(&self, text: &'a str) -> Result<Value<'a>, &'static str> {
        match self {
            Self::Text | Self::Name => Ok(Value::text(text)),
            Self::Bool => Ok(Value::Bool(text == "t")),
            Self::Integer => text.parse().map(Value::Int).map_err(|_| "an integer"),
            Self::Float => text.parse().map(Value::Float).map_err(|_| "a number"),
            Self::Double => text.parse().map(Value::Double).map_err(|_| "a number"),
            Self::Binary(mode) => bytea(text)
                .map(|bytes| binary(bytes, *mode))
                .ok_or("bytea in hexadecimal"),
            Self::Bit => Ok(Value::Bool(text.contains('1'))),
            Self::Bits => Ok(Value::Bytes(bits(text))),
            Self::Date(form) => date(text, *form).ok_or("a date"),
            Self::Time(form) => temporal::time_us(text)
                .map(|us| time(us, *form))
                .ok_or("a time"),
            Self::TimeOfMillis(form) => temporal::time_us(text)
                .map(|us| time(us - us % 1000, *form))
                .ok_or("a time"),
            Self::Timestamp(form) => timestamp(text, *form).ok_or("a timestamp"),
            Self::Instant { precision } => instant(text, *precision).ok_or("a timestamp"),
            Self::OffsetTime => temporal::offset_time_us(text)
                .map(|us| Value::Text(temporal::iso_time(us, Fraction::Shortest).into()))
                .ok_or("a time with an offset"),
            Self::Interval(mode) => Interval::parse(text)
                .map(|interval| match mode {
                    IntervalHandling::Numeric => Value::Int(interval.micros()),
                    IntervalHandling::String => Value::Text(interval.iso().into()),
                })
                .ok_or("an interval"),
            Self::Numeric { form, scale } => numeric(text, *form, *scale).ok_or("a number"),
            Self::Money { form, scale } => money(text, *form, *scale).ok_or("an amount of money"),
            Self::Point => point(text).ok_or("a point"),
            Self::Hstore(mode) => nested::hstore(text)
                .map(|entries| hstore(entries, *mode))
                .ok_or("an hstore"),
            Self::Unknown { geometric } => {
                let text = if *geometric {
                    java_numbers(text).into()
                } else {
                    Cow::Borrowed(text)
                };
                Ok(Value::Buffer(text.into_owned().into_bytes()))
            }
            Self::Array(element) => {
                let elements = nested::array(text).ok_or("an array")?;
                array(&elements, element)
            }
            Self::AlwaysNull => Ok(Value::Null),
        }
    }
}

fn array<'a>(elements: &[Element<'a>], reader: &Reader) -> Result<Value<'a>, &'static str> {
    let values = elements.iter().map(|element| match element {
        Element::Null => Ok(Value::Null),
        Element::Text(text) => reader.read(text).map(Value::into_owned),
        Element::Array(inner) => array(inner, reader),
    });
    values.collect::<Result<_, _>>().map(Value::Array)
}

fn bytea(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.strip_prefix("\\x")?.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let byte = |[high, low]: &[u8; 2]| Some(nibble(*high)? << 4 | nibble(*low)?);
    pairs.iter().map(byte).collect()
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn binary(bytes: Vec<u8>, mode: BinaryHandling) -> Value<'static> {
    let text = match mode {
        BinaryHandling::Bytes => return Value::Buffer(bytes),
        BinaryHandling::Base64 => STANDARD.encode(bytes),
        BinaryHandling::Base64UrlSafe => URL_SAFE.encode(bytes),
        BinaryHandling::Hex => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    Value::Text(text.into())
}

/// The last bit is the lowest of the first byte; bytes above the highest 1 are left out.
fn bits(text: &str) -> Vec<u8> {
    let mut bytes = vec![0; text.len().div_ceil(8)];
    for (at, _) in text
        .bytes()
        .rev()
        .enumerate()
        .filter(|(_, bit)| *bit == b'1')
    {
        bytes[at / 8] |= 1 << (at % 8);
    }
    let used = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    bytes.truncate(used);
    bytes
}

fn date(text: &str, form: DateForm) -> Option<Value<'static>> {
    let days = temporal::date_days(text)?;
    Some(match form {
        DateForm::Days => Value::Int(days),
        DateForm::Connect => Value::Date {
            ms: days.saturating_mul(DAY_US / 1000),
            days: true,
        },
        DateForm::Iso => Value::Text((temporal::iso_date(days) + "Z").into()),
    })
}

fn time(us: i64, form: TimeForm) -> Value<'static> {
    match form {
        TimeForm::Millis => Value::Int(us / 1000),
        TimeForm::Micros => Value::Int(us),
        TimeForm::Nanos => Value::Int(us * 1000),
        TimeForm::Connect => Value::Date {
            ms: us / 1000,
            days: false,
        },
        TimeForm::Iso => Value::Text(temporal::iso_time(us, Fraction::Shortest).into()),
    }
}

fn timestamp(text: &str, form: TimestampForm) -> Option<Value<'static>> {
    let us = temporal::timestamp_us(text)?;
    Some(match form {
        TimestampForm::Millis => Value::Int(us.div_euclid(1000)),
        TimestampForm::Micros => Value::Int(us),
        TimestampForm::Nanos => match us {
            temporal::INFINITY_US => Value::Int(i64::MAX),
            temporal::MINUS_INFINITY_US => Value::Int(i64::MIN),
            // Debezium warns and has no value beyond what 64 bits hold.
            us => us.checked_mul(1000).map_or(Value::Null, Value::Int),
        },
        TimestampForm::Connect => Value::Date {
            ms: us.div_euclid(1000),
            days: false,
        },
        TimestampForm::Iso => Value::Text(temporal::iso_timestamp(us, Fraction::Shortest).into()),
    })
}

fn instant(text: &str, precision: u8) -> Option<Value<'_>> {
    if matches!(text, "infinity" | "-infinity") {
        return Some(Value::text(text));
    }
    let fraction = match precision {
        0 => Fraction::Shortest,
        digits => Fraction::Fixed(digits),
    };
    let us = temporal::instant_us(text)?;
    Some(Value::Text(temporal::iso_timestamp(us, fraction).into()))
}

/// NaN and the infinities are no decimals: null where only decimals fit.
fn numeric(text: &str, form: NumericForm, scale: Option<usize>) -> Option<Value<'_>> {
    let (name, double) = match text {
        "NaN" => ("NAN", f64::NAN),
        "Infinity" => ("POSITIVE_INFINITY", f64::INFINITY),
        "-Infinity" => ("NEGATIVE_INFINITY", f64::NEG_INFINITY),
        _ => {
            let decimal = Decimal::parse(text)?;
            let decimal = match scale {
                Some(scale) => decimal.with_scale(scale),
                None => decimal,
            };
            return Some(match form {
                NumericForm::Decimal => Value::Decimal(decimal),
                NumericForm::VariableDecimal => {
                    Value::VariableDecimal(decimal.without_trailing_zeros())
                }
                NumericForm::Double => Value::Double(decimal.to_double()),
                NumericForm::String => Value::Text(decimal.into_owned().plain().to_owned().into()),
            });
        }
    };
    Some(match form {
        NumericForm::Decimal | NumericForm::VariableDecimal => Value::Null,
        NumericForm::Double => Value::Double(double),
        NumericForm::String => Value::text(name),
    })
}

fn money(text: &str, form: DecimalHandling, scale: usize) -> Option<Value<'static>> {
    let amount = decimal::money(text)?;
    Some(match form {
        DecimalHandling::Precise => Value::Decimal(amount.with_scale(scale)),
        DecimalHandling::Double => Value::Double(amount.to_double()),
        DecimalHandling::String => Value::Text(amount.plain().to_owned().into()),
    })
}

fn point(text: &str) -> Option<Value<'static>> {
    let (x, y) = text.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    Some(Value::Point {
        x: x.parse().ok()?,
        y: y.parse().ok()?,
    })
}

/// Debezium holds the entries in a Java `HashMap` and writes them in its order.
fn hstore(mut entries: Vec<(String, Option<String>)>, mode: HstoreHandling) -> Value<'static> {
    java::hash_map_order(&mut entries);
    match mode {
        HstoreHandling::Map => Value::Map(entries),
        HstoreHandling::Json => {
            let mut json = vec![b'{'];
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    json.push(b',');
                }
                java::write_json_text(key, &mut json);
                json.push(b':');
                match value {
                    Some(value) => java::write_json_text(value, &mut json),
                    None => json.extend_from_slice(b"null"),
                }
            }
            json.push(b'}');
            Value::Text(String::from_utf8_lossy(&json).into_owned().into())
        }
    }
}

/// The numbers in the text of a geometric type, spelt as Java's doubles.
fn java_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut number = String::new();
    let flush = |number: &mut String, out: &mut String| {
        match number.parse::<f64>() {
            Ok(value) => out.push_str(&java::double(value)),
            Err(_) => out.push_str(number),
        }
        number.clear();
    };
    for character in text.chars() {
        if "(),[]{}<>".contains(character) {
            flush(&mut number, &mut out);
            out.push(character);
        } else {
            number.push(character);
        }
    }
    flush(&mut number, &mut out);
    out
}

#[cfg(test)]
mod tests;
