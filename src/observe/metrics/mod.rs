//! Every metric: its name, its type, its label, its help, in one place. `docs/metrics.md` is made of
//! this.

mod catalog;
mod reference;

use prometheus::{
    Counter, Encoder, Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Registry, TextEncoder,
};

use super::State;
use catalog::{Catalog, Definition};

/// Handed out as a struct; there is no global registry. Clones share the values.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    state: IntGaugeVec,
    pub records_published: IntCounterVec,
    pub records_failed: IntCounterVec,
    pub records_resent: IntCounter,
    pub rows_dropped: IntCounterVec,
    pub row_notes: IntCounterVec,
    pub transactions: IntCounter,
    pub largest_transaction_records: IntGauge,
    pub commit_to_confirm_seconds: Histogram,
    pub received_lsn_bytes: IntGauge,
    pub confirmed_lsn_bytes: IntGauge,
    pub lag_seconds: Gauge,
    pub in_flight_records: IntGauge,
    pub in_flight_bytes: IntGauge,
    pub in_flight_limit_bytes: IntGauge,
    pub in_flight_limit_records: IntGauge,
    pub backpressure_seconds: Counter,
    pub status_updates: IntCounter,
    pub reconnects: IntCounterVec,
    pub takeovers: IntCounter,
    pub unseen_ranges: IntCounter,
    pub slot_active: IntGauge,
    pub slot_retained_bytes: IntGauge,
    pub slot_confirmed_lag_bytes: IntGauge,
    pub slot_safe_wal_bytes: GaugeVec,
    pub slot_wal_status: IntGaugeVec,
    pub slot_sampled_timestamp_seconds: Gauge,
    pub kafka_queue_records: IntGauge,
    pub kafka_queue_bytes: IntGauge,
    pub kafka_round_trip_seconds: Gauge,
    pub kafka_reachable: IntGauge,
}

const WAL_STATUSES: [&str; 4] = ["reserved", "extended", "unreserved", "lost"];

impl Metrics {
    /// Fails only when two metrics have one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let (metrics, _) = Self::build()?;
        Ok(metrics)
    }

    fn build() -> Result<(Self, Vec<Definition>), prometheus::Error> {
        let mut c = Catalog::default();
        let build = c.gauge_by("version", "outboxd_build_info", "1, with the version.")?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Self {
            state: c.gauge_by("state", "outboxd_state", "1 for the state the relay is in, 0 for the others.")?,
            records_published: c.counter_by("topic", "outboxd_records_published_total", "Records that Kafka has acknowledged, repeats included.")?,
            records_failed: c.counter_by("reason", "outboxd_records_failed_total", "Attempts to deliver a record that failed.")?,
            records_resent: c.counter("outboxd_records_resent_total", "Records sent again after a failed delivery, with those behind them.")?,
            rows_dropped: c.counter_by("reason", "outboxd_rows_dropped_total", "Changes that the router's rules do not publish.")?,
            row_notes: c.counter_by("note", "outboxd_row_notes_total", "Published rows with something noteworthy about them.")?,
            transactions: c.counter("outboxd_transactions_total", "Transactions read to their commit.")?,
            largest_transaction_records: c.gauge("outboxd_largest_transaction_rows", "Rows of the largest transaction since the start.")?,
            commit_to_confirm_seconds: c.seconds_histogram("outboxd_commit_to_confirm_seconds", "From a transaction's commit on the server to its confirmation after Kafka's acknowledgement.")?,
            received_lsn_bytes: c.gauge("outboxd_received_lsn_bytes", "Position in the WAL that was read, in bytes.")?,
            confirmed_lsn_bytes: c.gauge("outboxd_confirmed_lsn_bytes", "Position in the WAL that was confirmed to the server, in bytes.")?,
            lag_seconds: c.float_gauge("outboxd_lag_seconds", "Age of the oldest commit that is not confirmed; 0 when caught up.")?,
            in_flight_records: c.gauge("outboxd_in_flight_records", "Records that Kafka has not acknowledged, and those kept behind them.")?,
            in_flight_bytes: c.gauge("outboxd_in_flight_bytes", "Memory of these records.")?,
            in_flight_limit_bytes: c.gauge("outboxd_in_flight_limit_bytes", "Bound of outboxd_in_flight_bytes: beyond it nothing is read from PostgreSQL.")?,
            in_flight_limit_records: c.gauge("outboxd_in_flight_limit_records", "The same for outboxd_in_flight_records.")?,
            backpressure_seconds: c.seconds_counter("outboxd_backpressure_seconds_total", "Time in which nothing was read because the bound was reached or a delivery had failed.")?,
            status_updates: c.counter("outboxd_status_updates_total", "Status updates sent to the server.")?,
            reconnects: c.counter_by("side", "outboxd_reconnects_total", "Sessions that ended and were opened again.")?,
            takeovers: c.counter("outboxd_takeovers_total", "Times this instance got the lead after waiting for it.")?,
            unseen_ranges: c.counter("outboxd_unseen_ranges_total", "Times at which rows may have been committed that no stream has: a table was not published for a while, or a slot was given up. The log has the positions.")?,
            slot_active: c.gauge("outboxd_slot_active", "1 while a walsender uses the slot, as the server sees it.")?,
            slot_retained_bytes: c.gauge("outboxd_slot_retained_bytes", "WAL that the slot keeps the server from removing (from restart_lsn); 0 without a slot.")?,
            slot_confirmed_lag_bytes: c.gauge("outboxd_slot_confirmed_lag_bytes", "WAL behind the server's position that is not confirmed (from confirmed_flush_lsn).")?,
            slot_safe_wal_bytes: c.float_gauge_by("slot", "outboxd_slot_safe_wal_bytes", "WAL that can still be written before the slot may be invalidated; absent where max_slot_wal_keep_size has no limit.")?,
            slot_wal_status: c.gauge_by("status", "outboxd_slot_wal_status", "1 for pg_replication_slots.wal_status, 0 for the others.")?,
            slot_sampled_timestamp_seconds: c.float_gauge("outboxd_slot_sampled_timestamp_seconds", "When the slot was last looked at, Unix time.")?,
            kafka_queue_records: c.gauge("outboxd_kafka_queue_records", "Records in librdkafka's queue.")?,
            kafka_queue_bytes: c.gauge("outboxd_kafka_queue_bytes", "Bytes in librdkafka's queue.")?,
            kafka_round_trip_seconds: c.float_gauge("outboxd_kafka_round_trip_seconds", "Average round trip to the slowest broker in librdkafka's last interval.")?,
            kafka_reachable: c.gauge("outboxd_kafka_reachable", "1 once a broker has answered; 0 before that, and after every broker was lost until one answers again.")?,
            registry: c.registry,
        };
        metrics.set_state(State::Starting);
        Ok((metrics, c.definitions))
    }

    pub fn set_state(&self, state: State) {
        for known in State::ALL {
            self.state
                .with_label_values(&[known.as_str()])
                .set(i64::from(known == state));
        }
    }

    pub fn set_wal_status(&self, status: Option<&str>) {
        for known in WAL_STATUSES {
            self.slot_wal_status
                .with_label_values(&[known])
                .set(i64::from(status == Some(known)));
        }
    }

    /// Prometheus' text format.
    pub fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_state_is_set() {
        let metrics = Metrics::new().unwrap();
        metrics.set_state(State::Blocked);
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        let set: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("outboxd_state{") && line.ends_with(" 1"))
            .collect();
        assert_eq!(set, ["outboxd_state{state=\"blocked\"} 1"]);
    }
}
