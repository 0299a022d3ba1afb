//! Inside the copy stream.

use bytes::{BufMut, BytesMut};

use crate::lsn::Lsn;
use crate::reader::{Fault, ReadError, Reader};
use crate::timestamp::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMessage<'a> {
    /// `body` is one message of the output plugin.
    XLogData {
        start_lsn: Lsn,
        /// By the server's clock.
        sent: Timestamp,
        body: &'a [u8],
    },
    /// The server has sent everything before `wal_end`.
    Keepalive {
        wal_end: Lsn,
        sent: Timestamp,
        reply_requested: bool,
    },
}

impl<'a> CopyMessage<'a> {
    pub fn read(body: &'a [u8]) -> Result<Self, ReadError> {
        let Some((&tag, rest)) = body.split_first() else {
            return Err(Reader::new("CopyData", body).fail("tag", Fault::Empty));
        };
        match tag {
            b'w' => {
                let mut reader = Reader::new("XLogData", rest);
                let start_lsn = reader.lsn("start LSN")?;
                reader.lsn("server LSN")?;
                let sent = reader.timestamp("server time")?;
                Ok(Self::XLogData {
                    start_lsn,
                    sent,
                    body: reader.rest(),
                })
            }
            b'k' => {
                let mut reader = Reader::new("Keepalive", rest);
                let wal_end = reader.lsn("WAL end")?;
                let sent = reader.timestamp("server time")?;
                let reply_requested = reader.u8("reply requested")? != 0;
                reader.finish()?;
                Ok(Self::Keepalive {
                    wal_end,
                    sent,
                    reply_requested,
                })
            }
            tag => Err(Reader::new("CopyData", rest).fail("tag", Fault::UnknownMessage { tag })),
        }
    }
}

/// What the relay tells the server. The server moves the slot to `flushed` and never back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusUpdate {
    /// Read from the socket; shown in `pg_stat_replication.write_lsn`.
    pub written: Lsn,
    /// Acknowledged by Kafka: the confirmed position.
    pub flushed: Lsn,
    /// Ask for a keepalive at once: the proof of life of an idle connection.
    pub reply_requested: bool,
}

impl StatusUpdate {
    /// Appends the whole CopyData frame.
    pub fn write(&self, now: Timestamp, out: &mut BytesMut) {
        const BODY_BYTES: i32 = 1 + 8 + 8 + 8 + 8 + 1;
        out.put_u8(b'd');
        out.put_i32(4 + BODY_BYTES);
        out.put_u8(b'r');
        out.put_u64(self.written.as_u64());
        out.put_u64(self.flushed.as_u64());
        out.put_u64(self.flushed.as_u64());
        out.put_i64(now.as_postgres_us());
        out.put_u8(u8::from(self.reply_requested));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn xlog_data_hands_out_the_plugins_message() {
        let mut bytes = vec![b'w'];
        bytes.extend(7_u64.to_be_bytes());
        bytes.extend([0; 8]);
        bytes.extend(5_i64.to_be_bytes());
        bytes.extend(b"B...");
        let expected = CopyMessage::XLogData {
            start_lsn: Lsn::new(7),
            sent: Timestamp::from_postgres_us(5),
            body: b"B...",
        };
        assert_eq!(CopyMessage::read(&bytes), Ok(expected));
    }

    #[test]
    fn a_keepalive_has_its_position_and_its_wish() {
        let mut bytes = vec![b'k'];
        bytes.extend(9_u64.to_be_bytes());
        bytes.extend(5_i64.to_be_bytes());
        bytes.push(1);
        let expected = CopyMessage::Keepalive {
            wal_end: Lsn::new(9),
            sent: Timestamp::from_postgres_us(5),
            reply_requested: true,
        };
        assert_eq!(CopyMessage::read(&bytes), Ok(expected));
        bytes.push(0);
        assert_eq!(
            CopyMessage::read(&bytes).unwrap_err().to_string(),
            "Keepalive: end: expected no more bytes, found 1"
        );
    }

    #[test]
    fn a_status_update_is_one_whole_frame() {
        let update = StatusUpdate {
            written: Lsn::new(9),
            flushed: Lsn::new(7),
            reply_requested: true,
        };
        let mut out = BytesMut::new();
        update.write(Timestamp::from_postgres_us(5), &mut out);
        let frame = wire::split(&out, wire::LOGIN_LIMIT_BYTES).unwrap().unwrap();
        assert_eq!((frame.tag, frame.length_bytes()), (b'd', out.len()));
        let mut body = vec![b'r'];
        for word in [9_u64, 7, 7, 5] {
            body.extend(word.to_be_bytes());
        }
        body.push(1);
        assert_eq!(frame.body, body);
    }
}
