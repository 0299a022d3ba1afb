//! One function per message; each reads its fields in the order of the manual and ends.

use smallvec::SmallVec;

use super::{
    Begin, Column, Commit, Datum, DecodeError, Delete, Insert, LogicalMessage, Message, OldTuple,
    Relation, ReplicaIdentity, Tuple, Update,
};
use crate::reader::{Fault, Reader};

/// Reads the body of one XLogData message. Every byte belongs to a field or is an error.
pub fn decode(body: &[u8]) -> Result<Message<'_>, DecodeError> {
    let Some((&tag, rest)) = body.split_first() else {
        return Err(Reader::new("pgoutput message", body).fail("tag", Fault::Empty));
    };
    match tag {
        b'B' => read("pgoutput Begin", rest, begin),
        b'C' => read("pgoutput Commit", rest, commit),
        b'O' => read("pgoutput Origin", rest, origin),
        b'R' => read("pgoutput Relation", rest, relation),
        b'Y' => read("pgoutput Type", rest, data_type),
        b'I' => read("pgoutput Insert", rest, insert),
        b'U' => read("pgoutput Update", rest, update),
        b'D' => read("pgoutput Delete", rest, delete),
        b'T' => read("pgoutput Truncate", rest, truncate),
        b'M' => read("pgoutput Message", rest, logical_message),
        _ => Err(Reader::new("pgoutput message", rest).fail("tag", Fault::UnknownMessage { tag })),
    }
}

fn read<'a>(
    message: &'static str,
    bytes: &'a [u8],
    fields: impl FnOnce(&mut Reader<'a>) -> Result<Message<'a>, DecodeError>,
) -> Result<Message<'a>, DecodeError> {
    let mut reader = Reader::new(message, bytes);
    let value = fields(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

fn begin<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Begin(Begin {
        final_lsn: reader.lsn("final LSN")?,
        commit_time: reader.timestamp("commit time")?,
        xid: reader.u32("transaction id")?,
    }))
}

fn commit<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    // Reserved; the server sends 0.
    reader.u8("flags")?;
    Ok(Message::Commit(Commit {
        commit_lsn: reader.lsn("commit LSN")?,
        end_lsn: reader.lsn("end LSN")?,
        commit_time: reader.timestamp("commit time")?,
    }))
}

fn origin<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Origin {
        commit_lsn: reader.lsn("commit LSN")?,
        name: reader.name("name")?,
    })
}

fn data_type<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Type {
        oid: reader.u32("oid")?,
        namespace: reader.name("namespace")?,
        name: reader.name("name")?,
    })
}

fn relation<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let oid = reader.u32("oid")?;
    let namespace = match reader.name("namespace")? {
        // The server leaves out the name of its own catalog.
        "" => "pg_catalog",
        namespace => namespace,
    };
    let name = reader.name("name")?;
    let replica_identity = match reader.u8("replica identity")? {
        b'd' => ReplicaIdentity::Default,
        b'n' => ReplicaIdentity::Nothing,
        b'f' => ReplicaIdentity::Full,
        b'i' => ReplicaIdentity::Index,
        found => {
            let expected = "one of d, n, f, i";
            return Err(reader.fail("replica identity", Fault::Unexpected { expected, found }));
        }
    };
    let count = reader.u16("column count")?;
    let columns = (0..count)
        .map(|_| column(reader))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Message::Relation(Relation {
        oid,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        replica_identity,
        columns,
    }))
}

fn column(reader: &mut Reader<'_>) -> Result<Column, DecodeError> {
    Ok(Column {
        is_key: reader.u8("column flags")? & 1 != 0,
        name: reader.name("column name")?.to_owned(),
        type_oid: reader.u32("column type")?,
        type_modifier: reader.i32("column type modifier")?,
    })
}

fn insert<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = reader.u32("relation")?;
    match reader.u8("tuple kind")? {
        b'N' => Ok(Message::Insert(Insert {
            relation,
            new: tuple(reader)?,
        })),
        found => Err(reader.fail(
            "tuple kind",
            Fault::Unexpected {
                expected: "N",
                found,
            },
        )),
    }
}

fn update<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = reader.u32("relation")?;
    let mut kind = reader.u8("tuple kind")?;
    let old = match kind {
        b'K' | b'O' => {
            let old = old_tuple(kind, reader)?;
            kind = reader.u8("new tuple kind")?;
            Some(old)
        }
        _ => None,
    };
    match kind {
        b'N' => Ok(Message::Update(Update {
            relation,
            old,
            new: tuple(reader)?,
        })),
        found => {
            let expected = if old.is_some() { "N" } else { "one of K, O, N" };
            Err(reader.fail("tuple kind", Fault::Unexpected { expected, found }))
        }
    }
}

fn delete<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = reader.u32("relation")?;
    match reader.u8("tuple kind")? {
        kind @ (b'K' | b'O') => Ok(Message::Delete(Delete {
            relation,
            old: old_tuple(kind, reader)?,
        })),
        found => Err(reader.fail(
            "tuple kind",
            Fault::Unexpected {
                expected: "K or O",
                found,
            },
        )),
    }
}

fn old_tuple<'a>(kind: u8, reader: &mut Reader<'a>) -> Result<OldTuple<'a>, DecodeError> {
    let tuple = tuple(reader)?;
    Ok(if kind == b'K' {
        OldTuple::Key(tuple)
    } else {
        OldTuple::Full(tuple)
    })
}

fn tuple<'a>(reader: &mut Reader<'a>) -> Result<Tuple<'a>, DecodeError> {
    let count = usize::from(reader.u16("tuple column count")?);
    // Each column takes at least its kind byte: a count that the bytes cannot hold allocates
    // nothing.
    if count > reader.remaining() {
        let fault = Fault::Short {
            expected: count,
            found: reader.remaining(),
        };
        return Err(reader.fail("tuple columns", fault));
    }
    let mut datums = SmallVec::with_capacity(count);
    for index in 0..count {
        datums.push(datum(reader).map_err(|error| error.in_column(index))?);
    }
    Ok(Tuple { datums })
}

fn datum<'a>(reader: &mut Reader<'a>) -> Result<Datum<'a>, DecodeError> {
    match reader.u8("kind")? {
        b'n' => Ok(Datum::Null),
        b'u' => Ok(Datum::UnchangedToast),
        b't' => sized(reader).map(Datum::Text),
        b'b' => sized(reader).map(Datum::Binary),
        found => {
            let expected = "one of n, u, t, b";
            Err(reader.fail("kind", Fault::Unexpected { expected, found }))
        }
    }
}

fn sized<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = reader.i32("length")?;
    match usize::try_from(length) {
        Ok(length) => reader.bytes(length, "value"),
        Err(_) => Err(reader.fail("length", Fault::Negative { found: length })),
    }
}

fn truncate<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let count = reader.u32("relation count")?;
    let options = reader.u8("options")?;
    let held = reader.remaining() / size_of::<u32>();
    if usize::try_from(count).map_or(true, |count| count > held) {
        let expected = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_mul(4);
        let fault = Fault::Short {
            expected,
            found: reader.remaining(),
        };
        return Err(reader.fail("relations", fault));
    }
    let relations = (0..count)
        .map(|_| reader.u32("relation"))
        .collect::<Result<_, _>>()?;
    Ok(Message::Truncate {
        relations,
        cascade: options & 1 != 0,
        restart_identity: options & 2 != 0,
    })
}

fn logical_message<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let transactional = reader.u8("flags")? & 1 != 0;
    let lsn = reader.lsn("LSN")?;
    let prefix = reader.name("prefix")?;
    let length = reader.u32("content length")?;
    let content = reader.bytes(usize::try_from(length).unwrap_or(usize::MAX), "content")?;
    Ok(Message::Message(LogicalMessage {
        transactional,
        lsn,
        prefix,
        content,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &[u8]) -> String {
        decode(body).unwrap_err().to_string()
    }

    #[test]
    fn an_insert_borrows_its_datums() {
        let body = b"I\0\0\x40\0N\0\x03t\0\0\0\x02abnu";
        let datums =
            SmallVec::from_slice(&[Datum::Text(b"ab"), Datum::Null, Datum::UnchangedToast]);
        let expected = Message::Insert(Insert {
            relation: 0x4000,
            new: Tuple { datums },
        });
        assert_eq!(decode(body).unwrap(), expected);
    }

    #[test]
    fn errors_name_message_field_expectation_and_finding() {
        let cases: [(&[u8], &str); 12] = [
            (
                b"",
                "pgoutput message: tag: expected a message, found no bytes",
            ),
            (
                b"S",
                "pgoutput message: tag: expected a known message, found byte 0x53",
            ),
            (
                b"B\0",
                "pgoutput Begin: final LSN: expected 8 bytes, found 1",
            ),
            (
                b"I\0\0\0\x01X",
                "pgoutput Insert: tuple kind: expected N, found byte 0x58",
            ),
            (
                b"I\0\0\0\x01N\0\x02nx",
                "pgoutput Insert: tuple column 2: kind: expected one of n, u, t, b, found byte 0x78",
            ),
            (
                b"I\0\0\0\x01N\0\x01t\0\0\0\x0cabcde",
                "pgoutput Insert: tuple column 1: value: expected 12 bytes, found 5",
            ),
            (
                b"I\0\0\0\x01N\0\x01t\xff\xff\xff\xff",
                "pgoutput Insert: tuple column 1: length: expected a length, found -1",
            ),
            (
                b"I\0\0\0\x01N\xff\xffn",
                "pgoutput Insert: tuple columns: expected 65535 bytes, found 1",
            ),
            (
                b"I\0\0\0\x01N\0\x01nn",
                "pgoutput Insert: end: expected no more bytes, found 1",
            ),
            (
                b"T\xff\xff\xff\xff\0",
                "pgoutput Truncate: relations: expected 17179869180 bytes, found 0",
            ),
            (
                b"Y\0\0\0\x01a",
                "pgoutput Type: namespace: expected a zero byte after the text, found none",
            ),
            (
                b"Y\0\0\0\x01\xff\0",
                "pgoutput Type: namespace: expected UTF-8, found other bytes",
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(refusal(body), expected);
        }
    }
}
