//! Writes the plugin's messages as the server does; the golden test holds it to captured bytes.

use outboxd::pgoutput::{Datum, Message, OldTuple, Relation, ReplicaIdentity, Tuple};

pub fn encode(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match message {
        Message::Begin(begin) => {
            out.push(b'B');
            put_u64(&mut out, begin.final_lsn.as_u64());
            put_i64(&mut out, begin.commit_time.as_postgres_us());
            put_u32(&mut out, begin.xid);
        }
        Message::Commit(commit) => {
            out.extend([b'C', 0]);
            put_u64(&mut out, commit.commit_lsn.as_u64());
            put_u64(&mut out, commit.end_lsn.as_u64());
            put_i64(&mut out, commit.commit_time.as_postgres_us());
        }
        Message::Origin { commit_lsn, name } => {
            out.push(b'O');
            put_u64(&mut out, commit_lsn.as_u64());
            put_name(&mut out, name);
        }
        Message::Relation(relation) => put_relation(&mut out, relation),
        Message::Type {
            oid,
            namespace,
            name,
        } => {
            out.push(b'Y');
            put_u32(&mut out, *oid);
            put_namespace(&mut out, namespace);
            put_name(&mut out, name);
        }
        Message::Insert(insert) => {
            out.push(b'I');
            put_u32(&mut out, insert.relation);
            put_tuple(&mut out, b'N', &insert.new);
        }
        Message::Update(update) => {
            out.push(b'U');
            put_u32(&mut out, update.relation);
            if let Some(old) = update.old.as_deref() {
                put_old(&mut out, old);
            }
            put_tuple(&mut out, b'N', &update.new);
        }
        Message::Delete(delete) => {
            out.push(b'D');
            put_u32(&mut out, delete.relation);
            put_old(&mut out, &delete.old);
        }
        Message::Truncate {
            relations,
            cascade,
            restart_identity,
        } => {
            out.push(b'T');
            put_u32(&mut out, relations.len().try_into().unwrap());
            out.push(u8::from(*cascade) | u8::from(*restart_identity) << 1);
            for relation in relations {
                put_u32(&mut out, *relation);
            }
        }
        Message::Message(message) => {
            out.extend([b'M', u8::from(message.transactional)]);
            put_u64(&mut out, message.lsn.as_u64());
            put_name(&mut out, message.prefix);
            put_sized(&mut out, message.content);
        }
    }
    out
}

fn put_relation(out: &mut Vec<u8>, relation: &Relation) {
    out.push(b'R');
    put_u32(out, relation.oid);
    put_namespace(out, &relation.namespace);
    put_name(out, &relation.name);
    out.push(match relation.replica_identity {
        ReplicaIdentity::Default => b'd',
        ReplicaIdentity::Nothing => b'n',
        ReplicaIdentity::Full => b'f',
        ReplicaIdentity::Index => b'i',
    });
    put_u16(out, relation.columns.len());
    for column in &relation.columns {
        out.push(u8::from(column.is_key));
        put_name(out, &column.name);
        put_u32(out, column.type_oid);
        out.extend(column.type_modifier.to_be_bytes());
    }
}

fn put_old(out: &mut Vec<u8>, old: &OldTuple<'_>) {
    match old {
        OldTuple::Key(tuple) => put_tuple(out, b'K', tuple),
        OldTuple::Full(tuple) => put_tuple(out, b'O', tuple),
    }
}

fn put_tuple(out: &mut Vec<u8>, kind: u8, tuple: &Tuple<'_>) {
    out.push(kind);
    put_u16(out, tuple.datums.len());
    for datum in &tuple.datums {
        match datum {
            Datum::Null => out.push(b'n'),
            Datum::UnchangedToast => out.push(b'u'),
            Datum::Text(text) => {
                out.push(b't');
                put_sized(out, text);
            }
            Datum::Binary(bytes) => {
                out.push(b'b');
                put_sized(out, bytes);
            }
        }
    }
}

/// The server writes nothing in place of its own catalog's name.
fn put_namespace(out: &mut Vec<u8>, namespace: &str) {
    let own = namespace == "pg_catalog";
    put_name(out, if own { "" } else { namespace });
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend(name.as_bytes());
    out.push(0);
}

fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len().try_into().unwrap());
    out.extend(bytes);
}

fn put_u16(out: &mut Vec<u8>, count: usize) {
    out.extend(u16::try_from(count).unwrap().to_be_bytes());
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_be_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_be_bytes());
}

fn put_i64(out: &mut Vec<u8>, number: i64) {
    out.extend(number.to_be_bytes());
}
