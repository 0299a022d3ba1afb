//! Spellings of the Java that Debezium runs on: numbers, JSON text, the order of a hash map.

mod patterns;
pub(crate) mod regex;
mod serialized;

pub use patterns::{Pattern, PatternError, PatternList};
pub use serialized::{ByteMap, SerializedError, read_byte_map};

use std::fmt::{Display, LowerExp};

/// `Double.toString` of JDK 19 and later.
pub fn double(value: f64) -> String {
    floating(value, value.is_nan(), value.is_infinite(), |text| {
        text.parse() == Ok(value)
    })
}

/// `Float.toString` of JDK 19 and later.
pub fn float(value: f32) -> String {
    floating(value, value.is_nan(), value.is_infinite(), |text| {
        text.parse() == Ok(value)
    })
}

/// The shortest digits that read back as the value, but at least two of them (the nearest two, as
/// in 4.9E-324); plain from 10^-3 to below 10^7, else with an exponent.
fn floating<T: Display + LowerExp + PartialOrd + Into<f64> + Copy>(
    value: T,
    is_nan: bool,
    is_infinite: bool,
    reads_back: impl Fn(&str) -> bool,
) -> String {
    let wide: f64 = value.into();
    if is_nan {
        return "NaN".to_owned();
    }
    if is_infinite {
        return if wide > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if wide == 0.0 || (1e-3..1e7).contains(&wide.abs()) {
        let plain = value.to_string();
        return if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        };
    }
    let shortest = format!("{value:e}");
    match shortest.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => format!("{digits}E{exponent}"),
        _ => {
            let two = format!("{value:.1e}");
            let text = if reads_back(&two) {
                two
            } else {
                shortest.replace('e', ".0e")
            };
            text.replace('e', "E")
        }
    }
}

/// A JSON string as Jackson writes it to text: short escapes where they exist, `\u00XX` for the
/// other control characters, all else as it is.
pub fn write_json_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|byte| *byte < b' ' || matches!(byte, b'"' | b'\\'))
    {
        out.extend_from_slice(&rest[..at]);
        write_escape(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// A JSON string as Jackson writes it to UTF-8: the same, and characters outside the basic plane
/// as a pair of surrogates.
pub fn write_json_bytes(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(step) = bytes[from..].iter().position(|byte| needs_escape(*byte)) {
        let at = from + step;
        out.extend_from_slice(&bytes[from..at]);
        from = at + 1;
        match bytes[at] {
            SUPPLEMENTARY.. => {
                let character = text[at..].chars().next().unwrap_or_default();
                write_surrogates(character, out);
                from = at + character.len_utf8();
            }
            byte => write_escape(byte, out),
        }
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}

/// The first byte of a character outside the basic plane, in UTF-8.
pub(crate) const SUPPLEMENTARY: u8 = 0xF0;

pub(crate) const fn needs_escape(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\' || byte >= SUPPLEMENTARY
}

pub(crate) fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        _ => return write_unit(u16::from(byte), out),
    };
    out.extend_from_slice(&[b'\\', short]);
}

pub(crate) fn write_surrogates(character: char, out: &mut Vec<u8>) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        write_unit(*unit, out);
    }
}

/// `\uD83D`
pub(crate) fn write_unit(unit: u16, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |shift: u16| DIGITS[usize::from(unit >> shift & 0xF)];
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

/// Sorts entries as a `HashMap<String, …>` that they were put into one after the other.
pub fn hash_map_order<T>(entries: &mut [(String, T)]) {
    let mut capacity: u32 = 16;
    while entries.len() > capacity as usize / 4 * 3 {
        capacity *= 2;
    }
    entries.sort_by_key(|(key, _)| {
        let hash = key.encode_utf16().fold(0_u32, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(u32::from(unit))
        });
        (hash ^ hash >> 16) & (capacity - 1)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_spelt_as_java_does() {
        for (value, expected) in [
            (1.1, "1.1"),
            (12_345_678.0, "1.2345678E7"),
            (9_999_999.0, "9999999.0"),
            (0.0001, "1.0E-4"),
            (0.001, "0.001"),
            (100.0, "100.0"),
            (1e22, "1.0E22"),
            (8.41e21, "8.41E21"),
            (1e23, "1.0E23"),
            (2e-3, "0.002"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (123_456_789.123_456_79, "1.2345678912345679E8"),
            (5e-324, "4.9E-324"),
            (1e-323, "9.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(double(value), expected);
        }
        for (value, expected) in [
            (0.1, "0.1"),
            (16_777_216.0, "1.6777216E7"),
            (1e20, "1.0E20"),
            (1e-45, "1.4E-45"),
        ] {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn strings_are_escaped_as_jackson_does() {
        let text = "\"\\/\n\u{1}\u{1f}\u{7f}é\u{2028}\u{1F600}x";
        let mut bytes = Vec::new();
        write_json_bytes(text, &mut bytes);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "\"\\\"\\\\/\\n\\u0001\\u001F\u{7f}é\u{2028}\\uD83D\\uDE00x\""
        );
        let mut bytes = Vec::new();
        write_json_text(text, &mut bytes);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "\"\\\"\\\\/\\n\\u0001\\u001F\u{7f}é\u{2028}\u{1F600}x\""
        );
    }

    #[test]
    fn maps_are_in_the_order_of_their_buckets() {
        let mut entries: Vec<(String, ())> = ["q", "b", "a", "Aa", "BB", "zz"]
            .map(|key| (key.to_owned(), ()))
            .to_vec();
        hash_map_order(&mut entries);
        let keys: Vec<&str> = entries.iter().map(|(key, ())| key.as_str()).collect();
        assert_eq!(keys, ["Aa", "BB", "zz", "q", "a", "b"]);
    }
}
