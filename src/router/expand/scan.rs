//! JSON's tokens, as strictly as Jackson takes them.

use crate::java::{self, SUPPLEMENTARY};

/// Not JSON, or beyond what Jackson reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// Jackson's limits (`StreamReadConstraints`).
pub(super) const MAX_DEPTH: usize = 1000;
const MAX_NUMBER_BYTES: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int32(i32),
    Int64(i64),
    /// Beyond 64 bits.
    Big,
    Double(f64),
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) const fn position(&self) -> usize {
        self.at
    }

    const fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The next byte that is not white space, which stays.
    pub(super) fn peek(&mut self) -> Result<u8, Invalid> {
        while let Some(byte) = self.bytes().get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Ok(*byte),
            }
        }
        Err(Invalid)
    }

    pub(super) fn next(&mut self) -> Result<u8, Invalid> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn expect(&mut self, wanted: u8) -> Result<(), Invalid> {
        if self.next()? == wanted {
            Ok(())
        } else {
            Err(Invalid)
        }
    }

    /// `null`, `true`, `false`, with nothing of a word behind them.
    pub(super) fn word(&mut self, word: &str) -> Result<(), Invalid> {
        self.peek()?;
        let rest = &self.bytes()[self.at..];
        let ends = rest.get(word.len()).is_none_or(|next| !is_word(*next));
        if rest.starts_with(word.as_bytes()) && ends {
            self.at += word.len();
            return Ok(());
        }
        Err(Invalid)
    }

    pub(super) fn number(&mut self) -> Result<(&'a str, Number), Invalid> {
        self.peek()?;
        let start = self.at;
        self.skip(b"-");
        let digits = self.digits()?;
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(Invalid);
        }
        let mut is_double = false;
        if self.skip(b".") {
            self.digits()?;
            is_double = true;
        }
        if self.skip(b"eE") {
            self.skip(b"+-");
            self.digits()?;
            is_double = true;
        }
        if self.bytes().get(self.at).is_some_and(|next| is_word(*next)) {
            return Err(Invalid);
        }
        let text = &self.text[start..self.at];
        if text.len() > MAX_NUMBER_BYTES {
            return Err(Invalid);
        }
        Ok((text, Number::read(text, is_double)?))
    }

    fn skip(&mut self, any: &[u8]) -> bool {
        let found = self
            .bytes()
            .get(self.at)
            .is_some_and(|next| any.contains(next));
        self.at += usize::from(found);
        found
    }

    fn digits(&mut self) -> Result<&'a str, Invalid> {
        let start = self.at;
        while self.bytes().get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(Invalid);
        }
        Ok(&self.text[start..self.at])
    }

    /// The text up to the closing quote where nothing in it has to be written differently.
    pub(super) fn plain_string(&mut self) -> Option<&'a str> {
        let rest = &self.bytes()[self.at..];
        let length = rest.iter().position(|byte| java::needs_escape(*byte))?;
        if rest[length] != b'"' {
            return None;
        }
        let text = &self.text[self.at..self.at + length];
        self.at += length + 1;
        Some(text)
    }

    /// The rest of a string behind its opening quote, as Jackson writes it: the same text whichever
    /// way its characters were escaped.
    pub(super) fn string_into(&mut self, out: &mut Vec<u8>) -> Result<(), Invalid> {
        loop {
            let rest = &self.bytes()[self.at..];
            let run = rest.iter().position(|byte| java::needs_escape(*byte));
            let run = run.ok_or(Invalid)?;
            out.extend_from_slice(&rest[..run]);
            self.at += run + 1;
            match rest[run] {
                b'"' => return Ok(()),
                b'\\' => self.escape_into(out)?,
                SUPPLEMENTARY.. => {
                    let start = self.at - 1;
                    let character = self.text[start..].chars().next().ok_or(Invalid)?;
                    java::write_surrogates(character, out);
                    self.at = start + character.len_utf8();
                }
                _ => return Err(Invalid),
            }
        }
    }

    fn escape_into(&mut self, out: &mut Vec<u8>) -> Result<(), Invalid> {
        let kind = *self.bytes().get(self.at).ok_or(Invalid)?;
        self.at += 1;
        match kind {
            b'/' => out.push(b'/'),
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => {
                out.extend_from_slice(&[b'\\', kind])
            }
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4).ok_or(Invalid)?;
                let unit = hex(digits).ok_or(Invalid)?;
                self.at += 4;
                write_unit(unit, out);
            }
            _ => return Err(Invalid),
        }
        Ok(())
    }
}

impl Number {
    fn read(text: &str, is_double: bool) -> Result<Self, Invalid> {
        if is_double {
            return text.parse().map(Self::Double).map_err(|_| Invalid);
        }
        Ok(match text.parse::<i64>() {
            Ok(long) => i32::try_from(long).map_or(Self::Int64(long), Self::Int32),
            Err(_) => Self::Big,
        })
    }
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'+' | b'-') || byte >= 0x80
}

fn hex(digits: &str) -> Option<u16> {
    digits
        .bytes()
        .all(|digit| digit.is_ascii_hexdigit())
        .then(|| u16::from_str_radix(digits, 16).ok())?
}

fn write_unit(unit: u16, out: &mut Vec<u8>) {
    match (u8::try_from(unit), char::from_u32(u32::from(unit))) {
        (Ok(byte), _) if byte < 0x80 => {
            if java::needs_escape(byte) {
                java::write_escape(byte, out);
            } else {
                out.push(byte);
            }
        }
        (_, Some(character)) => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        (_, None) => java::write_unit(unit, out),
    }
}

/// Canonical text with its escapes undone.
pub(super) fn decode(canonical: &[u8]) -> String {
    let text = String::from_utf8_lossy(canonical);
    let mut out = String::with_capacity(text.len());
    let mut units: Vec<u16> = Vec::new();
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        let (run, escaped) = rest.split_at(at);
        if !run.is_empty() {
            flush(&mut units, &mut out);
            out.push_str(run);
        }
        let unit = escaped
            .strip_prefix("\\u")
            .and_then(|digits| hex(digits.get(..4)?));
        if let Some(unit) = unit {
            units.push(unit);
            rest = &escaped[6..];
            continue;
        }
        flush(&mut units, &mut out);
        let mut characters = escaped.chars();
        characters.next();
        out.extend(characters.next().map(unescaped));
        rest = characters.as_str();
    }
    flush(&mut units, &mut out);
    out.push_str(rest);
    out
}

const fn unescaped(kind: char) -> char {
    match kind {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

fn flush(units: &mut Vec<u16>, out: &mut String) {
    out.extend(char::decode_utf16(units.drain(..)).map(|unit| unit.unwrap_or('?')));
}

/// JSON without the white space between its tokens; the tokens as they are.
pub(super) fn without_blanks(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some((first, tail)) = rest.split_first() {
        match first {
            b' ' | b'\t' | b'\n' | b'\r' => rest = tail,
            b'"' => {
                let length = 2 + string_length(tail);
                let (string, tail) = rest.split_at(length.min(rest.len()));
                out.extend_from_slice(string);
                rest = tail;
            }
            byte => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    out
}

/// Up to the closing quote.
fn string_length(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}
