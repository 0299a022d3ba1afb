//! SQL of the operator's that is to stand inside of a statement of ours, and nowhere else.
//!
//! The server cannot tell: with ours around it, `true) OR (true` parses. So the text is read as the
//! server's scanner reads it (`src/backend/parser/scan.l`), with `standard_conforming_strings` on: which
//! of its characters are in quotes and comments, and whether its parentheses are its own.

use std::fmt;
use std::iter::Peekable;
use std::str::CharIndices;

/// Closed in itself: what stands behind it in a statement is not read as a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment(String);

/// Why a text is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentFault {
    pub kind: FragmentFaultKind,
    /// The character of it, from 1.
    pub at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentFaultKind {
    /// Nothing but blanks and comments.
    Empty,
    /// It closes what it has not opened.
    Unopened(char),
    Unclosed(char),
    /// A string, a quoted name or a comment without an end.
    Unterminated(&'static str),
    /// A semicolon: a statement ends there.
    Ended,
    /// `$1`: a prepared statement's, and nothing fills it in.
    Parameter,
    /// A clause of the SELECT begins, behind what was asked for.
    Clause,
}

/// Clauses that can follow ORDER BY; all of them are reserved words.
const BEHIND_ORDER: [&str; 4] = ["limit", "offset", "fetch", "for"];

impl Fragment {
    /// What may stand in parentheses.
    pub fn expression(text: &str) -> Result<Self, FragmentFault> {
        Self::closed(text, &[])
    }

    /// What may stand behind ORDER BY.
    pub fn order(text: &str) -> Result<Self, FragmentFault> {
        Self::closed(text, &BEHIND_ORDER)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn closed(text: &str, clauses: &[&str]) -> Result<Self, FragmentFault> {
        Scan::new(text).run(clauses)?;
        Ok(Self(text.to_owned()))
    }
}

type Fault = (FragmentFaultKind, usize);

struct Scan<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    /// Opened and not closed, with the place.
    open: Vec<(char, usize)>,
    is_empty: bool,
    /// The last token was something that has parts.
    after_name: bool,
    /// The last token was the dot behind such: a word behind it is a name.
    after_dot: bool,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            rest: text.char_indices().peekable(),
            open: Vec::new(),
            is_empty: true,
            after_name: false,
            after_dot: false,
        }
    }

    fn run(mut self, clauses: &[&str]) -> Result<(), FragmentFault> {
        let text = self.text;
        self.tokens(clauses).map_err(|(kind, byte)| FragmentFault {
            kind,
            at: text[..byte].chars().count() + 1,
        })
    }

    fn tokens(&mut self, clauses: &[&str]) -> Result<(), Fault> {
        use FragmentFaultKind as Kind;
        while let Some((at, first)) = self.rest.next() {
            if first.is_ascii_whitespace() || first == '\u{b}' {
                continue;
            }
            if first == '-' && self.has('-') {
                self.skip_line();
                continue;
            }
            if first == '/' && self.has('*') {
                self.skip_comment(at)?;
                continue;
            }
            self.is_empty = false;
            let is_dot = first == '.' && self.after_name;
            let after_dot = std::mem::replace(&mut self.after_dot, is_dot);
            self.after_name = matches!(first, '"' | ')' | ']') || begins_word(first);
            match first {
                '\'' => self.skip_string(at, false)?,
                '"' => self.skip_quoted('"', "a quoted name", at)?,
                '$' => self.dollar(at)?,
                '(' | '[' => self.open.push((first, at)),
                ')' | ']' => self.close(first, at)?,
                ';' => return Err((Kind::Ended, at)),
                first if first.is_ascii_digit() => self.skip_digits(),
                first if begins_word(first) => {
                    let word = self.word(at);
                    let is_clause = clauses
                        .iter()
                        .any(|clause| clause.eq_ignore_ascii_case(word));
                    if is_clause && self.open.is_empty() && !after_dot {
                        return Err((Kind::Clause, at));
                    }
                    // E'…' is a string with backslashes; N'…', B'…' and X'…' are plain ones.
                    if word.eq_ignore_ascii_case("e") && self.has('\'') {
                        self.rest.next();
                        self.skip_string(at, true)?;
                    }
                }
                _ => {}
            }
        }
        match self.open.last() {
            _ if self.is_empty => Err((Kind::Empty, 0)),
            Some((opened, at)) => Err((Kind::Unclosed(*opened), *at)),
            None => Ok(()),
        }
    }

    fn has(&mut self, wanted: char) -> bool {
        self.rest.peek().is_some_and(|(_, next)| *next == wanted)
    }

    fn close(&mut self, closing: char, at: usize) -> Result<(), Fault> {
        let opening = if closing == ')' { '(' } else { '[' };
        match self.open.pop() {
            Some((open, _)) if open == opening => Ok(()),
            _ => Err((FragmentFaultKind::Unopened(closing), at)),
        }
    }

    /// Up to the end of the word that begins at `at`.
    fn word(&mut self, at: usize) -> &'a str {
        while self
            .rest
            .next_if(|(_, next)| continues_word(*next))
            .is_some()
        {}
        &self.text[at..self.place()]
    }

    /// The byte that comes next.
    fn place(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    /// `1_000` is one number since PostgreSQL 16, and no word is in it.
    fn skip_digits(&mut self) {
        loop {
            let mut ahead = self.rest.clone();
            ahead.next_if(|(_, next)| *next == '_');
            if ahead.next_if(|(_, next)| next.is_ascii_digit()).is_none() {
                return;
            }
            self.rest = ahead;
        }
    }

    fn skip_line(&mut self) {
        while self.rest.next_if(|(_, next)| !is_newline(*next)).is_some() {}
    }

    /// They nest.
    fn skip_comment(&mut self, at: usize) -> Result<(), Fault> {
        self.rest.next();
        let mut depth = 1;
        while depth > 0 {
            match self.rest.next() {
                Some((_, '/')) if self.has('*') => {
                    self.rest.next();
                    depth += 1;
                }
                Some((_, '*')) if self.has('/') => {
                    self.rest.next();
                    depth -= 1;
                }
                Some(_) => {}
                None => return Err((FragmentFaultKind::Unterminated("a comment"), at)),
            }
        }
        Ok(())
    }

    /// A doubled quote goes on with what is quoted: as two of them here, which is the same.
    fn skip_quoted(&mut self, quote: char, what: &'static str, at: usize) -> Result<(), Fault> {
        match self.rest.find(|(_, next)| *next == quote) {
            Some(_) => Ok(()),
            None => Err((FragmentFaultKind::Unterminated(what), at)),
        }
    }

    /// Behind the first quote. With a line break between them, a string goes on with the next quote, as
    /// the kind of string that it began as.
    fn skip_string(&mut self, at: usize, has_escapes: bool) -> Result<(), Fault> {
        loop {
            loop {
                match self.rest.next() {
                    Some((_, '\\')) if has_escapes => drop(self.rest.next()),
                    Some((_, '\'')) if self.has('\'') => drop(self.rest.next()),
                    Some((_, '\'')) => break,
                    Some(_) => {}
                    None => return Err((FragmentFaultKind::Unterminated("a string"), at)),
                }
            }
            if !self.goes_on() {
                return Ok(());
            }
        }
    }

    /// Passes over the gap and the quote of a string that goes on.
    fn goes_on(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        let mut broke = false;
        loop {
            match ahead.next() {
                Some((_, next)) if is_newline(next) => broke = true,
                Some((_, next)) if next.is_ascii_whitespace() || next == '\u{b}' => {}
                Some((_, '-')) if ahead.next_if(|(_, next)| *next == '-').is_some() => {
                    while ahead.next_if(|(_, next)| !is_newline(*next)).is_some() {}
                }
                Some((_, '\'')) if broke => {
                    self.rest = ahead;
                    return true;
                }
                _ => return false,
            }
        }
    }

    /// `$1`, `$$ … $$`, `$tag$ … $tag$`, or the dollar alone.
    fn dollar(&mut self, at: usize) -> Result<(), Fault> {
        let behind = &self.text[at + 1..];
        if behind.starts_with(|c: char| c.is_ascii_digit()) {
            return Err((FragmentFaultKind::Parameter, at));
        }
        let Some(tag) = behind.split_once('$').map(|(tag, _)| tag) else {
            return Ok(());
        };
        let is_tag = tag.chars().all(continues_word) && !tag.starts_with(|c: char| !begins_word(c));
        if !is_tag {
            return Ok(());
        }
        let mark = &self.text[at..at + tag.len() + 2];
        let body = at + mark.len();
        let Some(length) = self.text[body..].find(mark) else {
            return Err((FragmentFaultKind::Unterminated("a string"), at));
        };
        let end = body + length + mark.len();
        while self.rest.next_if(|(at, _)| *at < end).is_some() {}
        Ok(())
    }
}

fn is_newline(character: char) -> bool {
    matches!(character, '\n' | '\r')
}

fn begins_word(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_' || !character.is_ascii()
}

fn continues_word(character: char) -> bool {
    begins_word(character) || character.is_ascii_digit() || character == '$'
}

impl fmt::Display for FragmentFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Unopened(closing) => write!(f, "a '{closing}' closes what it has not opened"),
            Self::Unclosed(opening) => write!(f, "a '{opening}' is not closed"),
            Self::Unterminated(what) => write!(f, "{what} has no end"),
            Self::Ended => f.write_str("a semicolon ends it"),
            Self::Parameter => f.write_str("it has a parameter, which nothing fills in"),
            Self::Clause => f.write_str("another clause begins in it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FragmentFaultKind as Kind;
    use super::*;

    #[test]
    fn what_is_closed_in_itself_is_taken() {
        for text in [
            "seq BETWEEN 1 AND 10",
            "seq > 5 -- late ) '",
            "(a = ')' OR b = \"(\") AND c[1] = 2",
            "note = 'it''s ) fine'",
            r"note = 'a\' AND seq > 1",
            r"note = E'a\') x' AND seq > 1",
            "note = E'a'\n  -- more )\n '\\'' AND true",
            // The second part of an E'…' is one, too.
            "a = E'a'\n'\\') OR (true'",
            "a = E'a' -- more )\n'\\') OR (true'",
            "note = 'a' -- no break '\n AND true",
            "note = $$ ) ; $1 ' $$ AND b = $x$ $$ ( $x$",
            "a$1 = foo$bar$baz",
            "/* ( /* nested ' */ ; */ payload @> '{\"a\": [1]}'",
            "ids && ARRAY[1, 2]",
            "at AT TIME ZONE 'UTC' > now() - interval '1 day'",
            "größe > 1.5e3 AND x->>'$1' = B'0' AND U&'d\\0061t' = n",
            "cost - -1 > 0",
        ] {
            assert_eq!(Fragment::expression(text).map(|f| f.0), Ok(text.to_owned()));
        }
        for text in [
            "seq DESC NULLS LAST, id",
            "t.\"limit\", t.offset",
            "t . limit, \"t\".limit, (r).limit, a[1].offset, id + 1.",
            "substring(a FROM 1 FOR 2)",
        ] {
            assert!(Fragment::order(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_reaches_into_its_surroundings_is_not() {
        let unterminated = Kind::Unterminated;
        for (text, kind, at) in [
            ("true) or (true", Kind::Unopened(')'), 5),
            ("ö = 5) OR (true", Kind::Unopened(')'), 6),
            ("a[1)]", Kind::Unopened(')'), 4),
            ("f(1", Kind::Unclosed('('), 2),
            (
                "true); DELETE FROM outbox; SELECT (1",
                Kind::Unopened(')'),
                5,
            ),
            ("true; SELECT 1", Kind::Ended, 5),
            ("id = $1", Kind::Parameter, 6),
            ("id = 'open", unterminated("a string"), 6),
            (r"id = E'a\'", unterminated("a string"), 6),
            ("\"id = 1", unterminated("a quoted name"), 1),
            ("true /* /* */", unterminated("a comment"), 6),
            ("id = $x$ open $y$", unterminated("a string"), 6),
            ("a = 'a'\n'\\') OR (true", Kind::Unopened(')'), 12),
            (
                "id = E'x' -- c\n'\\' ' ) OR (true -- '",
                Kind::Unopened(')'),
                22,
            ),
            (" -- nothing", Kind::Empty, 1),
            ("", Kind::Empty, 1),
        ] {
            assert_eq!(
                Fragment::expression(text),
                Err(FragmentFault { kind, at }),
                "{text}"
            );
        }
        for (text, at) in [
            ("seq LIMIT 1", 5),
            ("seq for update", 5),
            ("a\nOffset 5", 3),
            ("id + 1. LIMIT 3", 9),
            ("id + 1_000. LIMIT 3", 13),
            ("id + 1.limit 3", 8),
        ] {
            let kind = Kind::Clause;
            assert_eq!(
                Fragment::order(text),
                Err(FragmentFault { kind, at }),
                "{text}"
            );
        }
    }
}
