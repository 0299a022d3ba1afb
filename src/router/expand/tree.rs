//! JSON as a tree, as Jackson reads it: the first value of the text, doubled members once.

use std::borrow::Cow;
use std::collections::HashMap;

use super::scan::{Invalid, MAX_DEPTH, Number, Scanner};

#[derive(Clone, Debug, PartialEq)]
pub(in crate::router) enum Node<'a> {
    Null,
    Bool(bool),
    Int32(i32),
    Int64(i64),
    /// An integer beyond 64 bits.
    Big,
    Double(f64),
    /// Canonical JSON text, without the quotes.
    String(Cow<'a, [u8]>),
    Array(Vec<Self>),
    /// Names in canonical JSON text. A name that comes again keeps its place and gets the value.
    Object(Vec<(Cow<'a, [u8]>, Self)>),
}

/// The first value, and where it ends. What follows is not looked at.
pub(super) fn parse(text: &str) -> Result<(Node<'_>, usize), Invalid> {
    let mut scan = Scanner::new(text);
    let node = value(&mut scan, MAX_DEPTH)?;
    Ok((node, scan.position()))
}

fn value<'a>(scan: &mut Scanner<'a>, depth: usize) -> Result<Node<'a>, Invalid> {
    match scan.peek()? {
        b'{' => object(scan, depth.checked_sub(1).ok_or(Invalid)?),
        b'[' => array(scan, depth.checked_sub(1).ok_or(Invalid)?),
        b'"' => string(scan).map(Node::String),
        b'n' => scan.word("null").map(|()| Node::Null),
        b't' => scan.word("true").map(|()| Node::Bool(true)),
        b'f' => scan.word("false").map(|()| Node::Bool(false)),
        _ => Ok(match scan.number()?.1 {
            Number::Int32(int) => Node::Int32(int),
            Number::Int64(long) => Node::Int64(long),
            Number::Big => Node::Big,
            Number::Double(double) => Node::Double(double),
        }),
    }
}

fn string<'a>(scan: &mut Scanner<'a>) -> Result<Cow<'a, [u8]>, Invalid> {
    scan.expect(b'"')?;
    if let Some(plain) = scan.plain_string() {
        return Ok(Cow::Borrowed(plain.as_bytes()));
    }
    let mut canonical = Vec::new();
    scan.string_into(&mut canonical)?;
    Ok(Cow::Owned(canonical))
}

fn array<'a>(scan: &mut Scanner<'a>, depth: usize) -> Result<Node<'a>, Invalid> {
    scan.expect(b'[')?;
    let mut elements = Vec::new();
    if scan.peek()? == b']' {
        scan.next()?;
        return Ok(Node::Array(elements));
    }
    loop {
        elements.push(value(scan, depth)?);
        match scan.next()? {
            b',' => {}
            b']' => return Ok(Node::Array(elements)),
            _ => return Err(Invalid),
        }
    }
}

fn object<'a>(scan: &mut Scanner<'a>, depth: usize) -> Result<Node<'a>, Invalid> {
    scan.expect(b'{')?;
    let mut members: Vec<(Cow<'a, [u8]>, Node<'a>)> = Vec::new();
    let mut places: HashMap<Cow<'a, [u8]>, usize> = HashMap::new();
    if scan.peek()? == b'}' {
        scan.next()?;
        return Ok(Node::Object(members));
    }
    loop {
        let name = string(scan)?;
        scan.expect(b':')?;
        let value = value(scan, depth)?;
        match places.get(&name) {
            Some(place) => members[*place].1 = value,
            None => {
                places.insert(name.clone(), members.len());
                members.push((name, value));
            }
        }
        match scan.next()? {
            b',' => {}
            b'}' => return Ok(Node::Object(members)),
            _ => return Err(Invalid),
        }
    }
}
