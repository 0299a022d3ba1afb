//! The numbers of a relay, in every state.

use super::Relay;
use crate::observe::{Positions, follow};

impl Relay {
    /// Numbers for metrics and status, a few times a second at most.
    pub(super) fn show(&self) {
        let pipeline = &self.outbound.pipeline;
        let (window, counters) = (pipeline.window(), pipeline.counters());
        let now = self.outbound.server_now();
        let lag_us = pipeline.oldest_unconfirmed_commit().map_or(0, |commit| {
            now.as_postgres_us()
                .saturating_sub(commit.as_postgres_us())
                .max(0)
        });
        let lag_seconds = lag_us as f64 / 1e6;
        let health = self.outbound.health();
        let positions = Positions {
            received_lsn: pipeline.received(),
            published_lsn: pipeline.confirmed(),
            confirmed_lsn: self.confirmed,
            in_flight_records: window.len(),
            in_flight_bytes: window.bytes(),
            lag_seconds,
            records_published: counters.records.saturating_sub(window.len() as u64),
            records_dead_lettered: counters.dead_letters.values().sum(),
            transactions: counters.transactions,
            kafka_reachable: health.is_reachable(),
        };
        self.view
            .status
            .set_positions(positions, std::time::SystemTime::now());
        let metrics = &self.view.metrics;
        let gauge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        metrics
            .received_lsn_bytes
            .set(gauge(pipeline.received().as_u64()));
        metrics
            .published_lsn_bytes
            .set(gauge(pipeline.confirmed().as_u64()));
        metrics
            .confirmed_lsn_bytes
            .set(gauge(self.confirmed.as_u64()));
        metrics.in_flight_records.set(gauge(window.len() as u64));
        metrics.in_flight_bytes.set(gauge(window.bytes() as u64));
        metrics
            .largest_transaction_records
            .set(gauge(counters.largest_transaction_records));
        follow(&metrics.transactions, counters.transactions);
        for (reason, count) in &counters.dropped {
            follow(
                &metrics.rows_dropped.with_label_values(&[reason.as_str()]),
                *count,
            );
        }
        for (reason, count) in &counters.dead_letters {
            let metric = &metrics.records_dead_lettered;
            follow(&metric.with_label_values(&[*reason]), *count);
        }
        for (note, count) in &counters.notes {
            follow(
                &metrics.row_notes.with_label_values(&[note.as_str()]),
                *count,
            );
        }
        metrics.lag_seconds.set(lag_seconds);
        follow(&metrics.kafka_retries, health.retries());
        metrics
            .kafka_queue_records
            .set(gauge(health.queue_records()));
        metrics.kafka_queue_bytes.set(gauge(health.queue_bytes()));
        metrics
            .kafka_round_trip_seconds
            .set(health.round_trip_us() as f64 / 1e6);
        metrics
            .kafka_reachable
            .set(i64::from(health.is_reachable()));
    }
}
