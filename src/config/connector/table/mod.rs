//! What becomes of every property that Kafka Connect, Debezium's PostgreSQL connector, its Event
//! Router and Java's producer know. One row decides; the code, the documents and
//! `outboxd convert` read the same rows. What has no row is refused.

mod connector;
mod producer;
mod router;
mod worker;

pub(super) use connector::CONNECTOR;
pub(super) use producer::PRODUCER;
pub(super) use router::ROUTER;
pub(super) use worker::{SERVER, WORKER};

#[derive(Debug)]
pub(super) struct Property {
    /// Ends in `*` where the rest is the user's.
    pub(super) name: &'static str,
    pub(super) treatment: Treatment,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Treatment {
    /// Becomes this key of outboxd's own.
    Becomes(&'static str, As),
    /// Has its effect through code that reads it by name; the text says what it is.
    Honoured(&'static str),
    /// Accepted at these values (the first is the usual one), refused at others.
    Only(&'static [&'static str], &'static str),
    /// Accepted at any value, with a note.
    Ignored(&'static str),
    Refused(&'static str),
    /// Accepted with a warning, as if the new name stood there.
    OldNameOf(&'static str),
}

/// How a value is carried over.
#[derive(Clone, Copy, Debug)]
pub(super) enum As {
    Text,
    /// An identifier that Debezium does not quote.
    LowerCase,
    Boolean,
    /// A number of milliseconds becomes a duration.
    Milliseconds,
    /// Relative to the file.
    Path,
    /// One of these words, whatever their case.
    Words(&'static [Word]),
}

#[derive(Debug)]
pub(super) struct Word {
    pub(super) theirs: &'static str,
    pub(super) ours: &'static str,
    /// Removed from Debezium, accepted here with a warning.
    pub(super) old: bool,
}

const fn becomes(name: &'static str, key: &'static str, how: As) -> Property {
    Property {
        name,
        treatment: Treatment::Becomes(key, how),
    }
}

const fn honoured(name: &'static str, effect: &'static str) -> Property {
    Property {
        name,
        treatment: Treatment::Honoured(effect),
    }
}

const fn only(
    name: &'static str,
    values: &'static [&'static str],
    reason: &'static str,
) -> Property {
    Property {
        name,
        treatment: Treatment::Only(values, reason),
    }
}

const fn ignored(name: &'static str, reason: &'static str) -> Property {
    Property {
        name,
        treatment: Treatment::Ignored(reason),
    }
}

const fn refused(name: &'static str, reason: &'static str) -> Property {
    Property {
        name,
        treatment: Treatment::Refused(reason),
    }
}

const fn old(name: &'static str, new: &'static str) -> Property {
    Property {
        name,
        treatment: Treatment::OldNameOf(new),
    }
}

const fn word(theirs: &'static str, ours: &'static str) -> Word {
    Word {
        theirs,
        ours,
        old: false,
    }
}

const fn old_word(theirs: &'static str, ours: &'static str) -> Word {
    Word {
        theirs,
        ours,
        old: true,
    }
}

impl Property {
    fn covers(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => self.name == name,
        }
    }
}

/// Exact names count before patterns.
pub(super) fn find(table: &'static [Property], name: &str) -> Option<&'static Property> {
    table
        .iter()
        .find(|property| property.name == name)
        .or_else(|| table.iter().find(|property| property.covers(name)))
}

/// A row as the documents show it.
pub(in crate::config) struct Row {
    pub(in crate::config) name: &'static str,
    pub(in crate::config) here: String,
}

/// All tables with a title each.
pub(in crate::config) fn tables() -> Vec<(&'static str, Vec<Row>)> {
    [
        ("Connector", CONNECTOR),
        ("Event Router (`transforms.NAME.`)", ROUTER),
        ("Worker", WORKER),
        (
            "Producer (`producer.` of the worker, `producer.override.` of the connector)",
            PRODUCER,
        ),
        ("Debezium Server", SERVER),
    ]
    .into_iter()
    .map(|(title, table)| (title, table.iter().map(Row::of).collect()))
    .collect()
}

impl Row {
    fn of(property: &Property) -> Self {
        let here = match property.treatment {
            Treatment::Becomes(key, how) => match how.shown() {
                None => format!("honoured: `{key}`"),
                Some(how) => format!("honoured: `{key}`, {how}"),
            },
            Treatment::Honoured(effect) => format!("honoured: {effect}"),
            Treatment::Only([""], reason) => format!("refused unless empty: {reason}"),
            Treatment::Only(values, reason) => {
                let values = values.iter().filter(|value| !value.is_empty());
                let values: Vec<_> = values.map(|value| format!("`{value}`")).collect();
                format!("only {}: {reason}", values.join(", "))
            }
            Treatment::Ignored(reason) => format!("ignored with a note: {reason}"),
            Treatment::Refused(reason) => format!("refused: {reason}"),
            Treatment::OldNameOf(new) => format!("old name of `{new}`, with a warning"),
        };
        Self {
            name: property.name,
            here,
        }
    }
}

impl As {
    fn shown(self) -> Option<String> {
        match self {
            Self::Words(words) => {
                let changed = words
                    .iter()
                    .filter(|word| word.theirs != word.ours || word.old);
                let changed: Vec<_> = changed
                    .map(|word| {
                        let old = if word.old { ", an old name" } else { "" };
                        format!("`{}` is `{}`{old}", word.theirs, word.ours)
                    })
                    .collect();
                Some(changed.join("; ")).filter(|text| !text.is_empty())
            }
            Self::LowerCase => Some("in lower case, as Debezium does not quote it".to_owned()),
            Self::Path => Some("relative to the file".to_owned()),
            Self::Text | Self::Boolean | Self::Milliseconds => None,
        }
    }
}
