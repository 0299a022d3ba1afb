//! What is in `docker/`: alerts, dashboard, image, unit, manifests. What they name has to exist; that
//! the alerts fire is promtool's to say (`tests/live/alerts.rs`).

mod manifests;
mod promql;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use outboxd::observe::Metrics;
use saphyr::{LoadableYamlNode, Yaml};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(project(path)).unwrap()
}

/// A file's documents.
fn documents(text: &str) -> Vec<Yaml<'_>> {
    Yaml::load_from_str(text).unwrap()
}

/// The value at the end of a path of keys and, as numbers, places.
fn at<'a, 'b>(yaml: &'a Yaml<'b>, path: &str) -> &'a Yaml<'b> {
    path.split('/')
        .fold(yaml, |yaml, step| match step.parse::<usize>() {
            Ok(place) => &yaml[place],
            Err(_) => &yaml[step],
        })
}

fn string(yaml: &Yaml<'_>, path: &str) -> String {
    let value = at(yaml, path).as_str();
    value
        .unwrap_or_else(|| panic!("no text at {path}"))
        .to_owned()
}

fn metrics() -> BTreeSet<String> {
    let names = Metrics::names().unwrap();
    let histogram = |name: &str| ["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}"));
    let names = names.into_iter().flat_map(|name| {
        let parts = name.ends_with("_seconds").then(|| histogram(name));
        std::iter::once(name.to_owned()).chain(parts.into_iter().flatten())
    });
    // What Prometheus itself says of a target.
    names.chain(["up".to_owned()]).collect()
}

/// The rules, each with its group's name.
fn rules(text: &str) -> Vec<Yaml<'_>> {
    let document = documents(text).remove(0);
    let groups = document["groups"].as_vec().unwrap();
    groups
        .iter()
        .flat_map(|group| group["rules"].as_vec().unwrap().clone())
        .collect()
}

const RULES: &str = "docker/prometheus/outboxd.rules.yml";

#[test]
fn every_alert_watches_metrics_that_exist() {
    let (text, known) = (text(RULES), metrics());
    for rule in rules(&text) {
        let expression = string(&rule, "expr");
        let named = promql::metrics(&expression);
        assert!(!named.is_empty(), "{expression}");
        assert_eq!(
            named.difference(&known).count(),
            0,
            "{expression}: {named:?}"
        );
    }
}

#[test]
fn every_alert_says_what_it_means_and_leads_to_its_section() {
    let (text, operating) = (text(RULES), text_of_operating());
    let rules = rules(&text);
    assert!(rules.len() >= 12, "{}", rules.len());
    for rule in rules {
        let alert = string(&rule, "alert");
        for annotation in ["summary", "description"] {
            let said = string(&rule, &format!("annotations/{annotation}"));
            assert!(said.len() > 20, "{alert}: {annotation}");
        }
        let severity = string(&rule, "labels/severity");
        assert!(["warning", "critical"].contains(&&*severity), "{alert}");
        let runbook = string(&rule, "annotations/runbook_url");
        let section = format!("docs/operating.md#{}", alert.to_lowercase());
        assert_eq!(runbook, section);
        let heading = format!("\n### {alert}\n");
        assert!(operating.contains(&heading), "no section for {alert}");
    }
}

fn text_of_operating() -> String {
    text("docs/operating.md")
}

#[test]
fn every_alert_is_tested_to_fire() {
    let (rules_text, tests) = (
        text(RULES),
        text("docker/prometheus/outboxd.rules.test.yml"),
    );
    for rule in rules(&rules_text) {
        let fires = format!("{{alertname=\"{}\"}}", string(&rule, "alert"));
        assert!(tests.contains(&fires), "{fires}");
    }
}

#[test]
fn every_panel_of_the_dashboard_shows_metrics_that_exist() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&text("docker/grafana/outboxd.json")).unwrap();
    let (known, mut shown) = (metrics(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let named = promql::metrics(expression);
            assert!(!named.is_empty(), "{expression}");
            assert_eq!(named.difference(&known).count(), 0, "{expression}");
            shown.extend(named);
        }
    }
    // Those that nobody watches over time.
    let not_shown = [
        "outboxd_build_info",
        "outboxd_in_flight_limit_records",
        "outboxd_in_flight_records",
        "outboxd_transactions_total",
        "outboxd_largest_transaction_rows",
        "outboxd_received_lsn_bytes",
        "outboxd_published_lsn_bytes",
        "outboxd_confirmed_lsn_bytes",
        "outboxd_last_published_timestamp_seconds",
        "outboxd_status_updates_total",
        "outboxd_housekeeping_completed_timestamp_seconds",
        "outboxd_housekeeping_wanted",
        "outboxd_housekeeping_rows_kept",
        "outboxd_journal_writes_total",
        "outboxd_journal_lsn_bytes",
        "outboxd_slot_failover_wanted",
        "outboxd_slot_synced",
        "outboxd_slot_decoded_transactions_total",
        "outboxd_slot_spilled_transactions_total",
        "outboxd_kafka_queue_records",
        "outboxd_kafka_queue_bytes",
        "process_start_time_seconds",
    ];
    let missing: Vec<_> = Metrics::names()
        .unwrap()
        .into_iter()
        .filter(|name| !not_shown.contains(name))
        .filter(|name| !shown.iter().any(|shown| shown.starts_with(name)))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn the_runbook_speaks_of_every_reason_and_every_exit_status() {
    use outboxd::cli::exit;
    use outboxd::kafka::DeliveryError;

    let operating = text_of_operating();
    for status in [exit::DRAINED, exit::FAILED, exit::USAGE, exit::CONFIG] {
        let heading = format!("\n### It ended with {status}\n");
        assert!(operating.contains(&heading), "{heading}");
    }
    for reason in ["source", "row", "delivery", "brokers", "journal"] {
        let heading = format!("\n### Blocked by {reason}\n");
        assert!(operating.contains(&heading), "{heading}");
    }
    for heading in [
        "## Sizing max_slot_wal_keep_size",
        "### Major version upgrade of PostgreSQL",
        "### Another publication, another table",
        "### Adding partitions",
        "### Housekeeping of retained rows",
    ] {
        let (_, section) = operating
            .split_once(&format!("\n{heading}\n"))
            .unwrap_or_else(|| panic!("no {heading}"));
        let (section, _) = section.split_once("\n##").unwrap_or((section, ""));
        assert!(section.len() > 400, "{heading}: {section}");
    }
    let reasons = DeliveryError::REASONS.into_iter();
    let missing: Vec<_> = reasons
        .filter(|reason| !operating.contains(&format!("`{reason}`")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
