//! What others call what we measure: for those who come with dashboards and alerts.

/// One of their names (or several, separated by commas), the metric that answers the same question,
/// and a remark.
pub(super) type Row = (&'static str, Option<&'static str>, &'static str);

/// `debezium.postgres:type=connector-metrics,context=streaming`: every attribute of 3.6.1.
pub(super) const DEBEZIUM_STREAMING: &[Row] = &[
    (
        "Connected",
        Some("outboxd_role"),
        "`role=\"leader\"`: the one instance with a replication session",
    ),
    (
        "MilliSecondsBehindSource",
        Some("outboxd_lag_seconds"),
        "0 while caught up; Debezium keeps the last value",
    ),
    (
        "MilliSecondsBehindSourceMinValue, MilliSecondsBehindSourceMaxValue, MilliSecondsBehindSourceAverageValue, MilliSecondsBehindSourceP50, MilliSecondsBehindSourceP95, MilliSecondsBehindSourceP99",
        Some("outboxd_commit_to_confirm_seconds"),
        "a histogram up to Kafka's acknowledgement: `histogram_quantile(0.95, …)`",
    ),
    (
        "MilliSecondsSinceLastEvent",
        Some("outboxd_last_published_timestamp_seconds"),
        "`time() - …`",
    ),
    (
        "NumberOfCommittedTransactions",
        Some("outboxd_transactions_total"),
        "",
    ),
    (
        "SourceEventPosition",
        Some("outboxd_received_lsn_bytes"),
        "`/status` has it as text",
    ),
    (
        "TotalNumberOfEventsSeen, TotalNumberOfCreateEventsSeen, NumberOfCreateEventsSeen",
        Some("outboxd_records_published_total"),
        "acknowledged by Kafka, by topic",
    ),
    (
        "TotalNumberOfUpdateEventsSeen, TotalNumberOfDeleteEventsSeen, NumberOfUpdateEventsSeen, NumberOfDeleteEventsSeen, NumberOfTruncateEventsSeen, NumberOfEventsFiltered",
        Some("outboxd_rows_dropped_total"),
        "`reason` is `update`, `delete`, `truncate` or `other_table`",
    ),
    (
        "NumberOfUnchangedEventsSkipped",
        None,
        "an outbox row is published once, when it is inserted",
    ),
    (
        "NumberOfErroneousEvents",
        Some("outboxd_records_failed_total"),
        "by `reason`; none of them is skipped",
    ),
    (
        "CurrentQueueSizeInBytes",
        Some("outboxd_in_flight_bytes"),
        "records that Kafka has not acknowledged",
    ),
    (
        "MaxQueueSizeInBytes",
        Some("outboxd_in_flight_limit_bytes"),
        "",
    ),
    (
        "QueueTotalCapacity",
        Some("outboxd_in_flight_limit_records"),
        "",
    ),
    (
        "QueueRemainingCapacity",
        Some("outboxd_in_flight_records"),
        "as the difference to `outboxd_in_flight_limit_records`",
    ),
    (
        "CapturedTables",
        None,
        "the log names them when a stream begins",
    ),
    ("LastEvent, LastTransactionId", None, "not kept"),
];

/// `context=snapshot`, likewise.
pub(super) const DEBEZIUM_SNAPSHOT: &[Row] = &[
    (
        "SnapshotRunning",
        Some("outboxd_state"),
        "`state=\"snapshotting\"`",
    ),
    (
        "SnapshotCompleted, SnapshotSkipped, SnapshotAborted",
        Some("outboxd_state"),
        "`state=\"streaming\"` comes after it; a snapshot that broke off is taken anew",
    ),
    (
        "RowsScanned, TotalNumberOfEventsSeen",
        Some("outboxd_snapshot_rows_read_total"),
        "",
    ),
    (
        "TotalTableCount, RemainingTableCount",
        Some("outboxd_snapshot_rows"),
        "counted in rows: how many there are to read",
    ),
    (
        "SnapshotDurationInSeconds",
        None,
        "`/status` has `state_since`, and the log has both ends",
    ),
    (
        "SnapshotPaused, SnapshotPausedDurationInSeconds",
        Some("outboxd_backpressure_seconds_total"),
        "nothing pauses one but a slow Kafka",
    ),
    (
        "MilliSecondsSinceLastEvent",
        Some("outboxd_last_published_timestamp_seconds"),
        "`time() - …`",
    ),
    (
        "NumberOfEventsFiltered, NumberOfErroneousEvents",
        Some("outboxd_records_failed_total"),
        "as while streaming",
    ),
    (
        "TotalNumberOfCreateEventsSeen, TotalNumberOfUpdateEventsSeen, TotalNumberOfDeleteEventsSeen",
        Some("outboxd_records_published_total"),
        "a snapshot's rows are among them",
    ),
    (
        "CurrentQueueSizeInBytes, MaxQueueSizeInBytes, QueueTotalCapacity, QueueRemainingCapacity",
        Some("outboxd_in_flight_bytes"),
        "as while streaming",
    ),
    ("CapturedTables, LastEvent", None, "not kept"),
    (
        "ChunkId, ChunkFrom, ChunkTo, TableFrom, TableTo, TableChunkCounts, TableChunksCompletedCounts",
        None,
        "there are no chunks: one cursor reads a table",
    ),
];

/// Debezium's MBeans say nothing of the slot; postgres_exporter does (`replication_slots` and
/// `stat_replication` collectors).
pub(super) const POSTGRES_EXPORTER: &[Row] = &[
    (
        "pg_replication_slots_active, pg_replication_slot_slot_is_active",
        Some("outboxd_slot_active"),
        "",
    ),
    (
        "pg_replication_slots_pg_wal_lsn_diff",
        Some("outboxd_slot_retained_bytes"),
        "",
    ),
    (
        "pg_replication_slot_slot_confirmed_flush_lsn",
        Some("outboxd_slot_confirmed_lag_bytes"),
        "as a distance to the server's own position",
    ),
    (
        "pg_replication_slot_slot_current_wal_lsn",
        None,
        "`outboxd_slot_confirmed_lag_bytes` is the difference",
    ),
    (
        "pg_replication_slot_safe_wal_size_bytes",
        Some("outboxd_slot_safe_wal_bytes"),
        "",
    ),
    (
        "pg_replication_slot_wal_status",
        Some("outboxd_slot_wal_status"),
        "",
    ),
];
