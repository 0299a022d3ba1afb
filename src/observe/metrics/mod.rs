//! Every metric: its name, its type, its label, its help, in one place. `docs/metrics.md` is made of
//! this.

mod catalog;
mod elsewhere;
mod process;
mod reference;

use prometheus::core::Collector;
use prometheus::{
    Counter, Encoder, Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, Registry,
    TextEncoder,
};

use super::{Role, State};
use catalog::{Catalog, Definition, OneOf};
use process::Process;

/// Handed out as a struct; there is no global registry. Clones share the values.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    process: Process,
    state: OneOf,
    role: OneOf,
    pub blocked: OneOf,
    pub records_published: IntCounterVec,
    pub last_published_timestamp_seconds: Gauge,
    pub records_failed: IntCounterVec,
    pub records_dead_lettered: IntCounterVec,
    pub records_resent: IntCounter,
    pub rows_dropped: IntCounterVec,
    pub row_notes: IntCounterVec,
    pub transactions: IntCounter,
    pub largest_transaction_records: IntGauge,
    pub commit_to_confirm_seconds: Histogram,
    pub received_lsn_bytes: IntGauge,
    pub published_lsn_bytes: IntGauge,
    pub confirmed_lsn_bytes: IntGauge,
    pub lag_seconds: Gauge,
    pub in_flight_records: IntGauge,
    pub in_flight_bytes: IntGauge,
    pub in_flight_limit_bytes: IntGauge,
    pub in_flight_limit_records: IntGauge,
    pub backpressure_seconds: Counter,
    pub status_updates: IntCounter,
    pub reconnects: IntCounterVec,
    pub takeovers: IntCounterVec,
    pub unseen_ranges: IntCounter,
    pub snapshot_rows: IntGauge,
    pub snapshot_rows_read: IntCounter,
    pub housekeeping_rows: IntCounter,
    pub housekeeping_failures: IntCounter,
    pub housekeeping_completed_timestamp_seconds: Gauge,
    pub housekeeping_wanted: IntGauge,
    pub housekeeping_rows_kept: IntGauge,
    pub journal_writes: IntCounter,
    pub journal_lsn_bytes: IntGauge,
    pub slot_active: IntGauge,
    pub slot_retained_bytes: IntGauge,
    pub slot_confirmed_lag_bytes: IntGauge,
    pub slot_safe_wal_bytes: GaugeVec,
    pub slot_wal_status: OneOf,
    pub slot_invalidated: OneOf,
    pub slot_failover_wanted: IntGauge,
    pub slot_failover: IntGauge,
    pub slot_synced: IntGauge,
    pub slot_failover_standbys: IntGauge,
    pub slot_decoded_transactions: IntCounter,
    pub slot_decoded_bytes: IntCounter,
    pub slot_spilled_transactions: IntCounter,
    pub slot_spilled_bytes: IntCounter,
    pub slot_sampled_timestamp_seconds: Gauge,
    pub kafka_queue_records: IntGauge,
    pub kafka_queue_bytes: IntGauge,
    pub kafka_round_trip_seconds: Gauge,
    pub kafka_retries: IntCounter,
    pub kafka_reachable: IntGauge,
}

const WAL_STATUSES: [&str; 4] = ["reserved", "extended", "unreserved", "lost"];
/// `pg_replication_slots.invalidation_reason` up to PostgreSQL 18, and `conflicting`, which is all
/// that 16 says.
const INVALIDATIONS: [&str; 5] = [
    "wal_removed",
    "rows_removed",
    "wal_level_insufficient",
    "idle_timeout",
    "conflicting",
];
const OBSTACLES: [&str; 5] = ["source", "row", "delivery", "brokers", "journal"];

impl Metrics {
    /// Fails only when two metrics have one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let (metrics, _) = Self::build()?;
        Ok(metrics)
    }

    #[rustfmt::skip]
    fn build() -> Result<(Self, Vec<Definition>), prometheus::Error> {
        let mut c = Catalog::default();
        let build = c.gauge_by("version", "outboxd_build_info", "1, with the version.")?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Self {
            state: c.one_of("state", &State::ALL.map(State::as_str), "outboxd_state", "1 for the state the relay is in, 0 for the others.")?,
            role: c.one_of("role", &Role::ALL.map(Role::as_str), "outboxd_role", "1 for the role of this instance: `leader` holds the lead, `standby` waits for it, `none` has no session.")?,
            blocked: c.one_of("reason", &OBSTACLES, "outboxd_blocked", "1 for each obstacle: `source` (table, publication, slot), `row` (cannot be routed), `delivery` (a record is refused), `brokers` (none can be reached), `journal` (the position cannot be written down).")?,
            records_published: c.counter_by("topic", "outboxd_records_published_total", "Records that Kafka has acknowledged, repeats included.")?,
            last_published_timestamp_seconds: c.float_gauge("outboxd_last_published_timestamp_seconds", "When Kafka last acknowledged a record, Unix time; 0 before the first.")?,
            records_failed: c.counter_by("reason", "outboxd_records_failed_total", "Attempts to deliver a record that failed.")?,
            records_dead_lettered: c.counter_by("reason", "outboxd_records_dead_lettered_total", "Events that went to the dead-letter topic instead of their own.")?,
            records_resent: c.counter("outboxd_records_resent_total", "Records sent again after a failed delivery, with those behind them.")?,
            rows_dropped: c.counter_by("reason", "outboxd_rows_dropped_total", "Changes that the router's rules do not publish.")?,
            row_notes: c.counter_by("note", "outboxd_row_notes_total", "Published rows with something noteworthy about them.")?,
            transactions: c.counter("outboxd_transactions_total", "Transactions read to their commit.")?,
            largest_transaction_records: c.gauge("outboxd_largest_transaction_rows", "Rows of the largest transaction since the start.")?,
            commit_to_confirm_seconds: c.seconds_histogram("outboxd_commit_to_confirm_seconds", "From a transaction's commit to its confirmation after Kafka's acknowledgement, by the server's clock.")?,
            received_lsn_bytes: c.gauge("outboxd_received_lsn_bytes", "Position in the WAL that was read, in bytes.")?,
            published_lsn_bytes: c.gauge("outboxd_published_lsn_bytes", "Position in the WAL before which Kafka has acknowledged everything, in bytes.")?,
            confirmed_lsn_bytes: c.gauge("outboxd_confirmed_lsn_bytes", "Position in the WAL that was last confirmed to the server, in bytes.")?,
            lag_seconds: c.float_gauge("outboxd_lag_seconds", "Age of the oldest commit that is not confirmed, by the server's clock; 0 when caught up.")?,
            in_flight_records: c.gauge("outboxd_in_flight_records", "Records that Kafka has not acknowledged, and those kept behind them.")?,
            in_flight_bytes: c.gauge("outboxd_in_flight_bytes", "Memory of these records.")?,
            in_flight_limit_bytes: c.gauge("outboxd_in_flight_limit_bytes", "Bound of outboxd_in_flight_bytes: beyond it nothing is read from PostgreSQL.")?,
            in_flight_limit_records: c.gauge("outboxd_in_flight_limit_records", "The same for outboxd_in_flight_records.")?,
            backpressure_seconds: c.seconds_counter("outboxd_backpressure_seconds_total", "Time in which nothing was read because the bound was reached or a delivery had failed.")?,
            status_updates: c.counter("outboxd_status_updates_total", "Status updates sent to the server.")?,
            reconnects: c.counter_by("reason", "outboxd_reconnects_total", "Sessions with PostgreSQL that ended, or could not be had, and are tried again.")?,
            takeovers: c.counter_by("reason", "outboxd_takeovers_total", "Times this instance got the lead after waiting for it: `other_instance` gave it free or vanished, or `own_session`, the last one of this instance, was over for the server too.")?,
            unseen_ranges: c.counter("outboxd_unseen_ranges_total", "Times at which rows may have been committed that no stream has: a table was not published for a while, or a slot was given up. The log has the positions.")?,
            snapshot_rows: c.gauge("outboxd_snapshot_rows", "Rows that the last snapshot had to publish; 0 without one.")?,
            snapshot_rows_read: c.counter("outboxd_snapshot_rows_read_total", "Rows that snapshots have read.")?,
            housekeeping_rows: c.counter("outboxd_housekeeping_rows_deleted_total", "Retained rows that were deleted because their time was over.")?,
            housekeeping_failures: c.counter("outboxd_housekeeping_failures_total", "Attempts to delete such rows that failed; each is made again.")?,
            housekeeping_completed_timestamp_seconds: c.float_gauge("outboxd_housekeeping_completed_timestamp_seconds", "When no such row was left, Unix time; 0 before the first time, and where housekeeping.retain is not set.")?,
            housekeeping_wanted: c.gauge("outboxd_housekeeping_wanted", "1 where housekeeping.retain is set, also while this instance does not delete (it waits, is blocked, rests, or publishes nothing).")?,
            housekeeping_rows_kept: c.gauge("outboxd_housekeeping_rows_kept", "Such rows that the last pass over the tables has tried to delete and that are still there: a trigger, a rule or row security keeps them. Each such pass is a failure, too.")?,
            journal_writes: c.counter("outboxd_journal_writes_total", "Entries of the position journal that Kafka has acknowledged.")?,
            journal_lsn_bytes: c.gauge("outboxd_journal_lsn_bytes", "Position in the WAL that the position journal has, in bytes; 0 without a journal.")?,
            slot_active: c.gauge("outboxd_slot_active", "1 while a walsender uses the slot, as the server sees it.")?,
            slot_retained_bytes: c.gauge("outboxd_slot_retained_bytes", "WAL that the slot keeps the server from removing (from restart_lsn); 0 without a slot.")?,
            slot_confirmed_lag_bytes: c.gauge("outboxd_slot_confirmed_lag_bytes", "WAL behind the server's position that is not confirmed (from confirmed_flush_lsn).")?,
            slot_safe_wal_bytes: c.float_gauge_by("slot", "outboxd_slot_safe_wal_bytes", "WAL that can still be written before the slot may be invalidated; absent where max_slot_wal_keep_size has no limit.")?,
            slot_wal_status: c.one_of("status", &WAL_STATUSES, "outboxd_slot_wal_status", "1 for pg_replication_slots.wal_status, 0 for the others.")?,
            slot_invalidated: c.one_of("reason", &INVALIDATIONS, "outboxd_slot_invalidated", "1 for the reason for which the server has invalidated the slot, 0 for the others.")?,
            slot_failover_wanted: c.gauge("outboxd_slot_failover_wanted", "1 where slot.failover is set.")?,
            slot_failover: c.gauge("outboxd_slot_failover", "1 where the slot has the failover property (PostgreSQL 17 and later).")?,
            slot_synced: c.gauge("outboxd_slot_synced", "1 where the slot is a standby's copy, kept in step from the primary.")?,
            slot_failover_standbys: c.gauge("outboxd_slot_failover_standbys", "Physical slots in use on this server: standbys that can keep a copy of a failover slot.")?,
            slot_decoded_transactions: c.counter("outboxd_slot_decoded_transactions_total", "Transactions that the server has decoded for the slot (pg_stat_replication_slots.total_txns).")?,
            slot_decoded_bytes: c.counter("outboxd_slot_decoded_bytes_total", "Bytes of changes that it has decoded (total_bytes).")?,
            slot_spilled_transactions: c.counter("outboxd_slot_spilled_transactions_total", "Transactions that it had to write to disk because they exceeded logical_decoding_work_mem (spill_txns).")?,
            slot_spilled_bytes: c.counter("outboxd_slot_spilled_bytes_total", "Bytes of these (spill_bytes).")?,
            slot_sampled_timestamp_seconds: c.float_gauge("outboxd_slot_sampled_timestamp_seconds", "When the server last answered a question about the slot, Unix time; 0 before the first answer.")?,
            kafka_queue_records: c.gauge("outboxd_kafka_queue_records", "Records in librdkafka's queue.")?,
            kafka_queue_bytes: c.gauge("outboxd_kafka_queue_bytes", "Bytes in librdkafka's queue.")?,
            kafka_round_trip_seconds: c.float_gauge("outboxd_kafka_round_trip_seconds", "Average round trip to the slowest broker in librdkafka's last interval.")?,
            kafka_retries: c.counter("outboxd_kafka_retries_total", "Requests that librdkafka has sent again.")?,
            kafka_reachable: c.gauge("outboxd_kafka_reachable", "1 once a broker has answered; 0 before that, and after every broker was lost until one answers again.")?,
            process: Process::register(&mut c)?,
            registry: c.registry,
        };
        metrics.set_state(State::Starting);
        metrics.set_role(Role::None);
        Ok((metrics, c.definitions))
    }

    pub fn set_state(&self, state: State) {
        self.state.set(Some(state.as_str()));
    }

    pub fn set_role(&self, role: Role) {
        self.role.set(Some(role.as_str()));
    }

    /// Acknowledged records by topic.
    pub(super) fn topics(&self) -> Vec<(String, u64)> {
        let families = self.records_published.collect();
        let mut topics: Vec<_> = families
            .iter()
            .flat_map(|family| family.get_metric())
            .map(|metric| {
                let topic = metric.get_label().first();
                let topic = topic.map_or_else(String::new, |label| label.value().to_owned());
                (topic, metric.get_counter().get_value() as u64)
            })
            .collect();
        topics.sort_by(|(one, ones), (other, others)| others.cmp(ones).then(one.cmp(other)));
        topics
    }

    /// Prometheus' text format.
    pub fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        self.process.look();
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out)?;
        Ok(out)
    }
}

/// Series that are there before anything has happened: a rate over them starts at the first event.
pub fn begin_at_zero<'a>(counter: &IntCounterVec, labels: impl IntoIterator<Item = &'a str>) {
    for label in labels {
        counter.with_label_values(&[label]).inc_by(0);
    }
}

/// The counter shows what somebody else counts. Where that one began anew, so does the counter,
/// which Prometheus takes for a restart.
pub fn follow(counter: &IntCounter, count: u64) {
    if count < counter.get() {
        counter.reset();
    }
    counter.inc_by(count - counter.get());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(metrics: &Metrics, start: &str) -> Vec<String> {
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(start));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn exactly_one_state_and_one_role_are_set() {
        let metrics = Metrics::new().unwrap();
        metrics.set_state(State::Blocked);
        metrics.set_role(Role::Leader);
        let set = |start| {
            let mut lines = lines(&metrics, start);
            lines.retain(|line| line.ends_with(" 1"));
            lines
        };
        assert_eq!(
            set("outboxd_state{"),
            ["outboxd_state{state=\"blocked\"} 1"]
        );
        assert_eq!(set("outboxd_role{"), ["outboxd_role{role=\"leader\"} 1"]);
    }

    #[test]
    fn a_word_of_the_server_that_is_not_known_shows_and_goes() {
        let metrics = Metrics::new().unwrap();
        metrics.slot_invalidated.set(Some("comet"));
        let found = lines(&metrics, "outboxd_slot_invalidated{reason=\"comet\"}");
        assert_eq!(found, ["outboxd_slot_invalidated{reason=\"comet\"} 1"]);
        metrics.slot_invalidated.set(None);
        let mut found = lines(&metrics, "outboxd_slot_invalidated{");
        found.retain(|line| !line.ends_with(" 0"));
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_counter_follows_up_and_starts_over() {
        let metrics = Metrics::new().unwrap();
        let counted: Vec<_> = [3, 3, 7, 2]
            .into_iter()
            .map(|count| {
                follow(&metrics.kafka_retries, count);
                metrics.kafka_retries.get()
            })
            .collect();
        assert_eq!(counted, [3, 3, 7, 2]);
    }

    #[test]
    fn what_is_known_in_advance_is_there_before_the_first_event() {
        let metrics = Metrics::new().unwrap();
        begin_at_zero(&metrics.rows_dropped, ["delete"]);
        assert_eq!(
            lines(&metrics, "outboxd_rows_dropped_total{"),
            ["outboxd_rows_dropped_total{reason=\"delete\"} 0"]
        );
        assert_eq!(
            lines(&metrics, "outboxd_status_updates_total "),
            ["outboxd_status_updates_total 0"]
        );
    }

    #[test]
    fn topics_are_counted_the_busiest_first() {
        let metrics = Metrics::new().unwrap();
        for (topic, count) in [("a", 1), ("c", 5), ("b", 5)] {
            let counter = metrics.records_published.with_label_values(&[topic]);
            counter.inc_by(count);
        }
        let expected = [("b", 5), ("c", 5), ("a", 1)].map(|(topic, n)| (topic.to_owned(), n));
        assert_eq!(metrics.topics(), expected);
    }
}
