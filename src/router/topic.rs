//! The topic's name from the routed value: a Java regular expression and a Java replacement.

use std::fmt;

use fancy_regex::{Captures, Regex};

use crate::java;

/// `route.topic.regex` and `route.topic.replacement`.
#[derive(Clone, Debug)]
pub struct TopicRoute {
    /// `matches()`: the whole value.
    whole: Regex,
    /// `replaceFirst()`: the first place, which may be a part of it.
    first: Regex,
    replacement: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Group(usize),
    Named(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRouteError {
    Regex {
        pattern: String,
        reason: String,
    },
    UnknownGroup {
        replacement: String,
        group: String,
        known: Vec<String>,
    },
    Replacement {
        replacement: String,
        reason: &'static str,
    },
    /// No topic that it makes could be one of Kafka's.
    Illegal {
        replacement: String,
        reason: &'static str,
    },
}

pub const DEFAULT_REGEX: &str = "(?<routedByValue>.*)";
pub const DEFAULT_REPLACEMENT: &str = "outbox.event.${routedByValue}";

impl Default for TopicRoute {
    fn default() -> Self {
        Self::new(DEFAULT_REGEX, DEFAULT_REPLACEMENT).expect("the defaults name their own group")
    }
}

impl TopicRoute {
    /// Both in Java's syntax. A group that the regex lacks is an error here; Debezium meets it at
    /// the first row.
    pub fn new(pattern: &str, replacement: &str) -> Result<Self, TopicRouteError> {
        let refuse = |reason| TopicRouteError::Regex {
            pattern: pattern.to_owned(),
            reason,
        };
        let compile =
            |translated: &str| Regex::new(translated).map_err(|error| refuse(error.to_string()));
        let translated = java::regex::translate(pattern, false).map_err(refuse)?;
        let first = compile(&translated)?;
        let whole = compile(&format!("^(?:{translated})\\z"))?;
        let parts = parse_replacement(replacement, &first)?;
        if let Some(reason) = parts.iter().find_map(Part::illegal) {
            return Err(TopicRouteError::Illegal {
                replacement: replacement.to_owned(),
                reason,
            });
        }
        Ok(Self {
            whole,
            first,
            replacement: parts,
        })
    }

    /// A value that the regex does not match whole is the topic's name as it is.
    pub fn topic(&self, routed: &str) -> String {
        // An error is the engine's own limit on backtracking: no match, as far as it can tell.
        if !self.whole.is_match(routed).unwrap_or(false) {
            return routed.to_owned();
        }
        let Ok(Some(captures)) = self.first.captures(routed) else {
            return routed.to_owned();
        };
        let (start, end) = captures
            .get(0)
            .map_or((0, 0), |found| (found.start(), found.end()));
        let replaced = self.expand(&captures);
        [&routed[..start], &replaced, &routed[end..]].concat()
    }

    fn expand(&self, captures: &Captures<'_, str>) -> String {
        let mut topic = String::new();
        for part in &self.replacement {
            let group = match part {
                Part::Text(text) => {
                    topic.push_str(text);
                    continue;
                }
                Part::Group(index) => captures.get(*index),
                Part::Named(name) => captures.name(name),
            };
            topic.push_str(group.map_or("", |group| group.as_str()));
        }
        topic
    }
}

impl Part {
    /// A text that no topic can have in it. What groups add may make a short one whole.
    fn illegal(&self) -> Option<&'static str> {
        match self {
            Self::Text(text) if !matches!(text.as_str(), "." | "..") => illegal(text),
            _ => None,
        }
    }
}

/// Why Kafka would not take the name.
pub fn illegal(topic: &str) -> Option<&'static str> {
    const MAX_LENGTH: usize = 249;
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    match topic {
        "" => Some("it is empty"),
        "." | ".." => Some("Kafka keeps it for itself"),
        _ if topic.len() > MAX_LENGTH => Some("it has more than 249 characters"),
        _ if !topic.bytes().all(legal) => {
            Some("it has other characters than a-z, A-Z, 0-9, ., _ and -")
        }
        _ => None,
    }
}

/// Java's `Matcher.replaceFirst`: `${name}`, `$1` (further digits count only while such a group
/// exists), a backslash takes the next character as it is.
fn parse_replacement(text: &str, regex: &Regex) -> Result<Vec<Part>, TopicRouteError> {
    let fault = |reason| TopicRouteError::Replacement {
        replacement: text.to_owned(),
        reason,
    };
    let known: Vec<String> = regex.capture_names().flatten().map(str::to_owned).collect();
    let unknown = |group: &str| TopicRouteError::UnknownGroup {
        replacement: text.to_owned(),
        group: group.to_owned(),
        known: known.clone(),
    };
    let groups = regex.captures_len();
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        match first {
            '\\' => {
                let next = after
                    .chars()
                    .next()
                    .ok_or_else(|| fault("a backslash ends it"))?;
                literal.push(next);
                rest = &after[next.len_utf8()..];
            }
            '$' => {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                if let Some(named) = after.strip_prefix('{') {
                    let (name, tail) = named
                        .split_once('}')
                        .ok_or_else(|| fault("\"${\" has no closing brace"))?;
                    if !known.iter().any(|known| known == name) {
                        return Err(unknown(name));
                    }
                    parts.push(Part::Named(name.to_owned()));
                    rest = tail;
                } else {
                    let (index, length) = group_number(after, groups)
                        .ok_or_else(|| fault("\"$\" is followed by no group"))?;
                    if index >= groups {
                        return Err(unknown(&index.to_string()));
                    }
                    parts.push(Part::Group(index));
                    rest = &after[length..];
                }
            }
            other => {
                literal.push(other);
                rest = after;
            }
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    Ok(parts)
}

/// The first digit always counts; each further one only while the longer number is a group.
fn group_number(text: &str, groups: usize) -> Option<(usize, usize)> {
    let mut digits = text
        .chars()
        .map_while(|c| c.to_digit(10))
        .map(|digit| digit as usize);
    let mut index = digits.next()?;
    let mut length = 1;
    for digit in digits {
        let longer = index * 10 + digit;
        if longer >= groups {
            break;
        }
        index = longer;
        length += 1;
    }
    Some((index, length))
}

impl fmt::Display for TopicRouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Regex { pattern, reason } => {
                write!(f, "\"{pattern}\" is not a regular expression: {reason}")
            }
            Self::UnknownGroup {
                replacement,
                group,
                known,
            } => {
                write!(
                    f,
                    "\"{replacement}\" names group \"{group}\", which the regex lacks"
                )?;
                match known.as_slice() {
                    [] => f.write_str(" (it names none)"),
                    known => write!(f, " (it names {})", known.join(", ")),
                }
            }
            Self::Replacement {
                replacement,
                reason,
            } => {
                write!(f, "\"{replacement}\" is not a replacement: {reason}")
            }
            Self::Illegal {
                replacement,
                reason,
            } => write!(f, "\"{replacement}\" gives no topic name: {reason}"),
        }
    }
}

impl std::error::Error for TopicRouteError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(pattern: &str, replacement: &str, routed: &str) -> String {
        TopicRoute::new(pattern, replacement).unwrap().topic(routed)
    }

    #[test]
    fn replacements_follow_java() {
        assert_eq!(TopicRoute::default().topic("order"), "outbox.event.order");
        assert_eq!(TopicRoute::default().topic(""), "outbox.event.");
        assert_eq!(topic("(.*)", "$1_events", "order"), "order_events");
        assert_eq!(topic("(.*)", "$12", "order"), "order2");
        assert_eq!(topic("(.*)", "\\a$1", "order"), "aorder");
        assert_eq!(topic("(?<a>.)(.*)", "${a}-$2", "xyz"), "x-yz");
        assert_eq!(topic(".*", "constant", "order"), "constant");
        // The whole matches by its second branch, the first place by the first.
        assert_eq!(topic("a|ab", "x", "ab"), "xb");
        assert_eq!(topic("(?i)ORDER(?=.)..", "o", "order-1"), "o");
    }

    #[test]
    fn a_value_that_does_not_match_whole_is_the_topic() {
        assert_eq!(topic("order", "x", "orders"), "orders");
        assert_eq!(TopicRoute::default().topic("two\nlines"), "two\nlines");
    }

    #[test]
    fn an_unknown_group_is_refused_at_once() {
        let error = TopicRoute::new(DEFAULT_REGEX, "e.${routedBy}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"e.${routedBy}\" names group \"routedBy\", which the regex lacks (it names routedByValue)"
        );
        let error = TopicRoute::new(".*", "order events").unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"order events\" gives no topic name: it has other characters than a-z, A-Z, 0-9, ., _ and -"
        );
        assert!(TopicRoute::new("(.*)", "$1..$1").is_ok());
        assert!(TopicRoute::new(".*", "$1").is_err());
        assert!(TopicRoute::new(".*", "$").is_err());
        assert!(TopicRoute::new(".*", "${x").is_err());
        assert!(TopicRoute::new("(", "x").is_err());
    }
}
