//! Decoded messages in the words of PostgreSQL's test_decoding.

use std::collections::HashMap;

use outboxd::pgoutput::{
    Column, Datum, LogicalMessage, Message, OldTuple, Relation, RelationCache, Tuple,
};
use outboxd::timestamp::Timestamp;

/// A transaction without anything to say is left out, as with `skip-empty-xacts`.
pub(super) fn say(messages: Vec<Message<'_>>) -> Vec<String> {
    let mut witness = Witness::default();
    for message in messages {
        witness.hear(message);
    }
    witness.lines
}

#[derive(Default)]
struct Witness {
    relations: RelationCache,
    types: HashMap<u32, String>,
    xid: u32,
    lines: Vec<String>,
}

impl Witness {
    fn hear(&mut self, message: Message<'_>) {
        match message {
            Message::Begin(begin) => {
                self.xid = begin.xid;
                self.lines.push(format!("BEGIN {}", begin.xid));
            }
            Message::Commit(commit) => self.commit(commit.commit_time),
            Message::Relation(relation) => {
                self.relations.insert(relation);
            }
            Message::Type {
                oid,
                namespace,
                name,
            } => {
                self.types.insert(oid, type_name(namespace, name));
            }
            Message::Insert(insert) => {
                let new = self.columns(insert.relation, &insert.new, |_, _| true);
                self.row(insert.relation, &format!("INSERT:{new}"));
            }
            Message::Update(update) => {
                let new = self.columns(update.relation, &update.new, |_, _| true);
                let text = match update.old.as_deref() {
                    Some(old) => {
                        let old = self.old_columns(update.relation, old);
                        format!("UPDATE: old-key:{old} new-tuple:{new}")
                    }
                    None => format!("UPDATE:{new}"),
                };
                self.row(update.relation, &text);
            }
            Message::Delete(delete) => {
                let old = self.old_columns(delete.relation, &delete.old);
                self.row(delete.relation, &format!("DELETE:{old}"));
            }
            Message::Truncate {
                relations,
                cascade,
                restart_identity,
            } => self.truncate(&relations, cascade, restart_identity),
            Message::Message(message) => self.message(&message),
            Message::Origin { .. } => {}
        }
    }

    fn commit(&mut self, commit_time: Timestamp) {
        let begin = format!("BEGIN {}", self.xid);
        if self.lines.last() == Some(&begin) {
            self.lines.pop();
        } else {
            let time = clock_text(commit_time);
            self.lines.push(format!("COMMIT {} (at {time})", self.xid));
        }
    }

    fn row(&mut self, relation: u32, text: &str) {
        let table = table_name(self.relations.get(relation).unwrap());
        self.lines.push(format!("table {table}: {text}"));
    }

    fn truncate(&mut self, relations: &[u32], cascade: bool, restart_identity: bool) {
        let tables: Vec<_> = relations
            .iter()
            .map(|oid| table_name(self.relations.get(*oid).unwrap()))
            .collect();
        let options = match (restart_identity, cascade) {
            (false, false) => " (no-flags)",
            (true, false) => " restart_seqs",
            (false, true) => " cascade",
            (true, true) => " restart_seqs cascade",
        };
        self.lines
            .push(format!("table {}: TRUNCATE:{options}", tables.join(", ")));
    }

    fn message(&mut self, message: &LogicalMessage<'_>) {
        self.lines.push(format!(
            "message: transactional: {} prefix: {}, sz: {} content:{}",
            u8::from(message.transactional),
            message.prefix,
            message.content.len(),
            std::str::from_utf8(message.content).unwrap()
        ));
    }

    /// Of an old row the witness shows what is there; pgoutput's key tuple holds a null in place of
    /// every column that is not part of the key.
    fn old_columns(&self, relation: u32, old: &OldTuple<'_>) -> String {
        match old {
            OldTuple::Key(tuple) => self.columns(relation, tuple, |column, _| column.is_key),
            OldTuple::Full(tuple) => {
                self.columns(relation, tuple, |_, datum| *datum != Datum::Null)
            }
        }
    }

    fn columns(
        &self,
        relation: u32,
        tuple: &Tuple<'_>,
        shown: impl Fn(&Column, &Datum<'_>) -> bool,
    ) -> String {
        let relation = self.relations.get(relation).unwrap();
        assert_eq!(relation.columns.len(), tuple.datums.len());
        let columns = relation.columns.iter().zip(&tuple.datums);
        columns
            .filter(|(column, datum)| shown(column, datum))
            .map(|(column, datum)| {
                format!(
                    " {}[{}]:{}",
                    quoted(&column.name),
                    self.type_of(column),
                    literal(column.type_oid, datum)
                )
            })
            .collect()
    }

    fn type_of(&self, column: &Column) -> &str {
        match column.type_oid {
            16 => "boolean",
            17 => "bytea",
            20 => "bigint",
            23 => "integer",
            25 => "text",
            701 => "double precision",
            1043 => "character varying",
            1184 => "timestamp with time zone",
            1700 => "numeric",
            2950 => "uuid",
            3802 => "jsonb",
            oid => &self.types[&oid],
        }
    }
}

/// As `format_type` prints it: an array type has the name of its elements behind an underscore.
fn type_name(namespace: &str, name: &str) -> String {
    let (name, brackets) = match name.strip_prefix('_') {
        Some(element) => (element, "[]"),
        None => (name, ""),
    };
    match namespace {
        "public" => format!("{name}{brackets}"),
        _ => format!("{namespace}.{name}{brackets}"),
    }
}

fn literal(type_oid: u32, datum: &Datum<'_>) -> String {
    let text = match datum {
        Datum::Null => return "null".to_owned(),
        Datum::UnchangedToast => return "unchanged-toast-datum".to_owned(),
        Datum::Text(text) => std::str::from_utf8(text).unwrap(),
        Datum::Binary(_) => panic!("protocol 1 was asked for text"),
    };
    match (type_oid, text) {
        (16, "t") => "true".to_owned(),
        (16, _) => "false".to_owned(),
        (20 | 23 | 701 | 1700, number) => number.to_owned(),
        // The capture writes a value's line break as two characters.
        _ => format!("'{}'", text.replace('\'', "''").replace('\n', "\\n")),
    }
}

fn table_name(relation: &Relation) -> String {
    format!("{}.{}", quoted(&relation.namespace), quoted(&relation.name))
}

/// `quote_identifier`: what is not a plain lower-case name, or is a reserved word, has quotes.
fn quoted(name: &str) -> String {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain && name != "select" {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// `timestamptz` as the server prints it in UTC.
fn clock_text(time: Timestamp) -> String {
    const SECOND_US: i64 = 1_000_000;
    const DAY_US: i64 = 86_400 * SECOND_US;
    let us = time.as_postgres_us();
    let (year, month, day) = civil_date(us.div_euclid(DAY_US));
    let of_day = us.rem_euclid(DAY_US);
    let seconds = of_day / SECOND_US;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = format!(".{:06}", of_day % SECOND_US);
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}+00")
}

/// The date so many days after 2000-01-01; the tests' dates are all after it.
fn civil_date(mut days: i64) -> (i64, usize, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 2000;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}
