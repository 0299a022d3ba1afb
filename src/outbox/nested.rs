//! Values within values: the text of arrays and of hstore.

use std::borrow::Cow;

/// One element of an array's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Element<'a> {
    Null,
    Text(Cow<'a, str>),
    Array(Vec<Self>),
}

/// Arrays within arrays, at most this deep (PostgreSQL's own limit is 6).
const MAX_DEPTH: usize = 16;

/// `{a,"b c",NULL,{…}}`. Lower bounds in front, as `[2:3]={a,b}`, are passed over.
pub(super) fn array(text: &str) -> Option<Vec<Element<'_>>> {
    let text = match text.strip_prefix('[') {
        Some(bounds) => bounds.split_once('=')?.1,
        None => text,
    };
    let (elements, rest) = elements(text, MAX_DEPTH)?;
    rest.is_empty().then_some(elements)
}

fn elements(text: &str, depth: usize) -> Option<(Vec<Element<'_>>, &str)> {
    let depth = depth.checked_sub(1)?;
    let mut rest = text.strip_prefix('{')?;
    let mut elements = Vec::new();
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((elements, rest));
    }
    loop {
        let (element, tail) = if rest.starts_with('{') {
            let (inner, tail) = self::elements(rest, depth)?;
            (Element::Array(inner), tail)
        } else if rest.starts_with('"') {
            let (text, tail) = quoted(rest)?;
            (Element::Text(text), tail)
        } else {
            let end = rest.find([',', '}'])?;
            let (word, tail) = rest.split_at(end);
            let element = match word {
                "NULL" => Element::Null,
                word => Element::Text(unescape(word)),
            };
            (element, tail)
        };
        elements.push(element);
        if let Some(tail) = tail.strip_prefix('}') {
            return Some((elements, tail));
        }
        rest = tail.strip_prefix(',')?;
    }
}

/// A quoted text at the start, and what follows it.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inner = text.strip_prefix('"')?;
    let bytes = inner.as_bytes();
    let mut at = 0;
    loop {
        at += memchr_quote(&bytes[at..])?;
        if bytes[at] == b'"' {
            return Some((unescape(&inner[..at]), &inner[at + 1..]));
        }
        // A backslash and the character behind it.
        at += 2;
        if at > bytes.len() {
            return None;
        }
    }
}

fn memchr_quote(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'))
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

/// `"a"=>"1", "b"=>NULL`
pub(super) fn hstore(text: &str) -> Option<Vec<(String, Option<String>)>> {
    let mut entries = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, tail) = quoted(rest)?;
        let tail = tail.strip_prefix("=>")?;
        let (value, tail) = match tail.strip_prefix("NULL") {
            Some(tail) => (None, tail),
            None => {
                let (value, tail) = quoted(tail)?;
                (Some(value.into_owned()), tail)
            }
        };
        entries.push((key.into_owned(), value));
        rest = match tail {
            "" => tail,
            tail => tail.strip_prefix(", ")?,
        };
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Element<'_> {
        Element::Text(Cow::Borrowed(text))
    }

    #[test]
    fn arrays_have_quotes_escapes_nulls_and_inner_arrays() {
        assert_eq!(array("{}"), Some(vec![]));
        assert_eq!(
            array(r#"{a,NULL,"b c","null","","q\"\\x"}"#),
            Some(vec![
                text("a"),
                Element::Null,
                text("b c"),
                text("null"),
                text(""),
                text("q\"\\x")
            ])
        );
        assert_eq!(
            array("[0:1]={{1,2},{3,4}}"),
            Some(vec![
                Element::Array(vec![text("1"), text("2")]),
                Element::Array(vec![text("3"), text("4")])
            ])
        );
        for broken in ["", "{", "{a", "{\"a}", "{a}b", "{\"a\\", &"{".repeat(100)] {
            assert_eq!(array(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn hstore_has_entries_in_the_order_of_the_text() {
        assert_eq!(
            hstore(r#""a"=>"1", "b\"c"=>NULL"#),
            Some(vec![
                ("a".to_owned(), Some("1".to_owned())),
                ("b\"c".to_owned(), None)
            ])
        );
        assert_eq!(hstore(""), Some(vec![]));
        for broken in ["a", "\"a\"=>", "\"a\"=>\"b\" ", "\"a\"=>\"b\",\"c\"=>\"d\""] {
            assert_eq!(hstore(broken), None, "{broken:?}");
        }
    }
}
