//! An offset of Debezium's PostgreSQL connector as Kafka Connect stores it: JSON under a JSON key.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

/// Where a connector stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorOffset {
    /// Of the last message that was delivered. Rows that one record of the log inserted share it.
    pub lsn: Lsn,
    /// The end of the last transaction whose commit was seen before; none where none was.
    pub committed: Option<Lsn>,
    /// The transaction that the message belongs to.
    pub transaction: Option<Transaction>,
    pub kind: Kind,
    /// Of a snapshot, and whether that is complete.
    pub snapshot: Option<Snapshot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub xid: u32,
    pub commit_time: Timestamp,
}

/// The message that the offset is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Row,
    /// Has the position of its transaction's first row, which is not delivered.
    Begin,
    Commit,
    /// As in a heartbeat's before anything was streamed.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshot {
    Complete,
    Incomplete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetError {
    /// Not what Debezium writes.
    Malformed { reason: String },
}

/// `["connector",{"server":"prefix"}]`
pub fn is_key_of(key: &[u8], connector: &str, server: &str) -> bool {
    let Ok((name, Value::Object(partition))) = serde_json::from_slice::<(String, Value)>(key)
    else {
        return false;
    };
    let is_servers = partition.get("server").and_then(Value::as_str) == Some(server);
    name == connector && is_servers && partition.len() == 1
}

#[derive(Deserialize)]
struct Stored {
    lsn: u64,
    lsn_commit: Option<u64>,
    #[serde(rename = "txId")]
    xid: Option<u64>,
    ts_usec: Option<i64>,
    #[serde(rename = "messageType")]
    kind: Option<String>,
    snapshot: Option<Value>,
    snapshot_completed: Option<bool>,
    last_snapshot_record: Option<bool>,
}

const UNIX_TO_POSTGRES_US: i64 = 946_684_800_000_000;

impl ConnectorOffset {
    /// Of its positions.
    pub fn furthest(&self) -> Lsn {
        self.lsn.max(self.committed.unwrap_or_default())
    }

    pub fn from_json(bytes: &[u8]) -> Result<Self, OffsetError> {
        let stored: Stored =
            serde_json::from_slice(bytes).map_err(|error| OffsetError::Malformed {
                reason: format!("{:?} at column {}", error.classify(), error.column()),
            })?;
        let xid = stored.xid.and_then(|xid| u32::try_from(xid).ok());
        let unix_us = stored.ts_usec;
        let since_2000_us = unix_us.and_then(|us| us.checked_sub(UNIX_TO_POSTGRES_US));
        let transaction = xid.zip(since_2000_us).map(|(xid, us)| Transaction {
            xid,
            commit_time: Timestamp::from_postgres_us(us),
        });
        let is_complete = stored.snapshot_completed.or(stored.last_snapshot_record);
        let snapshot = stored.snapshot.map(|_| match is_complete {
            Some(true) => Snapshot::Complete,
            Some(false) | None => Snapshot::Incomplete,
        });
        Ok(Self {
            lsn: Lsn::new(stored.lsn),
            committed: stored.lsn_commit.map(Lsn::new),
            transaction,
            kind: match stored.kind.as_deref() {
                Some("INSERT" | "UPDATE" | "DELETE" | "TRUNCATE" | "MESSAGE") => Kind::Row,
                Some("BEGIN") => Kind::Begin,
                Some("COMMIT") => Kind::Commit,
                Some(_) | None => Kind::Unknown,
            },
            snapshot,
        })
    }
}

impl fmt::Display for ConnectorOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.snapshot, self.kind) {
            (Some(Snapshot::Complete), _) => f.write_str("the end of a snapshot")?,
            (Some(Snapshot::Incomplete), _) => f.write_str("a snapshot under way")?,
            (None, Kind::Row) => f.write_str("a row")?,
            (None, Kind::Begin) => f.write_str("the begin")?,
            (None, Kind::Commit) => f.write_str("the commit")?,
            (None, Kind::Unknown) => f.write_str("a position")?,
        }
        if let Some(transaction) = self.transaction {
            write!(f, " of transaction {}", transaction.xid)?;
        }
        write!(f, " at {}", self.lsn)
    }
}

impl fmt::Display for OffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Malformed { reason } = self;
        write!(
            f,
            "it is not an offset of Debezium's PostgreSQL connector ({reason})"
        )
    }
}

impl std::error::Error for OffsetError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_names_connector_and_server() {
        let key = br#"["shop",{"server":"prefix"}]"#;
        assert!(is_key_of(key, "shop", "prefix"));
        assert!(!is_key_of(key, "other", "prefix"));
        assert!(!is_key_of(key, "shop", "other"));
        let others: [&[u8]; 5] = [
            b"",
            b"shop",
            br#"["shop",{"server":"prefix","database":"d"}]"#,
            br#"["shop",{"file":"prefix"}]"#,
            br#"["shop",null]"#,
        ];
        for other in others {
            assert!(!is_key_of(other, "shop", "prefix"));
        }
    }

    /// Recorded with Debezium 3.6.1.
    #[test]
    fn a_row_has_its_transaction_and_the_commit_before_it() {
        let json = br#"{"lsn_proc":26385424,"messageType":"INSERT","lsn_commit":26385072,"lsn":26385424,"txId":730,"ts_usec":1796056888557448}"#;
        let expected = ConnectorOffset {
            lsn: "0/1929C10".parse().unwrap(),
            committed: Some("0/1929AB0".parse().unwrap()),
            transaction: Some(Transaction {
                xid: 730,
                commit_time: Timestamp::from_postgres_us(849_372_088_557_448),
            }),
            kind: Kind::Row,
            snapshot: None,
        };
        assert_eq!(
            expected.to_string(),
            "a row of transaction 730 at 0/1929C10"
        );
        assert_eq!(ConnectorOffset::from_json(json), Ok(expected));
    }

    #[test]
    fn the_first_row_has_no_commit_before_it_and_a_heartbeat_of_an_idle_slot_no_kind() {
        let first = br#"{"lsn_proc":26384752,"messageType":"INSERT","lsn":26384752,"txId":729,"ts_usec":1796056884997696}"#;
        let first = ConnectorOffset::from_json(first).unwrap();
        assert_eq!((first.committed, first.kind), (None, Kind::Row));
        let beat = br#"{"lsn":30738248,"txId":739,"ts_usec":1796056940223000}"#;
        let beat = ConnectorOffset::from_json(beat).unwrap();
        assert_eq!((beat.committed, beat.kind), (None, Kind::Unknown));
        let commit = br#"{"transaction_id":"761","lsn_proc":35294048,"messageType":"COMMIT","lsn_commit":35294048,"lsn":35294048,"txId":761,"ts_usec":1796056964551562,"transaction_data_collection_order_public.outbox":5}"#;
        let commit = ConnectorOffset::from_json(commit).unwrap();
        assert_eq!(
            (commit.committed, commit.kind),
            (Some(commit.lsn), Kind::Commit)
        );
    }

    #[test]
    fn a_snapshots_offset_says_whether_it_is_complete() {
        let done = br#"{"last_snapshot_record":true,"lsn":39713416,"txId":771,"ts_usec":1796056971187800,"snapshot":"INITIAL","snapshot_completed":true}"#;
        let done = ConnectorOffset::from_json(done).unwrap();
        assert_eq!(done.snapshot, Some(Snapshot::Complete));
        let under_way = br#"{"last_snapshot_record":false,"lsn":1,"snapshot":"INITIAL","snapshot_completed":false}"#;
        let under_way = ConnectorOffset::from_json(under_way).unwrap();
        assert_eq!(under_way.snapshot, Some(Snapshot::Incomplete));
    }

    #[test]
    fn what_is_no_offset_is_refused_without_its_text() {
        for bytes in [
            &b"hunter2"[..],
            b"",
            b"null",
            br#"{"lsn":-1}"#,
            br#"{"binlog":"hunter2"}"#,
        ] {
            let error = ConnectorOffset::from_json(bytes).unwrap_err();
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
