//! A row as a header of its dead letter has it: JSON, with the payload left to the record's value.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::lsn::Lsn;
use crate::outbox::{Change, Operation};
use crate::pgoutput::{Column, Datum, Relation, ReplicaIdentity, Tuple};
use crate::router::Options;
use crate::timestamp::Timestamp;

/// A row that was read back, and what it takes to route it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    pub operation: Operation,
    pub relation: Arc<Relation>,
    pub commit_lsn: Lsn,
    pub commit_time: Timestamp,
    datums: Vec<OwnedDatum>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedDatum {
    Null,
    UnchangedToast,
    Text(Vec<u8>),
}

#[derive(Debug, Deserialize, Serialize)]
struct Layout {
    operation: Verb,
    commit_lsn: String,
    /// Since 1970-01-01 00:00 UTC.
    commit_time_us: i64,
    schema: String,
    table: String,
    oid: u32,
    columns: Vec<StoredColumn>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verb {
    Read,
    Insert,
    Update,
    Delete,
    Truncate,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredColumn {
    name: String,
    #[serde(rename = "type")]
    type_oid: u32,
    modifier: i32,
    key: bool,
    value: StoredValue,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum StoredValue {
    Null,
    UnchangedToast,
    Text(String),
    /// Text that is no UTF-8.
    Base64(String),
    /// The text is the record's value.
    InValue,
    /// bytea, and the record's value is its bytes.
    BytesInValue,
}

/// `pg_type.dat`
const BYTEA: u32 = 17;

/// The record's value, and the rest of the row. What the configuration treats as not there is in
/// neither.
pub(super) fn store(change: &Change<'_, '_>, options: &Options) -> (Option<Bytes>, Vec<u8>) {
    let relation = change.relation;
    let mut value = None;
    let datums = change.new.map_or(&[][..], |row| &row.datums);
    let mut columns = Vec::with_capacity(datums.len());
    for (column, datum) in relation.columns.iter().zip(datums) {
        let filter = &options.columns;
        if !filter.takes(&relation.namespace, &relation.name, &column.name) {
            continue;
        }
        let stored = match datum {
            Datum::Text(text) if column.name == options.payload_field => {
                let (bytes, stored) = payload(column, text);
                value = Some(bytes);
                stored
            }
            datum => stored(datum),
        };
        columns.push(StoredColumn {
            name: column.name.clone(),
            type_oid: column.type_oid,
            modifier: column.type_modifier,
            key: column.is_key,
            value: stored,
        });
    }
    let layout = Layout {
        operation: change.operation.into(),
        commit_lsn: change.commit_lsn.to_string(),
        commit_time_us: change.commit_time.as_unix_us(),
        schema: relation.namespace.clone(),
        table: relation.name.clone(),
        oid: relation.oid,
        columns,
    };
    let json = serde_json::to_vec(&layout).expect("strings and numbers become JSON");
    (value, json)
}

fn payload(column: &Column, text: &[u8]) -> (Bytes, StoredValue) {
    if column.type_oid == BYTEA
        && let Some(bytes) = from_hex(text)
    {
        return (bytes.into(), StoredValue::BytesInValue);
    }
    (Bytes::copy_from_slice(text), StoredValue::InValue)
}

fn stored(datum: &Datum<'_>) -> StoredValue {
    match datum {
        Datum::Null => StoredValue::Null,
        Datum::UnchangedToast => StoredValue::UnchangedToast,
        Datum::Text(bytes) | Datum::Binary(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => StoredValue::Text(text.to_owned()),
            Err(_) => StoredValue::Base64(STANDARD.encode(bytes)),
        },
    }
}

/// As bytea is written, with lower-case digits.
fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.strip_prefix(b"\\x")?.as_chunks::<2>() else {
        return None;
    };
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    pairs.iter().map(byte).collect()
}

fn to_hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS[usize::from(nibble)];
    let pairs = bytes.iter();
    let digits = pairs.flat_map(|byte| [digit(byte >> 4), digit(byte & 0xF)]);
    b"\\x".iter().copied().chain(digits).collect()
}

impl StoredRow {
    /// `None` where it is not what [`store`] writes.
    pub(super) fn read(json: &[u8], value: Option<&Bytes>) -> Option<Self> {
        let layout: Layout = serde_json::from_slice(json).ok()?;
        let (mut columns, mut datums) = (Vec::new(), Vec::new());
        for column in layout.columns {
            columns.push(Column {
                name: column.name,
                type_oid: column.type_oid,
                type_modifier: column.modifier,
                is_key: column.key,
            });
            datums.push(match column.value {
                StoredValue::Null => OwnedDatum::Null,
                StoredValue::UnchangedToast => OwnedDatum::UnchangedToast,
                StoredValue::Text(text) => OwnedDatum::Text(text.into_bytes()),
                StoredValue::Base64(text) => OwnedDatum::Text(STANDARD.decode(text).ok()?),
                StoredValue::InValue => OwnedDatum::Text(value?.to_vec()),
                StoredValue::BytesInValue => OwnedDatum::Text(to_hex(value?)),
            });
        }
        Some(Self {
            operation: layout.operation.into(),
            relation: Arc::new(Relation {
                oid: layout.oid,
                namespace: layout.schema,
                name: layout.table,
                replica_identity: ReplicaIdentity::Default,
                columns,
            }),
            commit_lsn: layout.commit_lsn.parse().ok()?,
            commit_time: Timestamp::from_unix_us(layout.commit_time_us),
            datums,
        })
    }

    /// The change as the router takes it.
    pub fn with_change<T>(&self, take: impl FnOnce(&Change<'_, '_>) -> T) -> T {
        let datums = self.datums.iter().map(|datum| match datum {
            OwnedDatum::Null => Datum::Null,
            OwnedDatum::UnchangedToast => Datum::UnchangedToast,
            OwnedDatum::Text(text) => Datum::Text(text),
        });
        let row = Tuple {
            datums: datums.collect(),
        };
        let has_row = !matches!(self.operation, Operation::Delete | Operation::Truncate);
        take(&Change {
            operation: self.operation,
            relation: &self.relation,
            new: has_row.then_some(&row),
            commit_time: self.commit_time,
            commit_lsn: self.commit_lsn,
        })
    }
}

impl From<Operation> for Verb {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Read => Self::Read,
            Operation::Insert => Self::Insert,
            Operation::Update => Self::Update,
            Operation::Delete => Self::Delete,
            Operation::Truncate => Self::Truncate,
        }
    }
}

impl From<Verb> for Operation {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Read => Self::Read,
            Verb::Insert => Self::Insert,
            Verb::Update => Self::Update,
            Verb::Delete => Self::Delete,
            Verb::Truncate => Self::Truncate,
        }
    }
}
