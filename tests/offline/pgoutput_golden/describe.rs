//! A message as a person reads it: one line, and one below it for each column or tuple.

use std::fmt::Write as _;

use outboxd::pgoutput::{Datum, Message, OldTuple, Relation, Tuple};

pub(super) fn describe(message: &Message<'_>) -> String {
    match message {
        Message::Begin(begin) => format!(
            "Begin xid={} final_lsn={} commit_time_us={}\n",
            begin.xid,
            begin.final_lsn,
            begin.commit_time.as_postgres_us()
        ),
        Message::Commit(commit) => format!(
            "Commit commit_lsn={} end_lsn={} commit_time_us={}\n",
            commit.commit_lsn,
            commit.end_lsn,
            commit.commit_time.as_postgres_us()
        ),
        Message::Origin { commit_lsn, name } => {
            format!("Origin name={name:?} commit_lsn={commit_lsn}\n")
        }
        Message::Relation(relation) => relation_lines(relation),
        Message::Type {
            oid,
            namespace,
            name,
        } => format!("Type oid={oid} namespace={namespace:?} name={name:?}\n"),
        Message::Insert(insert) => format!(
            "Insert relation={}\n  new: {}\n",
            insert.relation,
            datums(&insert.new)
        ),
        Message::Update(update) => format!(
            "Update relation={}\n{}  new: {}\n",
            update.relation,
            update.old.as_deref().map(old_line).unwrap_or_default(),
            datums(&update.new)
        ),
        Message::Delete(delete) => format!(
            "Delete relation={}\n{}",
            delete.relation,
            old_line(&delete.old)
        ),
        Message::Truncate {
            relations,
            cascade,
            restart_identity,
        } => format!(
            "Truncate relations={relations:?} cascade={cascade} \
             restart_identity={restart_identity}\n"
        ),
        Message::Message(message) => format!(
            "Message transactional={} lsn={} prefix={:?} content=\"{}\"\n",
            message.transactional,
            message.lsn,
            message.prefix,
            message.content.escape_ascii()
        ),
    }
}

fn relation_lines(relation: &Relation) -> String {
    let mut text = format!(
        "Relation oid={} namespace={:?} name={:?} replica_identity={:?}\n",
        relation.oid, relation.namespace, relation.name, relation.replica_identity
    );
    for column in &relation.columns {
        let key = if column.is_key { " key" } else { "" };
        writeln!(
            text,
            "  column {:?} type={} modifier={}{key}",
            column.name, column.type_oid, column.type_modifier
        )
        .unwrap();
    }
    text
}

fn old_line(old: &OldTuple<'_>) -> String {
    match old {
        OldTuple::Key(tuple) => format!("  old key: {}\n", datums(tuple)),
        OldTuple::Full(tuple) => format!("  old row: {}\n", datums(tuple)),
    }
}

fn datums(tuple: &Tuple<'_>) -> String {
    let datum = |datum: &Datum<'_>| match datum {
        Datum::Null => "null".to_owned(),
        Datum::UnchangedToast => "unchanged".to_owned(),
        Datum::Text(text) => format!("{:?}", std::str::from_utf8(text).unwrap()),
        Datum::Binary(bytes) => format!("binary \"{}\"", bytes.escape_ascii()),
    };
    let datums: Vec<_> = tuple.datums.iter().map(datum).collect();
    datums.join(", ")
}
