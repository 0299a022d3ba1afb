//! One function per message; each reads its fields in the order of the manual and ends.

use smallvec::SmallVec;

use super::{
    Begin, Column, Commit, Datum, DecodeError, Delete, Insert, LogicalMessage, Message, OldTuple,
    Relation, ReplicaIdentity, Tuple, Update,
};
use crate::reader::{Fault, ReadError, Reader};

/// Reads the body of one XLogData message. Every byte belongs to a field or is an error.
pub fn decode(body: &[u8]) -> Result<Message<'_>, DecodeError> {
    let Some((&tag, rest)) = body.split_first() else {
        return Err(Reader::new("pgoutput", body)
            .fail("tag", Fault::Empty)
            .into());
    };
    match tag {
        b'B' => whole("pgoutput Begin", rest, begin),
        b'C' => whole("pgoutput Commit", rest, commit),
        b'O' => whole("pgoutput Origin", rest, origin),
        b'R' => whole("pgoutput Relation", rest, relation),
        b'Y' => whole("pgoutput Type", rest, data_type),
        b'I' => whole("pgoutput Insert", rest, insert),
        b'U' => whole("pgoutput Update", rest, update),
        b'D' => whole("pgoutput Delete", rest, delete),
        b'T' => whole("pgoutput Truncate", rest, truncate),
        b'M' => whole("pgoutput Message", rest, logical_message),
        _ => {
            let fault = Fault::UnknownMessage { tag };
            Err(Reader::new("pgoutput", body).fail("tag", fault).into())
        }
    }
}

#[inline]
fn whole<'a>(
    message: &'static str,
    bytes: &'a [u8],
    fields: impl FnOnce(&mut Reader<'a>) -> Result<Message<'a>, ReadError>,
) -> Result<Message<'a>, DecodeError> {
    let mut reader = Reader::new(message, bytes);
    let value = fields(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// final LSN 8, commit time 8, transaction id 4
fn begin<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    Ok(Message::Begin(Begin {
        final_lsn: reader.lsn("final LSN")?,
        commit_time: reader.timestamp("commit time")?,
        xid: reader.u32("transaction id")?,
    }))
}

/// flags 1, commit LSN 8, end LSN 8, commit time 8
fn commit<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    reader.flags("flags", 0, "no flag")?;
    Ok(Message::Commit(Commit {
        commit_lsn: reader.lsn("commit LSN")?,
        end_lsn: reader.lsn("end LSN")?,
        commit_time: reader.timestamp("commit time")?,
    }))
}

/// commit LSN 8 (on the origin's server), name
fn origin<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    Ok(Message::Origin {
        commit_lsn: reader.lsn("commit LSN")?,
        name: reader.name("name")?,
    })
}

/// oid 4, namespace, name
fn data_type<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    Ok(Message::Type {
        oid: reader.u32("oid")?,
        namespace: namespace(reader)?,
        name: reader.name("name")?,
    })
}

/// oid 4, namespace, name, replica identity 1, column count 2, columns
fn relation<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    let oid = reader.u32("oid")?;
    let namespace = namespace(reader)?.to_owned();
    let name = reader.name("name")?.to_owned();
    let replica_identity = replica_identity(reader)?;
    let count = reader.u16("column count")?;
    let columns = (0..usize::from(count))
        .map(|index| column(reader).map_err(|error| error.in_column("column", index)))
        .collect::<Result<_, _>>()?;
    Ok(Message::Relation(Relation {
        oid,
        namespace,
        name,
        replica_identity,
        columns,
    }))
}

/// The server sends an empty text in place of the name of its own catalog.
fn namespace<'a>(reader: &mut Reader<'a>) -> Result<&'a str, ReadError> {
    match reader.name("namespace")? {
        "" => Ok("pg_catalog"),
        namespace => Ok(namespace),
    }
}

fn replica_identity(reader: &mut Reader<'_>) -> Result<ReplicaIdentity, ReadError> {
    match reader.u8("replica identity")? {
        b'd' => Ok(ReplicaIdentity::Default),
        b'n' => Ok(ReplicaIdentity::Nothing),
        b'f' => Ok(ReplicaIdentity::Full),
        b'i' => Ok(ReplicaIdentity::Index),
        found => Err(reader.unexpected("replica identity", "one of d, n, f, i", found)),
    }
}

/// flags 1 (1: part of the replica identity), name, type oid 4, type modifier 4
fn column(reader: &mut Reader<'_>) -> Result<Column, ReadError> {
    Ok(Column {
        is_key: reader.flags("flags", 1, "0 or 1")? != 0,
        name: reader.name("name")?.to_owned(),
        type_oid: reader.u32("type")?,
        type_modifier: reader.i32("type modifier")?,
    })
}

/// relation 4, `N`, tuple
fn insert<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    let relation = reader.u32("relation")?;
    match reader.u8("tuple kind")? {
        b'N' => Ok(Message::Insert(Insert {
            relation,
            new: tuple(reader, "tuple column")?,
        })),
        found => Err(reader.unexpected("tuple kind", "N", found)),
    }
}

/// relation 4, then perhaps `K` or `O` and the old tuple, then `N` and the new one
fn update<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    let relation = reader.u32("relation")?;
    let (old, kind) = match reader.u8("tuple kind")? {
        kind @ (b'K' | b'O') => {
            let old = old_tuple(kind, reader)?;
            (Some(Box::new(old)), reader.u8("new tuple kind")?)
        }
        kind => (None, kind),
    };
    match kind {
        b'N' => Ok(Message::Update(Update {
            relation,
            old,
            new: tuple(reader, "new tuple column")?,
        })),
        found if old.is_some() => Err(reader.unexpected("new tuple kind", "N", found)),
        found => Err(reader.unexpected("tuple kind", "one of K, O, N", found)),
    }
}

/// relation 4, `K` or `O`, old tuple
fn delete<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    let relation = reader.u32("relation")?;
    match reader.u8("tuple kind")? {
        kind @ (b'K' | b'O') => Ok(Message::Delete(Delete {
            relation,
            old: old_tuple(kind, reader)?,
        })),
        found => Err(reader.unexpected("tuple kind", "K or O", found)),
    }
}

fn old_tuple<'a>(kind: u8, reader: &mut Reader<'a>) -> Result<OldTuple<'a>, ReadError> {
    let tuple = tuple(reader, "old tuple column")?;
    Ok(match kind {
        b'K' => OldTuple::Key(tuple),
        _ => OldTuple::Full(tuple),
    })
}

/// column count 2, columns
#[inline]
fn tuple<'a>(reader: &mut Reader<'a>, list: &'static str) -> Result<Tuple<'a>, ReadError> {
    let count = reader.u16("tuple column count")?;
    // A column takes at least the byte of its kind.
    reader.check_count("tuple columns", u32::from(count), 1)?;
    let count = usize::from(count);
    let mut datums = SmallVec::with_capacity(count);
    for index in 0..count {
        datums.push(datum(reader).map_err(|error| error.in_column(list, index))?);
    }
    Ok(Tuple { datums })
}

/// kind 1, for a value also length 4 and as many bytes
#[inline]
fn datum<'a>(reader: &mut Reader<'a>) -> Result<Datum<'a>, ReadError> {
    match reader.u8("kind")? {
        b't' => reader.sized("length", "").map(Datum::Text),
        b'n' => Ok(Datum::Null),
        b'u' => Ok(Datum::UnchangedToast),
        b'b' => reader.sized("length", "").map(Datum::Binary),
        found => Err(reader.unexpected("kind", "one of n, u, t, b", found)),
    }
}

/// relation count 4, options 1 (1: cascade, 2: restart identity), relations 4 each
fn truncate<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    let count = reader.u32("relation count")?;
    let options = reader.flags("options", 1 | 2, "0, 1, 2 or 3")?;
    reader.check_count("relations", count, size_of::<u32>())?;
    let relations = (0..count)
        .map(|_| reader.u32("relation"))
        .collect::<Result<_, _>>()?;
    Ok(Message::Truncate {
        relations,
        cascade: options & 1 != 0,
        restart_identity: options & 2 != 0,
    })
}

/// flags 1 (1: transactional), LSN 8, prefix, content length 4, content
fn logical_message<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ReadError> {
    Ok(Message::Message(LogicalMessage {
        transactional: reader.flags("flags", 1, "0 or 1")? != 0,
        lsn: reader.lsn("LSN")?,
        prefix: reader.name("prefix")?,
        content: reader.sized("content length", "content")?,
    }))
}
