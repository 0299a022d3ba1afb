//! `docs/metrics.md`: the table of all metrics, and what they are called elsewhere.

use super::Metrics;
use super::catalog::Definition;
use super::elsewhere::{DEBEZIUM_SNAPSHOT, DEBEZIUM_STREAMING, POSTGRES_EXPORTER, Row};

const ELSEWHERE: [(&str, &[Row]); 3] = [
    ("Debezium's streaming metrics", DEBEZIUM_STREAMING),
    ("Debezium's snapshot metrics", DEBEZIUM_SNAPSHOT),
    ("postgres_exporter", POSTGRES_EXPORTER),
];

impl Metrics {
    /// The names of all metrics.
    pub fn names() -> Result<Vec<&'static str>, prometheus::Error> {
        let (_, definitions) = Self::build()?;
        Ok(definitions.iter().map(|metric| metric.name).collect())
    }

    /// The tables in Markdown.
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
        for (elsewhere, names) in ELSEWHERE {
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
        let known = BTreeSet::from_iter(Metrics::names().unwrap());
        let pointed = ELSEWHERE.iter().flat_map(|(_, rows)| *rows);
        let unknown: Vec<_> = pointed
            .filter_map(|(_, ours, _)| *ours)
            .filter(|ours| !known.contains(ours))
            .collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }

    /// Taken with `javap` from the MXBean interfaces in debezium-connector-common 3.6.1.
    #[test]
    fn every_attribute_of_debezium_has_a_line() {
        let common = "LastEvent MilliSecondsSinceLastEvent TotalNumberOfEventsSeen \
            TotalNumberOfCreateEventsSeen TotalNumberOfUpdateEventsSeen \
            TotalNumberOfDeleteEventsSeen NumberOfEventsFiltered NumberOfErroneousEvents \
            QueueTotalCapacity QueueRemainingCapacity MaxQueueSizeInBytes \
            CurrentQueueSizeInBytes CapturedTables";
        let streaming = "Connected SourceEventPosition MilliSecondsBehindSource \
            NumberOfCommittedTransactions LastTransactionId NumberOfUnchangedEventsSkipped \
            MilliSecondsBehindSourceMinValue MilliSecondsBehindSourceMaxValue \
            MilliSecondsBehindSourceAverageValue MilliSecondsBehindSourceP50 \
            MilliSecondsBehindSourceP95 MilliSecondsBehindSourceP99 NumberOfCreateEventsSeen \
            NumberOfDeleteEventsSeen NumberOfUpdateEventsSeen NumberOfTruncateEventsSeen";
        let snapshot = "TotalTableCount RemainingTableCount SnapshotRunning SnapshotPaused \
            SnapshotCompleted SnapshotAborted SnapshotSkipped SnapshotDurationInSeconds \
            SnapshotPausedDurationInSeconds RowsScanned ChunkId ChunkFrom ChunkTo TableFrom \
            TableTo TableChunkCounts TableChunksCompletedCounts";
        for (rows, own) in [
            (DEBEZIUM_STREAMING, streaming),
            (DEBEZIUM_SNAPSHOT, snapshot),
        ] {
            let listed: BTreeSet<_> = rows
                .iter()
                .flat_map(|(names, ..)| names.split(", "))
                .collect();
            let attributes = common.split_whitespace().chain(own.split_whitespace());
            assert_eq!(listed, attributes.collect());
        }
    }

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        let (_, definitions) = Metrics::build().unwrap();
        for Definition { name, kind, .. } in definitions {
            let ours = name.starts_with("outboxd_") || name.starts_with("process_");
            assert!(ours, "{name}");
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            assert!(!name.contains("_ms"), "{name}: seconds are the unit");
        }
    }
}
