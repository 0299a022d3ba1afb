//! The walsender session: commands first, then the stream.

use std::time::Duration;

use postgres_protocol::message::frontend;
use tokio::time::Instant;

use super::canceller::{CancelOnDrop, Canceller};
use super::channel::Channel;
use super::connect::{self, Greeting};
use super::sessions::Alive;
use super::slot::SlotName;
use super::{Host, PostgresError, Sessions, sqlstate};
use crate::lsn::Lsn;
use crate::timestamp::Timestamp;
use crate::wire;
use crate::wire::{
    Backend, CopyMessage, OneLine, ServerMessage, StartReplication, StatusUpdate,
    create_temporary_slot,
};

/// One row of a simple query: text or null by column.
pub type Row = Vec<Option<String>>;

/// A connection with `replication=database` that does not stream yet.
#[derive(Debug)]
pub struct ReplicationSession {
    channel: Channel,
    greeting: Greeting,
    host: Host,
    /// A query was sent whose ReadyForQuery has not come.
    unanswered: bool,
    wal_sender_timeout: Duration,
    #[expect(dead_code, reason = "held, not read")]
    alive: Option<Alive>,
}

/// `IDENTIFY_SYSTEM`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemIdentity {
    pub system_id: String,
    pub timeline: u32,
    pub wal_lsn: Lsn,
}

/// What `CREATE_REPLICATION_SLOT` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedSlot {
    pub consistent_point: Lsn,
    pub snapshot_name: String,
}

impl ReplicationSession {
    pub(super) fn new(channel: Channel, greeting: Greeting, host: Host) -> Self {
        Self {
            channel,
            greeting,
            host,
            unanswered: false,
            wal_sender_timeout: Duration::ZERO,
            alive: None,
        }
    }

    /// Until it streams: the server's words to a stream are waited for by nobody.
    pub(super) fn listed(self, sessions: &Sessions) -> Self {
        Self {
            alive: Some(sessions.add(self.canceller())),
            ..self
        }
    }

    /// The host that was taken: ordinary sessions of the same start go there too.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The rows of one statement or replication command. After a refusal the session is in step
    /// again and can be used; so it is after a query that was given up while it waited.
    pub async fn query(&mut self, text: &str) -> Result<Vec<Row>, PostgresError> {
        if self.unanswered {
            // Whatever became of it: its answer must not be taken for that of the next.
            self.answer().await.map(drop).or_else(refusal_only)?;
        }
        frontend::query(text, self.channel.output())
            .map_err(|source| PostgresError::Io { source })?;
        self.unanswered = true;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<Vec<Row>, PostgresError> {
        let mut rows = Vec::new();
        let mut refusal = None;
        loop {
            let done = self.channel.receive(|message, tag| {
                match message {
                    Backend::DataRow(columns) => rows.push(
                        columns
                            .into_iter()
                            .map(|column| column.map(|c| String::from_utf8_lossy(c).into_owned()))
                            .collect(),
                    ),
                    Backend::Error(message) if message.severity == "FATAL" => {
                        return Err(connect::server_error(message));
                    }
                    Backend::Error(message) => refusal = Some(message),
                    Backend::ReadyForQuery => return Ok(true),
                    Backend::RowDescription(_)
                    | Backend::CommandComplete
                    | Backend::EmptyQuery
                    | Backend::Notice(_)
                    | Backend::ParameterStatus { .. }
                    | Backend::Other { .. } => {}
                    _ => return Err(PostgresError::unexpected("the rows of a query", tag)),
                }
                Ok(false)
            });
            if done.await? {
                self.unanswered = false;
                return match refusal {
                    Some(message) => Err(connect::server_error(message)),
                    None => Ok(rows),
                };
            }
        }
    }

    /// The first column of the first row.
    pub async fn query_value(&mut self, text: &str) -> Result<Option<String>, PostgresError> {
        let rows = self.query(text).await?;
        Ok(rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next())
            .flatten())
    }

    pub async fn identify_system(&mut self) -> Result<SystemIdentity, PostgresError> {
        let rows = self.query("IDENTIFY_SYSTEM").await?;
        let mut columns = rows.into_iter().next().unwrap_or_default().into_iter();
        let mut next = || columns.next().flatten().unwrap_or_default();
        let (system_id, timeline, wal_lsn) = (next(), next(), next());
        match (timeline.parse(), wal_lsn.parse()) {
            (Ok(timeline), Ok(wal_lsn)) => Ok(SystemIdentity {
                system_id,
                timeline,
                wal_lsn,
            }),
            _ => Err(PostgresError::unexpected(
                "the answer to IDENTIFY_SYSTEM",
                b'D',
            )),
        }
    }

    /// Where the server's history left `timeline`, one that it comes from.
    pub async fn left_timeline_at(
        &mut self,
        own: u32,
        timeline: u32,
    ) -> Result<Option<Lsn>, PostgresError> {
        let rows = self.query(&format!("TIMELINE_HISTORY {own}")).await?;
        let content = rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().nth(1));
        Ok(left_timeline(
            &content.flatten().unwrap_or_default(),
            timeline,
        ))
    }

    /// Makes the session's life end with the relay's, and not earlier.
    ///
    /// A role's own timeouts would end the wait for the lock or the idle session of a snapshot. A
    /// relay that vanishes while the session does not stream yet is noticed by the server's own
    /// keepalives. A server that does not know a setting (before 17, or without the kernel's
    /// support) is no reason to stop.
    pub async fn prepare(&mut self, wal_sender_timeout: Duration) -> Result<(), PostgresError> {
        let timeout_ms = wal_sender_timeout.as_millis();
        self.query(&format!("SET wal_sender_timeout = '{timeout_ms}ms'"))
            .await?;
        self.wal_sender_timeout = wal_sender_timeout;
        for setting in [
            "SET statement_timeout = 0",
            "SET lock_timeout = 0",
            "SET idle_session_timeout = 0",
            "SET idle_in_transaction_session_timeout = 0",
            "SET transaction_timeout = 0",
            "SET client_connection_check_interval = '2s'",
            "SET tcp_keepalives_idle = '5s'",
            "SET tcp_keepalives_interval = '2s'",
            "SET tcp_keepalives_count = 3",
        ] {
            self.query(setting).await.map(drop).or_else(refusal_only)?;
        }
        Ok(())
    }

    /// Ends when the session does, with the reason. While it is idle nothing else is said on it.
    /// Cancel-safe.
    pub async fn broken(&mut self) -> PostgresError {
        loop {
            let heard = self.channel.receive(|message, _| match message {
                Backend::Error(message) => Err(connect::server_error(message)),
                _ => Ok(()),
            });
            if let Err(error) = heard.await {
                return error;
            }
        }
    }

    pub async fn try_lock(&mut self, key: i64) -> Result<bool, PostgresError> {
        let got = self
            .query_value(&format!("SELECT pg_try_advisory_lock({key})"))
            .await?;
        Ok(got.as_deref() == Some("t"))
    }

    /// The backend that holds the lock now, if any does.
    pub async fn lock_holder(&mut self, key: i64) -> Result<Option<i32>, PostgresError> {
        let holder = format!(
            "SELECT pid FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
                AND (classid::pg_catalog.int8 << 32) | objid::pg_catalog.int8 = {key} \
                AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())"
        );
        let pid = self.query_value(&holder).await?;
        Ok(pid.and_then(|pid| pid.parse().ok()))
    }

    /// The server's process for this session.
    pub fn backend_pid(&self) -> i32 {
        self.greeting.process_id
    }

    /// Waits until no other session holds the lock, as long as that takes. The lock lives and dies
    /// with this connection, so whoever holds it is the one that can stream.
    ///
    /// A relay that is frozen when the lock comes to it must not keep it from the others: until
    /// this one has shown that it noticed, the server may end the session for idleness. A waiting
    /// session is not idle.
    pub async fn lock(&mut self, key: i64) -> Result<(), PostgresError> {
        let timeout_ms = self.wal_sender_timeout.as_millis();
        let guard = format!("SET idle_session_timeout = '{timeout_ms}ms'");
        self.query(&guard).await.map(drop).or_else(refusal_only)?;
        self.query(&format!("SELECT pg_advisory_lock({key})"))
            .await?;
        let unguard = "SET idle_session_timeout = 0";
        self.query(unguard).await.map(drop).or_else(refusal_only)
    }

    /// Ends what this session waits for in the server, from outside.
    pub fn canceller(&self) -> Canceller {
        let host = self.channel.socket().peer(&self.host);
        Canceller::new(host, self.greeting.process_id, self.greeting.secret_key)
    }

    /// Waits for the transactions that are open now.
    pub async fn create_temporary_slot(
        &mut self,
        name: &str,
    ) -> Result<CreatedSlot, PostgresError> {
        let waiting = CancelOnDrop::new(self.canceller());
        let rows = self.query(&create_temporary_slot(name)).await;
        waiting.disarm();
        let rows = rows?;
        let mut columns = rows
            .into_iter()
            .next()
            .unwrap_or_default()
            .into_iter()
            .skip(1);
        let mut next = || columns.next().flatten().unwrap_or_default();
        let (consistent_point, snapshot_name) = (next(), next());
        match consistent_point.parse() {
            Ok(consistent_point) => Ok(CreatedSlot {
                consistent_point,
                snapshot_name,
            }),
            Err(_) => Err(PostgresError::unexpected("a new slot's position", b'D')),
        }
    }

    pub async fn start(
        mut self,
        start: &StartReplication<'_>,
    ) -> Result<ReplicationStream, PostgresError> {
        frontend::query(&start.command(), self.channel.output())
            .map_err(|source| PostgresError::Io { source })?;
        let mut refusal = None;
        loop {
            let streaming = self.channel.receive(|message, tag| match message {
                Backend::CopyBoth => Ok(true),
                Backend::Error(message) => {
                    refusal = Some(message);
                    Ok(false)
                }
                Backend::Notice(_) | Backend::ParameterStatus { .. } => Ok(false),
                _ => Err(PostgresError::unexpected("the start of the stream", tag)),
            });
            let streaming = streaming.await?;
            if let Some(message) = refusal.take() {
                return Err(connect::server_error(message));
            }
            if streaming {
                break;
            }
        }
        Ok(ReplicationStream {
            channel: self.channel,
            heard_at: Instant::now(),
        })
    }
}

/// A line of a history file: a timeline, where it was left, why.
fn left_timeline(history: &str, timeline: u32) -> Option<Lsn> {
    let mut lines = history.lines().map(str::split_whitespace);
    lines.find_map(|mut words| {
        let of_it = words.next()?.parse() == Ok(timeline);
        of_it.then(|| words.next()?.parse().ok())?
    })
}

/// The server said no, and that may be.
fn refusal_only<T: Default>(error: PostgresError) -> Result<T, PostgresError> {
    match error {
        PostgresError::Server(message) if message.severity == "ERROR" => Ok(T::default()),
        other => Err(other),
    }
}

/// The stream. Reading and writing are independent: while nothing is read because Kafka is slow,
/// status updates still go out ([`ReplicationStream::progress`]).
#[derive(Debug)]
pub struct ReplicationStream {
    channel: Channel,
    heard_at: Instant,
}

/// About a hundred status updates.
const QUEUED_LIMIT_BYTES: usize = 4096;

impl ReplicationStream {
    /// Waits until something moved: while `reading`, until more bytes have come; else until what is
    /// queued is written. So status updates go out also while nothing is read. Returns how many
    /// bytes were read. Cancel-safe.
    pub async fn progress(&mut self, reading: bool) -> Result<usize, PostgresError> {
        if reading {
            let read = self.channel.fill().await?;
            self.heard_at = Instant::now();
            return Ok(read);
        }
        if self.channel.has_output() {
            self.channel.flush().await?;
            return Ok(0);
        }
        std::future::pending().await
    }

    /// Counts as heard from now on: nothing was read for a while, by choice.
    pub fn hear(&mut self) {
        self.heard_at = Instant::now();
    }

    /// When bytes came last: the proof that the server lives.
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// Hands the next whole message in the buffer to `take`; `None` while bytes are missing.
    pub fn next<T>(
        &mut self,
        take: impl FnOnce(CopyMessage<'_>) -> T,
    ) -> Result<Option<T>, PostgresError> {
        while let Some(length_bytes) = self.channel.next_frame_bytes()? {
            let taken = self.channel.take_frame(length_bytes);
            let (tag, body) = taken.parts();
            match Backend::read(tag, body)? {
                Backend::CopyData(data) => return Ok(Some(take(CopyMessage::read(data)?))),
                Backend::Error(message) => return Err(stream_error(message)),
                Backend::Notice(message) => notice(message)?,
                // A server that stops leaves out CopyDone.
                Backend::CopyDone | Backend::CommandComplete => {
                    return Err(PostgresError::StreamEnded);
                }
                Backend::ParameterStatus { .. } | Backend::Other { .. } => {}
                _ => return Err(PostgresError::unexpected("a message of the stream", tag)),
            }
        }
        Ok(None)
    }

    /// Queues a status update; `progress` sends it. While a server takes nothing the queue does not
    /// grow: what it will not read need not be said, and a later update says more.
    pub fn queue_status(&mut self, update: StatusUpdate, now: Timestamp) {
        if self.channel.output().len() < QUEUED_LIMIT_BYTES {
            update.write(now, self.channel.output());
        }
    }

    /// The last status update, then the end of the copy from both sides: when this returns the
    /// server has taken the position into the slot. The slot that is to be dropped is dropped under
    /// the session's own lead.
    pub async fn finish(
        mut self,
        last: StatusUpdate,
        now: Timestamp,
        drop_slot: Option<&SlotName>,
    ) -> Result<(), PostgresError> {
        last.write(now, self.channel.output());
        frontend::copy_done(self.channel.output());
        self.until_ready("the end of the stream").await?;
        if let Some(name) = drop_slot {
            let command = wire::drop_slot(name.as_str());
            frontend::query(&command, self.channel.output())
                .map_err(|source| PostgresError::Io { source })?;
            self.until_ready("the end of the slot").await?;
        }
        frontend::terminate(self.channel.output());
        self.channel.flush().await
    }

    async fn until_ready(&mut self, expected: &'static str) -> Result<(), PostgresError> {
        loop {
            let ready = self.channel.receive(|message, tag| match message {
                Backend::ReadyForQuery => Ok(true),
                Backend::CopyData(_)
                | Backend::CopyDone
                | Backend::CommandComplete
                | Backend::Notice(_)
                | Backend::ParameterStatus { .. }
                | Backend::Other { .. } => Ok(false),
                Backend::Error(message) => Err(connect::server_error(message)),
                _ => Err(PostgresError::unexpected(expected, tag)),
            });
            if ready.await? {
                return Ok(());
            }
        }
    }
}

/// A publication's row filter works on the rows' values, and its errors quote them.
fn stream_error(mut message: Box<ServerMessage>) -> PostgresError {
    if message.sqlstate.starts_with("22") {
        let meaning = sqlstate::meaning(&message.sqlstate);
        message.message = format!("{meaning}; the server's words may quote values of a row");
        (message.detail, message.hint) = (None, None);
    }
    PostgresError::Server(message)
}

/// PostgreSQL 18 answers a publication that it cannot load with this warning and leaves its rows
/// out; earlier servers fail with 42704. The text may be in any language, so the function of the
/// server's source counts, and where that is missing the code alone: better to stop for another
/// reason than to miss rows.
fn notice(message: Box<ServerMessage>) -> Result<(), PostgresError> {
    let routine = message.routine.as_deref();
    if message.sqlstate == sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE
        && matches!(routine, None | Some("LoadPublications"))
    {
        return Err(PostgresError::PublicationSkipped(message));
    }
    tracing::info!(
        severity = %OneLine(&message.severity),
        "PostgreSQL says: {}",
        OneLine(&message.message)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_file_tells_where_each_timeline_was_left() {
        let history = "1\t0/3000158\tno recovery target specified\n\n2\t1/A0\tbefore 2026-01-01\n";
        let left = |timeline| left_timeline(history, timeline);
        assert_eq!(left(1), Some(Lsn::new(0x300_0158)));
        assert_eq!(left(2), Some(Lsn::new((1 << 32) + 0xA0)));
        assert_eq!((left(3), left_timeline("", 1)), (None, None));
    }

    #[test]
    fn an_error_of_a_row_filter_is_told_without_the_servers_words() {
        let said = |sqlstate: &str| {
            let message = ServerMessage {
                severity: "ERROR".into(),
                sqlstate: sqlstate.into(),
                message: "invalid input syntax for type integer: \"hunter2\"".into(),
                detail: Some("hunter2".into()),
                hint: None,
                routine: None,
            };
            let error = stream_error(Box::new(message));
            (error.to_string(), error.detail())
        };
        let text = "ERROR 22P02: invalid text representation; the server's words may quote values of a row";
        assert_eq!(said("22P02"), (text.to_owned(), None));
        assert_eq!(said("57P01").1.as_deref(), Some("hunter2"));
    }
}
