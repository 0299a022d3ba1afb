//! The slot as the server sees it, on an ordinary connection: also while this instance waits, is
//! blocked or has lost its slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use tokio_postgres::Client;

use super::View;
use super::watching::{self, Job, Watch};
use crate::config::Config;
use crate::observe::{SlotFacts, follow};
use crate::postgres::slot::{SlotDescription, SlotStatistics, WalStatus};
use crate::postgres::{self, PostgresError};

/// That the server refuses new sessions because it is shutting down. A walsender lets it end only
/// when everything is confirmed, so a stream that cannot confirm has to go out of its way.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerEnd(Arc<AtomicBool>);

impl ServerEnd {
    pub(super) fn is_near(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn note(&self, near: bool) {
        self.0.store(near, Ordering::Relaxed);
    }
}

/// Runs until it is aborted. A failure is met by the relay's own session too, which narrates it.
pub(super) async fn watch(config: Config, view: View, end: ServerEnd, watch: Watch) {
    let mut session = Session::default();
    let mut tick = tokio::time::interval(config.relay.health_interval);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = watch.called() => {}
        }
        let had_session = session.client.is_some();
        let mut looked = session.look(&config, &view, &watch).await;
        if had_session && looked.is_err() {
            // The end of a session says less than what a new one is told.
            looked = session.look(&config, &view, &watch).await;
        }
        end.note(matches!(&looked, Err(error) if error.is_server_between_states()));
        if let Err(error) = looked {
            tracing::debug!("the slot could not be looked at: {error}");
        }
    }
}

/// Kept from look to look.
#[derive(Default)]
struct Session {
    client: Option<Client>,
    /// Which servers it was made for: the one that streams, where there is a stream.
    hosts: Vec<postgres::Host>,
    wal_status: Option<WalStatus>,
}

impl Session {
    async fn look(
        &mut self,
        config: &Config,
        view: &View,
        watch: &Watch,
    ) -> Result<(), PostgresError> {
        let job = watch.current();
        let options = job.as_ref().map_or(&config.postgres, |job| &job.options);
        let kept = self.client.take();
        let client = match kept.filter(|_| self.hosts == options.hosts) {
            Some(client) => client,
            None => postgres::connect(options).await?,
        };
        self.hosts.clone_from(&options.hosts);
        let patience = config.postgres.connect_timeout;
        let looked = tokio::time::timeout(patience, sample(&client, config, watch, job));
        let silent = |_| PostgresError::Silent { after: patience };
        let (slot, statistics) = looked.await.map_err(silent)??;
        self.client = Some(client);
        show(config.slot.name.as_str(), view, slot.as_ref());
        show_statistics(view, statistics);
        let wanted = i64::from(config.slot.failover);
        view.metrics.slot_failover_wanted.set(wanted);
        self.warn_before_it_is_lost(slot.as_ref());
        Ok(())
    }

    /// The next checkpoint may take what the slot needs.
    fn warn_before_it_is_lost(&mut self, slot: Option<&SlotDescription>) {
        let now = slot.and_then(|slot| slot.wal_status);
        let before = std::mem::replace(&mut self.wal_status, now);
        if now == Some(WalStatus::Unreserved) && before != now {
            tracing::warn!(
                retained_bytes = slot.map(SlotDescription::retained_bytes),
                hint = "Find out why nothing is confirmed, and raise max_slot_wal_keep_size until it is: ALTER SYSTEM SET max_slot_wal_keep_size = '…'; SELECT pg_reload_conf();",
                "the slot is about to be lost: it needs more WAL than max_slot_wal_keep_size lets it keep"
            );
        }
    }
}

async fn sample(
    client: &Client,
    config: &Config,
    watch: &Watch,
    job: Option<Job>,
) -> Result<(Option<SlotDescription>, SlotStatistics), PostgresError> {
    let slot = SlotDescription::read(client, &config.slot.name).await?;
    let statistics = SlotStatistics::read(client, &config.slot.name).await?;
    if let Some(job) = job {
        watching::look(watch, job, client).await?;
    }
    Ok((slot, statistics))
}

/// A slot that is not there is shown as one that keeps nothing, not as it was last seen.
fn show(name: &str, view: &View, slot: Option<&SlotDescription>) {
    let metrics = &view.metrics;
    let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let facts = slot.map(|slot| SlotFacts {
        active: slot.holder.is_some(),
        wal_status: slot.wal_status.map(|status| status.as_str().to_owned()),
        invalidation_reason: slot.lost_because(),
        retained_bytes: Some(gauge(slot.retained_bytes())),
        confirmed_lag_bytes: Some(gauge(slot.lag_bytes())),
        safe_wal_bytes: slot.safe_wal_bytes,
        failover: slot.failover,
        synced: slot.synced,
    });
    let shown = facts.clone().unwrap_or_default();
    metrics.slot_active.set(i64::from(shown.active));
    metrics
        .slot_retained_bytes
        .set(shown.retained_bytes.unwrap_or(0));
    metrics
        .slot_confirmed_lag_bytes
        .set(shown.confirmed_lag_bytes.unwrap_or(0));
    match shown.safe_wal_bytes {
        Some(bytes) => metrics
            .slot_safe_wal_bytes
            .with_label_values(&[name])
            .set(bytes as f64),
        // Absent where there is no limit: removing what is not there is fine.
        None => drop(metrics.slot_safe_wal_bytes.remove_label_values(&[name])),
    }
    metrics.slot_wal_status.set(shown.wal_status.as_deref());
    let reason = shown.invalidation_reason.as_deref();
    metrics.slot_invalidated.set(reason);
    let yes = |property: Option<bool>| i64::from(property == Some(true));
    metrics.slot_failover.set(yes(shown.failover));
    metrics.slot_synced.set(yes(shown.synced));
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    metrics
        .slot_sampled_timestamp_seconds
        .set(now.as_secs_f64());
    view.status.set_slot_facts(facts);
}

fn show_statistics(view: &View, statistics: SlotStatistics) {
    let metrics = &view.metrics;
    for (counter, count) in [
        (
            &metrics.slot_decoded_transactions,
            statistics.decoded_transactions,
        ),
        (&metrics.slot_decoded_bytes, statistics.decoded_bytes),
        (
            &metrics.slot_spilled_transactions,
            statistics.spilled_transactions,
        ),
        (&metrics.slot_spilled_bytes, statistics.spilled_bytes),
    ] {
        follow(counter, count);
    }
    let standbys = i64::try_from(statistics.physical_slots).unwrap_or(i64::MAX);
    metrics.slot_failover_standbys.set(standbys);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;
    use crate::observe::{Metrics, Status};
    use crate::postgres::slot::SlotHolder;

    #[test]
    fn a_slot_that_is_gone_leaves_nothing_of_what_was_last_seen() {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        let view = View::new(Metrics::new().unwrap(), status);
        let slot = SlotDescription {
            name: "s".into(),
            plugin: Some("pgoutput".into()),
            database: Some("shop".into()),
            temporary: false,
            holder: Some(SlotHolder {
                pid: 1,
                application: None,
                client: None,
            }),
            restart_lsn: Some(Lsn::new(10)),
            confirmed_flush_lsn: Some(Lsn::new(20)),
            wal_status: Some(WalStatus::Reserved),
            safe_wal_bytes: Some(7),
            two_phase: false,
            invalidation_reason: None,
            failover: None,
            synced: None,
            server_lsn: Lsn::new(50),
        };
        let seen = || {
            let text = String::from_utf8(view.metrics.render().unwrap()).unwrap();
            let slot_lines = text.lines().filter(|line| {
                line.starts_with("outboxd_slot_")
                    && !line.contains("timestamp")
                    && !line.ends_with(" 0")
            });
            let lines: Vec<_> = slot_lines.map(str::to_owned).collect();
            let status: serde_json::Value =
                serde_json::from_str(&view.status.to_json().unwrap()).unwrap();
            (lines, status["slot_facts"]["active"].clone())
        };
        show("s", &view, Some(&slot));
        let expected = [
            "outboxd_slot_active 1",
            "outboxd_slot_confirmed_lag_bytes 30",
            "outboxd_slot_retained_bytes 40",
            "outboxd_slot_safe_wal_bytes{slot=\"s\"} 7",
            "outboxd_slot_wal_status{status=\"reserved\"} 1",
        ];
        assert_eq!(seen(), (expected.map(str::to_owned).to_vec(), true.into()));
        show("s", &view, None);
        assert_eq!(seen(), (Vec::new(), serde_json::Value::Null));
    }
}
