//! Values as text: Java's `toString`, which `StringConverter` writes, and the text of
//! `SimpleHeaderConverter`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::java;
use crate::outbox::{Value, civil, point_wkb};

/// `toString()`. Where Java shows the identity of an object instead of a value (`[B@1b2c3d`),
/// which no two runs have in common, this shows the value.
pub(super) fn write_java(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Float(value) => out.push_str(&java::float(*value)),
        Value::Double(value) => out.push_str(&java::double(*value)),
        Value::Text(text) => out.push_str(text),
        Value::Buffer(bytes) => {
            let length = bytes.len();
            out.push_str(&format!(
                "java.nio.HeapByteBuffer[pos=0 lim={length} cap={length}]"
            ));
        }
        Value::Bytes(bytes) => out.push_str(&BASE64.encode(bytes)),
        Value::Decimal(decimal) | Value::VariableDecimal(decimal) => {
            out.push_str(&decimal.java_string());
        }
        Value::Point { x, y } => {
            let wkb = BASE64.encode(point_wkb(*x, *y));
            let (x, y) = (java::double(*x), java::double(*y));
            out.push_str(&format!("Struct{{x={x},y={y},wkb={wkb}}}"));
        }
        Value::Date { ms, .. } => out.push_str(&date_to_string(*ms)),
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_java(value, out);
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                out.push_str(key);
                out.push('=');
                out.push_str(value.as_deref().unwrap_or("null"));
            }
            out.push('}');
        }
    }
}

/// `Values.convertToString` of Connect: plain at the top, quoted inside.
pub(super) fn write_simple(value: &Value<'_>, embedded: bool, out: &mut String) {
    match value {
        Value::Text(text) if embedded => write_quoted(text, out),
        Value::Buffer(bytes) | Value::Bytes(bytes) => {
            write_bytes(bytes, embedded, out);
        }
        Value::VariableDecimal(decimal) => {
            let value = BASE64.encode(decimal.unscaled_bytes());
            let scale = decimal.scale();
            out.push_str(&format!("{{\"scale\":{scale},\"value\":\"{value}\"}}"));
        }
        Value::Point { x, y } => {
            let wkb = BASE64.encode(point_wkb(*x, *y));
            let (x, y) = (java::double(*x), java::double(*y));
            out.push_str(&format!(
                "{{\"x\":{x},\"y\":{y},\"wkb\":\"{wkb}\",\"srid\":null}}"
            ));
        }
        Value::Date { ms, .. } => out.push_str(&simple_date(*ms)),
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_simple(value, true, out);
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_quoted(key, out);
                out.push(':');
                match value {
                    Some(value) => write_quoted(value, out),
                    None => out.push_str("null"),
                }
            }
            out.push('}');
        }
        plain => write_java(plain, out),
    }
}

fn write_bytes(bytes: &[u8], embedded: bool, out: &mut String) {
    let quote = if embedded { "\"" } else { "" };
    out.push_str(quote);
    out.push_str(&BASE64.encode(bytes));
    out.push_str(quote);
}

/// Only quotes and backslashes are escaped.
fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

const DAY_MS: i64 = 86_400_000;

/// Hours, minutes, seconds, milliseconds.
fn clock(ms: i64) -> (i64, i64, i64, i64) {
    let ms = ms.rem_euclid(DAY_MS);
    (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
}

/// Connect tells a time of day from a date and a timestamp by the number alone: everything before
/// 1970-01-02 is a time, every midnight a date.
fn simple_date(ms: i64) -> String {
    let (hours, minutes, seconds, millis) = clock(ms);
    let time = format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z");
    if ms < DAY_MS {
        return time;
    }
    let (year, month, day) = civil(ms.div_euclid(DAY_MS));
    let date = format!("{year:04}-{month:02}-{day:02}");
    if ms % DAY_MS == 0 {
        date
    } else {
        format!("{date}T{time}")
    }
}

/// Year of its era, month and day by the Julian calendar, in which Java shows what was before
/// 1582-10-15. (Richards' algorithm for the Julian day number.)
const fn julian(days: i64) -> (i64, i64, i64) {
    const EPOCH: i64 = 2_440_588;
    const MARCH_OF_4801_BC: i64 = 32_082;
    let shifted = days + EPOCH + MARCH_OF_4801_BC;
    let year = (4 * shifted + 3).div_euclid(1461);
    let day_of_year = shifted - (1461 * year).div_euclid(4);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year - 4800 + month / 10;
    let year_of_era = if year > 0 { year } else { 1 - year };
    (year_of_era, month + 3 - 12 * (month / 10), day)
}

/// `Thu Jan 02 03:04:05 UTC 2020`
fn date_to_string(ms: i64) -> String {
    const WEEK: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    /// 1582-10-15
    const GREGORIAN_DAYS: i64 = -141_427;
    let days = ms.div_euclid(DAY_MS);
    let (year, month, day) = if days < GREGORIAN_DAYS {
        julian(days)
    } else {
        civil(days)
    };
    let (hours, minutes, seconds, _) = clock(ms);
    let name = |names: &[&'static str], index: i64| {
        usize::try_from(index)
            .ok()
            .and_then(|index| names.get(index).copied())
            .unwrap_or("")
    };
    let weekday = name(&WEEK, days.rem_euclid(7));
    let month = name(&MONTHS, month - 1);
    format!("{weekday} {month} {day:02} {hours:02}:{minutes:02}:{seconds:02} UTC {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(value: &Value<'_>) -> (String, String) {
        let (mut java, mut simple) = (String::new(), String::new());
        write_java(value, &mut java);
        write_simple(value, false, &mut simple);
        (java, simple)
    }

    #[test]
    fn java_dates_before_the_gregorian_calendar_are_julian() {
        for (days, text) in [
            (-141_427, "Fri Oct 15 00:00:00 UTC 1582"),
            (-141_428, "Thu Oct 04 00:00:00 UTC 1582"),
            (-354_236, "Wed Feb 14 00:00:00 UTC 1000"),
            (-718_801, "Fri Dec 30 00:00:00 UTC 1"),
            (-2_440_550, "Thu Feb 08 00:00:00 UTC 4713"),
        ] {
            assert_eq!(date_to_string(days * DAY_MS), text);
        }
    }

    #[test]
    fn values_are_printed_as_java_and_connect_do() {
        let text = Value::text("q\"\\");
        let array = Value::Array(vec![text.clone(), Value::Null, Value::Int(1)]);
        let map = Value::Map(vec![
            ("a".to_owned(), None),
            ("b".to_owned(), Some("x".to_owned())),
        ]);
        let date = |ms| Value::Date { ms, days: false };
        for (value, java, simple) in [
            (text, "q\"\\", "q\"\\"),
            (array, "[q\"\\, null, 1]", "[\"q\\\"\\\\\",null,1]"),
            (map, "{a=null, b=x}", "{\"a\":null,\"b\":\"x\"}"),
            (
                Value::Buffer(vec![0, 255]),
                "java.nio.HeapByteBuffer[pos=0 lim=2 cap=2]",
                "AP8=",
            ),
            (Value::Bytes(vec![5]), "BQ==", "BQ=="),
            (
                date(1_577_934_245_678),
                "Thu Jan 02 03:04:05 UTC 2020",
                "2020-01-02T03:04:05.678Z",
            ),
            (
                date(1_577_923_200_000),
                "Thu Jan 02 00:00:00 UTC 2020",
                "2020-01-02",
            ),
            (date(-1), "Wed Dec 31 23:59:59 UTC 1969", "23:59:59.999Z"),
            (
                Value::Point { x: 1.5, y: 2.0 },
                "Struct{x=1.5,y=2.0,wkb=AQEAAAAAAAAAAAD4PwAAAAAAAABA}",
                "{\"x\":1.5,\"y\":2.0,\"wkb\":\"AQEAAAAAAAAAAAD4PwAAAAAAAABA\",\"srid\":null}",
            ),
        ] {
            assert_eq!(both(&value), (java.to_owned(), simple.to_owned()));
        }
    }
}
