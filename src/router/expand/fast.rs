//! One pass from text to compact JSON, for payloads whose objects in one array are all alike.
//!
//! Every array's elements leave the bytes of their shape behind: member names and types. As long as
//! they are equal, no object gets a member from its neighbour, and what has been written stands.

use smallvec::SmallVec;

use super::super::json;
use super::super::options::{JsonEmptyArrays, JsonNulls};
use super::Rules;
use super::scan::{Invalid, MAX_DEPTH, Number, Scanner};
use crate::java;

pub(super) fn compact(text: &str, rules: &Rules<'_>) -> Option<Vec<u8>> {
    if !text.starts_with('{') {
        return None;
    }
    let mut writer = Writer {
        scan: Scanner::new(text),
        out: Vec::with_capacity(text.len()),
        shape: Vec::new(),
        rules,
    };
    writer.value(MAX_DEPTH, false).ok()?;
    Some(writer.out)
}

/// The long way has to decide.
struct Irregular;

impl From<Invalid> for Irregular {
    fn from(_: Invalid) -> Self {
        Self
    }
}

struct Writer<'a> {
    scan: Scanner<'a>,
    out: Vec<u8>,
    shape: Vec<u8>,
    rules: &'a Rules<'a>,
}

type Keys<'a> = SmallVec<[&'a str; 16]>;

/// Objects with more members than this go the long way, where looking for doubles is cheap.
const MAX_COMPARED_KEYS: usize = 64;

impl<'a> Writer<'a> {
    /// One value that is not null. `recorded`: inside an array, where its shape counts.
    fn value(&mut self, depth: usize, recorded: bool) -> Result<(), Irregular> {
        match self.scan.peek()? {
            b'{' => self.object(depth, recorded),
            b'[' => self.array(depth, recorded).and_then(|length| {
                // An empty array has no element type.
                if length > 0 { Ok(()) } else { Err(Irregular) }
            }),
            b'"' => {
                self.scan.next()?;
                self.out.push(b'"');
                self.scan.string_into(&mut self.out)?;
                self.out.push(b'"');
                self.record(recorded, b's');
                Ok(())
            }
            b't' => self.word("true", recorded),
            b'f' => self.word("false", recorded),
            _ => self.number(recorded),
        }
    }

    fn record(&mut self, recorded: bool, tag: u8) {
        if recorded {
            self.shape.push(tag);
        }
    }

    fn word(&mut self, word: &str, recorded: bool) -> Result<(), Irregular> {
        self.scan.word(word)?;
        self.out.extend_from_slice(word.as_bytes());
        self.record(recorded, b'b');
        Ok(())
    }

    fn number(&mut self, recorded: bool) -> Result<(), Irregular> {
        let (text, number) = self.scan.number()?;
        let tag = match number {
            Number::Int32(0) => {
                self.out.push(b'0');
                b'i'
            }
            Number::Int32(_) => {
                self.out.extend_from_slice(text.as_bytes());
                b'i'
            }
            Number::Int64(_) => {
                self.out.extend_from_slice(text.as_bytes());
                b'l'
            }
            Number::Double(double) => {
                json::write_floating(&java::double(double), &mut self.out);
                b'd'
            }
            Number::Big => return Err(Irregular),
        };
        self.record(recorded, tag);
        Ok(())
    }

    fn object(&mut self, depth: usize, recorded: bool) -> Result<(), Irregular> {
        let depth = depth.checked_sub(1).ok_or(Irregular)?;
        self.scan.expect(b'{')?;
        self.out.push(b'{');
        self.record(recorded, b'{');
        let mut keys: Keys<'a> = SmallVec::new();
        let mut first = true;
        if self.scan.peek()? == b'}' {
            self.scan.next()?;
        } else {
            loop {
                first = !self.member(depth, recorded, first, &mut keys)? && first;
                match self.scan.next()? {
                    b',' => {}
                    b'}' => break,
                    _ => return Err(Irregular),
                }
            }
        }
        self.out.push(b'}');
        self.record(recorded, b'}');
        Ok(())
    }

    /// Whether the member was kept.
    fn member(
        &mut self,
        depth: usize,
        recorded: bool,
        first: bool,
        keys: &mut Keys<'a>,
    ) -> Result<bool, Irregular> {
        let (out_length, shape_length) = (self.out.len(), self.shape.len());
        let key = self.key()?;
        if !self.rules.unique_keys {
            if keys.contains(&key) || keys.len() == MAX_COMPARED_KEYS {
                return Err(Irregular);
            }
            keys.push(key);
        }
        if !first {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        if recorded {
            self.shape.extend_from_slice(key.as_bytes());
            // Cannot be in a key: control characters are escaped.
            self.shape.push(0);
        }
        self.scan.expect(b':')?;
        let kept = match self.scan.peek()? {
            b'n' => {
                self.scan.word("null")?;
                self.out.extend_from_slice(b"null");
                self.record(recorded, b'n');
                self.rules.nulls == JsonNulls::Keep
            }
            b'[' => {
                let length = self.array(depth, recorded)?;
                length > 0 || self.rules.empty_arrays == JsonEmptyArrays::Keep
            }
            _ => {
                self.value(depth, recorded)?;
                true
            }
        };
        if !kept {
            self.out.truncate(out_length);
            self.shape.truncate(shape_length);
        }
        Ok(kept)
    }

    /// The number of its elements.
    fn array(&mut self, depth: usize, recorded: bool) -> Result<usize, Irregular> {
        let depth = depth.checked_sub(1).ok_or(Irregular)?;
        self.scan.expect(b'[')?;
        self.out.push(b'[');
        self.record(recorded, b'[');
        if self.scan.peek()? == b']' {
            self.scan.next()?;
            self.out.push(b']');
            self.record(recorded, b']');
            return Ok(0);
        }
        let base = self.shape.len();
        let mut first: Option<usize> = None;
        let mut length = 0;
        loop {
            if length > 0 {
                self.out.push(b',');
            }
            length += 1;
            if self.scan.peek()? == b'n' {
                self.scan.word("null")?;
                self.out.extend_from_slice(b"null");
            } else {
                let start = self.shape.len();
                self.value(depth, true)?;
                match first {
                    None => first = Some(self.shape.len()),
                    Some(end) if self.shape[base..end] == self.shape[start..] => {
                        self.shape.truncate(start);
                    }
                    Some(_) => return Err(Irregular),
                }
            }
            match self.scan.next()? {
                b',' => {}
                b']' => break,
                _ => return Err(Irregular),
            }
        }
        // Nulls alone have no type.
        first.ok_or(Irregular)?;
        if recorded {
            self.shape.push(b']');
        } else {
            self.shape.truncate(base);
        }
        self.out.push(b']');
        Ok(length)
    }

    /// A member's name. Names with escapes or outside the basic plane, and the empty one, go the
    /// long way.
    fn key(&mut self) -> Result<&'a str, Irregular> {
        self.scan.expect(b'"')?;
        match self.scan.plain_string() {
            None | Some("") => Err(Irregular),
            Some(key) => Ok(key),
        }
    }
}
