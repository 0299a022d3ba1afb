//! Debezium's lists of regular expressions: `table.include.list`, `column.exclude.list` and their
//! kin.

use std::fmt;

use fancy_regex::{Regex, RegexBuilder};

use super::regex;

/// One, matched whole.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        compile(pattern.to_owned(), false).map(Self)
    }

    pub fn matches(&self, text: &str) -> bool {
        is_match(&self.0, text)
    }
}

fn compile(pattern: String, any_case: bool) -> Result<Regex, PatternError> {
    let translated = match regex::translate(&pattern, any_case) {
        Ok(translated) => translated,
        Err(reason) => return Err(PatternError { pattern, reason }),
    };
    RegexBuilder::new(&format!("^(?:{translated})\\z"))
        .case_insensitive(any_case)
        .build()
        .map_err(|error| PatternError {
            reason: error.to_string(),
            pattern,
        })
}

/// An error is the engine's own limit on backtracking: no match, as far as it can tell.
fn is_match(pattern: &Regex, text: &str) -> bool {
    pattern.is_match(text).unwrap_or(false)
}

/// Separated by commas, matched whole and without regard to case.
#[derive(Clone, Debug)]
pub struct PatternList {
    source: String,
    patterns: Vec<Regex>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    pub pattern: String,
    pub reason: String,
}

impl PatternList {
    pub fn new(source: &str) -> Result<Self, PatternError> {
        Ok(Self {
            source: source.to_owned(),
            patterns: split(source)
                .into_iter()
                .map(|pattern| compile(pattern, true))
                .collect::<Result<_, _>>()?,
        })
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The patterns one by one, as they were written.
    pub fn items(&self) -> Vec<String> {
        split(&self.source)
    }

    /// Those that match none of the texts.
    pub fn idle(&self, texts: &[String]) -> Vec<String> {
        let is_idle = |pattern: &Regex| !texts.iter().any(|text| is_match(pattern, text));
        let idle = self.items().into_iter().zip(&self.patterns);
        idle.filter(|(_, pattern)| is_idle(pattern))
            .map(|(item, _)| item)
            .collect()
    }

    pub fn matches(&self, text: &str) -> bool {
        self.patterns.iter().any(|pattern| is_match(pattern, text))
    }
}

/// At commas; `\,` is a comma inside a pattern.
fn split(source: &str) -> Vec<String> {
    let (mut patterns, mut current) = (Vec::new(), String::new());
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        match character {
            ',' => patterns.push(std::mem::take(&mut current)),
            '\\' => match characters.next() {
                Some(',') => current.push(','),
                escaped => current.extend(['\\'].into_iter().chain(escaped)),
            },
            other => current.push(other),
        }
    }
    patterns.push(current);
    patterns
        .iter()
        .map(|pattern| pattern.trim().to_owned())
        .filter(|pattern| !pattern.is_empty())
        .collect()
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a regular expression: {}",
            self.pattern.escape_debug(),
            self.reason
        )
    }
}

impl std::error::Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_match_whole_whatever_the_case_and_a_comma_can_be_escaped() {
        let list = PatternList::new(r" public\.a , .*\.outbox_\d{1\,2},").unwrap();
        assert_eq!(list.items(), [r"public\.a", r".*\.outbox_\d{1,2}"]);
        for (text, matches) in [
            ("PUBLIC.A", true),
            ("public.ab", false),
            ("x.outbox_12", true),
            ("x.outbox_123", false),
        ] {
            assert_eq!(list.matches(text), matches, "{text}");
        }
        let texts = ["Public.A".to_owned(), "x.outbox_1234".to_owned()];
        assert_eq!(list.idle(&texts), [r".*\.outbox_\d{1,2}"]);
        let error = PatternList::new("a(").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("\"a(\" is not a regular expression: ")
        );
    }
}
