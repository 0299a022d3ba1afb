//! JSON text as Kafka Connect's `JsonConverter` writes it, and `table.expand.json.payload`.

use serde_json::Value;

/// What became of a payload that should be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expanded {
    Json(Vec<u8>),
    /// The payload is not an object or array that Connect could hold: it stays one JSON string.
    Text,
}

/// Debezium expands text that starts with a brace or bracket, drops null members and empty arrays,
/// and gives up (keeps the text) on arrays of mixed types.
pub(super) fn expand(text: &str) -> Expanded {
    if !text.starts_with(['{', '[']) {
        return Expanded::Text;
    }
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return Expanded::Text;
    };
    let mut out = Vec::with_capacity(text.len());
    match write_value(&value, &mut out) {
        Ok(()) => Expanded::Json(out),
        Err(MixedArray) => Expanded::Text,
    }
}

struct MixedArray;

fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), MixedArray> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => {
            check_elements(elements)?;
            write_list(b"[]", elements.iter(), out, write_value)?;
        }
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !is_dropped(value));
            write_list(b"{}", kept, out, |(name, value), out| {
                write_string(name, out);
                out.push(b':');
                write_value(value, out)
            })?;
        }
    }
    Ok(())
}

fn write_list<T>(
    brackets: &[u8; 2],
    items: impl Iterator<Item = T>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(T, &mut Vec<u8>) -> Result<(), MixedArray>,
) -> Result<(), MixedArray> {
    out.push(brackets[0]);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out)?;
    }
    out.push(brackets[1]);
    Ok(())
}

fn is_dropped(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Connect's arrays have one element type.
fn check_elements(elements: &[Value]) -> Result<(), MixedArray> {
    let mut kinds = elements
        .iter()
        .filter(|element| !element.is_null())
        .map(kind);
    match kinds.next() {
        None => Err(MixedArray),
        Some(first) if kinds.all(|kind| kind == first) => Ok(()),
        Some(_) => Err(MixedArray),
    }
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(number) => match number.as_i64() {
            Some(int) if i32::try_from(int).is_ok() => 2,
            Some(_) => 3,
            None => 4,
        },
        Value::String(_) => 5,
        Value::Array(_) => 6,
        Value::Object(_) => 7,
    }
}

fn write_number(number: &serde_json::Number, out: &mut Vec<u8>) {
    match number.as_f64() {
        Some(double) if number.is_f64() => out.extend_from_slice(java_double(double).as_bytes()),
        _ => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// `Double.toString` of JDK 19 and later: the shortest digits, plain from 10^-3 to below 10^7,
/// else with an exponent.
pub(super) fn java_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = value.abs();
    if value == 0.0 || (1e-3..1e7).contains(&magnitude) {
        let plain = value.to_string();
        return if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        };
    }
    let exponential = format!("{value:e}");
    match exponential.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => format!("{digits}E{exponent}"),
        Some((digits, exponent)) => format!("{digits}.0E{exponent}"),
        None => exponential,
    }
}

/// A JSON string with Jackson's escapes: short forms where they exist, `\u00XX` for the other
/// control characters, surrogate pairs for what lies outside the basic plane, all else as it is.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            control if control < ' ' => {
                out.extend_from_slice(format!("\\u{:04X}", u32::from(control)).as_bytes());
            }
            plane if plane > '\u{FFFF}' => {
                let mut units = [0; 2];
                for unit in plane.encode_utf16(&mut units) {
                    out.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
                }
            }
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Option<String> {
        match expand(text) {
            Expanded::Json(bytes) => Some(String::from_utf8(bytes).unwrap()),
            Expanded::Text => None,
        }
    }

    #[test]
    fn objects_lose_white_space_nulls_and_empty_arrays() {
        assert_eq!(
            expanded(r#"{"b": 1, "a": null, "c": [], "d": {"e": [1, 2]}}"#).as_deref(),
            Some(r#"{"b":1,"d":{"e":[1,2]}}"#)
        );
    }

    #[test]
    fn what_connect_cannot_hold_stays_text() {
        for text in [
            "",
            " {}",
            "null",
            "1",
            "{",
            r#"{"a": [1, 2.5]}"#,
            r#"{"a": [1, "x"]}"#,
        ] {
            assert_eq!(expanded(text), None, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_spelt_as_java_does() {
        let cases = [
            (1.1, "1.1"),
            (12_345_678.0, "1.2345678E7"),
            (0.0001, "1.0E-4"),
            (0.001, "0.001"),
            (100.0, "100.0"),
            (1e22, "1.0E22"),
            (-0.0, "-0.0"),
            (123_456_789.123_456_79, "1.2345678912345679E8"),
        ];
        for (value, expected) in cases {
            assert_eq!(java_double(value), expected);
        }
    }

    #[test]
    fn strings_are_escaped_as_jackson_does() {
        let mut out = Vec::new();
        write_string("\"\\/\n\u{1}\u{7f}é\u{1F600}", &mut out);
        let expected = "\"\\\"\\\\/\\n\\u0001\u{7f}é\\uD83D\\uDE00\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
