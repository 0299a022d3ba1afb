//! `docs/metrics.md`: the table of all metrics, and what they are called elsewhere.

use super::Metrics;
use super::catalog::Definition;

/// An attribute of Debezium's streaming MBean, the metric that answers the same question, and a
/// remark. Names as in the documentation of Debezium 3.
const DEBEZIUM: &[(&str, Option<&str>, &str)] = &[
    (
        "Connected",
        Some("outboxd_state"),
        "`streaming` or `snapshotting`",
    ),
    (
        "MilliSecondsBehindSource",
        Some("outboxd_lag_seconds"),
        "0 while idle; Debezium keeps the last value",
    ),
    (
        "MilliSecondsBehindSourceP50, P95, P99",
        Some("outboxd_commit_to_confirm_seconds"),
        "a histogram: use `histogram_quantile`",
    ),
    (
        "MilliSecondsSinceLastEvent",
        None,
        "`rate(outboxd_records_published_total[5m])` says whether events flow",
    ),
    (
        "NumberOfCommittedTransactions",
        Some("outboxd_transactions_total"),
        "",
    ),
    (
        "TotalNumberOfCreateEventsSeen",
        Some("outboxd_records_published_total"),
        "acknowledged by Kafka, not only seen",
    ),
    (
        "TotalNumberOfUpdateEventsSeen, TotalNumberOfDeleteEventsSeen, NumberOfEventsFiltered",
        Some("outboxd_rows_dropped_total"),
        "`reason` is `update`, `delete` or `truncate`",
    ),
    (
        "NumberOfErroneousEvents",
        Some("outboxd_records_failed_total"),
        "",
    ),
    (
        "CurrentQueueSizeInBytes",
        Some("outboxd_in_flight_bytes"),
        "",
    ),
    (
        "MaxQueueSizeInBytes",
        Some("outboxd_in_flight_limit_bytes"),
        "",
    ),
    (
        "SourceEventPosition",
        Some("outboxd_received_lsn_bytes"),
        "`/status` has it as text",
    ),
    ("LastEvent, LastTransactionId", None, "not kept"),
];

/// The same for postgres_exporter.
const POSTGRES_EXPORTER: &[(&str, Option<&str>, &str)] = &[
    (
        "pg_replication_slots_active",
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

impl Metrics {
    /// Both tables in Markdown.
    pub fn reference() -> Result<String, prometheus::Error> {
        let (_, definitions) = Self::build()?;
        let mut text = String::from("| metric | type | label | meaning |\n|---|---|---|---|\n");
        for Definition {
            name,
            kind,
            label,
            help,
        } in definitions
        {
            let label = label.map_or_else(String::new, |label| format!("`{label}`"));
            let kind = kind.as_str();
            text += &format!("| `{name}` | {kind} | {label} | {help} |\n");
        }
        for (elsewhere, names) in [
            ("Debezium (streaming MBean)", DEBEZIUM),
            ("postgres_exporter", POSTGRES_EXPORTER),
        ] {
            text += &format!("\n## From {elsewhere}\n\n");
            text += &format!("| {elsewhere} | here | remark |\n|---|---|---|\n");
            for (theirs, ours, remark) in names {
                let theirs = theirs.replace(", ", "`, `");
                let ours = ours.map_or_else(|| "none".to_owned(), |ours| format!("`{ours}`"));
                text += &format!("| `{theirs}` | {ours} | {remark} |\n");
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::observe::metrics::catalog::Kind;

    #[test]
    fn every_name_that_is_pointed_to_exists() {
        let (_, definitions) = Metrics::build().unwrap();
        let known: BTreeSet<_> = definitions.iter().map(|metric| metric.name).collect();
        let pointed = DEBEZIUM.iter().chain(POSTGRES_EXPORTER);
        let unknown: Vec<_> = pointed
            .filter_map(|(_, ours, _)| *ours)
            .filter(|ours| !known.contains(ours))
            .collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        let (_, definitions) = Metrics::build().unwrap();
        for Definition { name, kind, .. } in definitions {
            assert!(name.starts_with("outboxd_"), "{name}");
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            assert!(!name.contains("_ms"), "{name}: seconds are the unit");
        }
    }
}
