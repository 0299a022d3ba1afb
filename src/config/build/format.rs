//! How the file names the router's converters: `json_with_schemas numeric_decimals`, `binary else
//! json`.

use crate::router::{Converter, DecimalFormat, JsonOptions, NumberKind};

/// Formats without further words, and what Kafka Connect calls them where it knows them.
const PLAIN: &[(&str, Converter)] = &[
    ("raw", Converter::Raw),
    ("string", Converter::String),
    ("simple", Converter::Simple),
    ("bytes", Converter::ByteArray),
    ("short", Converter::Number(NumberKind::Short)),
    ("integer", Converter::Number(NumberKind::Integer)),
    ("long", Converter::Number(NumberKind::Long)),
    ("float", Converter::Number(NumberKind::Float)),
    ("double", Converter::Number(NumberKind::Double)),
    ("boolean", Converter::Number(NumberKind::Boolean)),
];

/// The converter that `text` names, or what it should have been.
pub(super) fn parse(text: &str) -> Result<Converter, String> {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let found = match words.as_slice() {
        ["binary"] => Some(Converter::BinaryData { delegate: None }),
        ["binary", "else", delegate @ ..] => of_values(delegate).map(|delegate| {
            let delegate = Some(Box::new(delegate));
            Converter::BinaryData { delegate }
        }),
        words => of_values(words),
    };
    found.ok_or_else(|| format!("\"{text}\" is not one of {}", names()))
}

fn of_values(words: &[&str]) -> Option<Converter> {
    let json = |schemas, decimals| Some(Converter::Json(JsonOptions { schemas, decimals }));
    match words {
        ["json"] => json(false, DecimalFormat::Base64),
        ["json", "numeric_decimals"] => json(false, DecimalFormat::Numeric),
        ["json_with_schemas"] => json(true, DecimalFormat::Base64),
        ["json_with_schemas", "numeric_decimals"] => json(true, DecimalFormat::Numeric),
        [name] => PLAIN
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, converter)| converter.clone()),
        _ => None,
    }
}

fn names() -> String {
    let plain: Vec<_> = PLAIN.iter().map(|(name, _)| *name).collect();
    format!(
        "{}, binary, binary else FORMAT, json, json_with_schemas (both with numeric_decimals)",
        plain.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_named_by_a_few_words() {
        let json = |schemas, decimals| Converter::Json(JsonOptions { schemas, decimals });
        for (text, converter) in [
            ("raw", Converter::Raw),
            ("Long", Converter::Number(NumberKind::Long)),
            ("json", json(false, DecimalFormat::Base64)),
            (
                "json_with_schemas  numeric_decimals",
                json(true, DecimalFormat::Numeric),
            ),
            ("binary", Converter::BinaryData { delegate: None }),
            (
                "binary else json numeric_decimals",
                Converter::BinaryData {
                    delegate: Some(Box::new(json(false, DecimalFormat::Numeric))),
                },
            ),
        ] {
            assert_eq!(parse(text), Ok(converter), "{text}");
        }
        for text in [
            "",
            "avro",
            "string numeric_decimals",
            "binary else",
            "binary json",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
