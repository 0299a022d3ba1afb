//! `table.expand.json.payload`: JSON text as the value that Connect's types can hold.
//!
//! What Debezium 3.6.1 does was read in `JsonSchemaData` and seen: members that are null or an empty
//! array go, an array has one element type, objects in one array get each other's members as nulls.
//! Most payloads need no more than one pass over their text ([`fast`]); the rest goes through a
//! tree and the types inferred from it.

mod fast;
mod scan;
mod shape;
mod tree;

use std::borrow::Cow;

pub(super) use shape::Expansion;

use super::options::{JsonEmptyArrays, JsonNulls};
use shape::{GiveUp, Inference};
use tree::Node;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules<'a> {
    pub(super) nulls: JsonNulls,
    pub(super) empty_arrays: JsonEmptyArrays,
    /// The payload column's name: the root of the schemas' names.
    pub(super) root: &'a str,
    /// The server has already made keys unique.
    pub(super) unique_keys: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Expanded<'a> {
    /// A value of one type.
    Typed(Expansion<'a>),
    /// Debezium keeps the text and forgets its schema: an empty array at the top.
    Schemaless,
    /// Debezium gives up and publishes the text as one string.
    Text,
    /// Debezium's task dies: the JSON as it was written, without white space.
    Untyped(Vec<u8>),
}

/// One pass over the text, straight to compact JSON. `None` where it takes more than that.
pub(super) fn compact(text: &str, rules: &Rules<'_>) -> Option<Vec<u8>> {
    fast::compact(text, rules)
}

/// The long way, with the types.
pub(super) fn expand<'a>(text: &'a str, rules: &Rules<'_>) -> Expanded<'a> {
    if !text.starts_with(['{', '[']) {
        return Expanded::Text;
    }
    let Ok((node, length)) = tree::parse(text) else {
        return Expanded::Text;
    };
    let mut inference = Inference::new(rules);
    match inference.infer(Some(rules.root), &node) {
        Err(GiveUp) => Expanded::Text,
        Ok(None) => Expanded::Schemaless,
        Ok(Some(shape)) => {
            let sound = matches!(node, Node::Object(_)) && inference.is_sound();
            if sound && shape.fits(&node) {
                Expanded::Typed(Expansion {
                    node,
                    shape,
                    keeps_more: inference.keeps_more(),
                })
            } else {
                Expanded::Untyped(scan::without_blanks(&text.as_bytes()[..length]))
            }
        }
    }
}

/// Canonical JSON text of a string, without its quotes, as plain text. A lone surrogate becomes a
/// question mark, as in Java's UTF-8 encoder.
fn plain_text(canonical: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(canonical) {
        Ok(text) if !text.contains('\\') => Cow::Borrowed(text),
        _ => Cow::Owned(scan::decode(canonical)),
    }
}

#[cfg(test)]
mod tests;
