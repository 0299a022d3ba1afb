//! Every metric: its name, its help, its type, in one place. `docs/metrics.md` is made of this.

use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

use super::State;

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
    pub backpressure_seconds: prometheus::Counter,
    pub status_updates: IntCounter,
    pub reconnects: IntCounterVec,
    pub takeovers: IntCounter,
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
        let r = Registry::new();
        let metrics = Self {
            state: gauge_vec(
                &r,
                "outboxd_state",
                "1 for the state the relay is in, 0 for the others.",
                "state",
            )?,
            records_published: counter_vec(
                &r,
                "outboxd_records_published_total",
                "Records that Kafka has acknowledged, repeats included.",
                "topic",
            )?,
            records_failed: counter_vec(
                &r,
                "outboxd_records_failed_total",
                "Attempts to deliver a record that failed.",
                "reason",
            )?,
            records_resent: counter(
                &r,
                "outboxd_records_resent_total",
                "Records sent again after a failed delivery, with those behind them.",
            )?,
            rows_dropped: counter_vec(
                &r,
                "outboxd_rows_dropped_total",
                "Changes that the router's rules do not publish.",
                "reason",
            )?,
            row_notes: counter_vec(
                &r,
                "outboxd_row_notes_total",
                "Published rows with something noteworthy about them.",
                "note",
            )?,
            transactions: counter(
                &r,
                "outboxd_transactions_total",
                "Transactions read to their commit.",
            )?,
            largest_transaction_records: gauge(
                &r,
                "outboxd_largest_transaction_rows",
                "Rows of the largest transaction since the start.",
            )?,
            commit_to_confirm_seconds: histogram(
                &r,
                "outboxd_commit_to_confirm_seconds",
                "From a transaction's commit on the server to its confirmation after Kafka's acknowledgement.",
            )?,
            received_lsn_bytes: gauge(
                &r,
                "outboxd_received_lsn_bytes",
                "Position in the WAL that was read, in bytes.",
            )?,
            confirmed_lsn_bytes: gauge(
                &r,
                "outboxd_confirmed_lsn_bytes",
                "Position in the WAL that was confirmed to the server, in bytes.",
            )?,
            lag_seconds: float_gauge(
                &r,
                "outboxd_lag_seconds",
                "Age of the oldest commit that is not confirmed; 0 when caught up.",
            )?,
            in_flight_records: gauge(
                &r,
                "outboxd_in_flight_records",
                "Records that Kafka has not acknowledged, and those kept behind them.",
            )?,
            in_flight_bytes: gauge(&r, "outboxd_in_flight_bytes", "Memory of these records.")?,
            in_flight_limit_bytes: gauge(
                &r,
                "outboxd_in_flight_limit_bytes",
                "Bound of outboxd_in_flight_bytes: beyond it nothing is read from PostgreSQL.",
            )?,
            backpressure_seconds: float_counter(
                &r,
                "outboxd_backpressure_seconds_total",
                "Time in which nothing was read because the bound was reached or a delivery had failed.",
            )?,
            status_updates: counter(
                &r,
                "outboxd_status_updates_total",
                "Status updates sent to the server.",
            )?,
            reconnects: counter_vec(
                &r,
                "outboxd_reconnects_total",
                "Sessions that ended and were opened again.",
                "side",
            )?,
            takeovers: counter(
                &r,
                "outboxd_takeovers_total",
                "Times this instance got the lead after waiting for it.",
            )?,
            slot_active: gauge(
                &r,
                "outboxd_slot_active",
                "1 while a walsender uses the slot, as the server sees it.",
            )?,
            slot_retained_bytes: gauge(
                &r,
                "outboxd_slot_retained_bytes",
                "WAL that the slot keeps the server from removing (from restart_lsn).",
            )?,
            slot_confirmed_lag_bytes: gauge(
                &r,
                "outboxd_slot_confirmed_lag_bytes",
                "WAL behind the server's position that is not confirmed (from confirmed_flush_lsn).",
            )?,
            slot_safe_wal_bytes: float_gauge_vec(
                &r,
                "outboxd_slot_safe_wal_bytes",
                "WAL that can still be written before the slot may be invalidated; absent where max_slot_wal_keep_size has no limit.",
                "slot",
            )?,
            slot_wal_status: gauge_vec(
                &r,
                "outboxd_slot_wal_status",
                "1 for pg_replication_slots.wal_status, 0 for the others.",
                "status",
            )?,
            slot_sampled_timestamp_seconds: float_gauge(
                &r,
                "outboxd_slot_sampled_timestamp_seconds",
                "When the slot was last looked at, Unix time.",
            )?,
            kafka_queue_records: gauge(
                &r,
                "outboxd_kafka_queue_records",
                "Records in librdkafka's queue.",
            )?,
            kafka_queue_bytes: gauge(
                &r,
                "outboxd_kafka_queue_bytes",
                "Bytes in librdkafka's queue.",
            )?,
            kafka_round_trip_seconds: float_gauge(
                &r,
                "outboxd_kafka_round_trip_seconds",
                "Average round trip to the slowest broker in librdkafka's last interval.",
            )?,
            kafka_reachable: gauge(
                &r,
                "outboxd_kafka_reachable",
                "0 after every broker was lost, until a delivery succeeds.",
            )?,
            registry: r,
        };
        let build = gauge_vec(
            &metrics.registry,
            "outboxd_build_info",
            "1, with the version.",
            "version",
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        metrics.set_state(State::Starting);
        Ok(metrics)
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

fn register<C>(registry: &Registry, collector: C) -> Result<C, prometheus::Error>
where
    C: prometheus::core::Collector + Clone + 'static,
{
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

fn counter(r: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    register(r, IntCounter::new(name, help)?)
}

fn float_counter(
    r: &Registry,
    name: &str,
    help: &str,
) -> Result<prometheus::Counter, prometheus::Error> {
    register(r, prometheus::Counter::new(name, help)?)
}

fn counter_vec(
    r: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> Result<IntCounterVec, prometheus::Error> {
    register(r, IntCounterVec::new(Opts::new(name, help), &[label])?)
}

fn gauge(r: &Registry, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    register(r, IntGauge::new(name, help)?)
}

fn float_gauge(r: &Registry, name: &str, help: &str) -> Result<Gauge, prometheus::Error> {
    register(r, Gauge::new(name, help)?)
}

fn gauge_vec(
    r: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> Result<IntGaugeVec, prometheus::Error> {
    register(r, IntGaugeVec::new(Opts::new(name, help), &[label])?)
}

fn float_gauge_vec(
    r: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> Result<GaugeVec, prometheus::Error> {
    register(r, GaugeVec::new(Opts::new(name, help), &[label])?)
}

fn histogram(r: &Registry, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
    let buckets = vec![
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
        300.0,
    ];
    register(
        r,
        Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets))?,
    )
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
