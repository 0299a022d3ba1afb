//! The slot as the server sees it, on an ordinary connection: also while this instance waits, is
//! blocked or has lost its slot.

use std::time::SystemTime;

use tokio_postgres::Client;

use super::View;
use crate::config::Config;
use crate::observe::SlotFacts;
use crate::postgres::slot::{SlotDescription, SlotHealth, WalStatus};
use crate::postgres::{self, PostgresError};

/// Runs until it is aborted. A failure is met by the relay's own session too, which narrates it.
pub(super) async fn watch(config: Config, view: View) {
    let mut client = None;
    let mut tick = tokio::time::interval(config.relay.health_interval);
    loop {
        tick.tick().await;
        if let Err(error) = sample(&config, &view, &mut client).await {
            tracing::debug!("the slot could not be looked at: {error}");
            client = None;
        }
    }
}

async fn sample(
    config: &Config,
    view: &View,
    client: &mut Option<Client>,
) -> Result<(), PostgresError> {
    let connected = match client.take() {
        Some(client) => client,
        None => postgres::connect(&config.postgres).await?,
    };
    let looked = tokio::time::timeout(
        config.postgres.connect_timeout,
        SlotHealth::sample(&connected, &config.slot.name),
    );
    let health = looked.await.map_err(|_| PostgresError::Silent {
        after: config.postgres.connect_timeout,
    })??;
    *client = Some(connected);
    if let Some(slot) = health.slot {
        show(config, view, &slot);
    }
    Ok(())
}

fn show(config: &Config, view: &View, slot: &SlotDescription) {
    let metrics = &view.metrics;
    let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let (retained, lag) = (gauge(slot.retained_bytes()), gauge(slot.lag_bytes()));
    metrics.slot_active.set(i64::from(slot.holder.is_some()));
    metrics.slot_retained_bytes.set(retained);
    metrics.slot_confirmed_lag_bytes.set(lag);
    let name = config.slot.name.as_str();
    match slot.safe_wal_bytes {
        Some(bytes) => metrics
            .slot_safe_wal_bytes
            .with_label_values(&[name])
            .set(bytes as f64),
        // Absent where there is no limit: removing what is not there is fine.
        None => drop(metrics.slot_safe_wal_bytes.remove_label_values(&[name])),
    }
    let wal_status = slot.wal_status.map(WalStatus::as_str);
    metrics.set_wal_status(wal_status);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    metrics
        .slot_sampled_timestamp_seconds
        .set(now.as_secs_f64());
    view.status.set_slot_facts(SlotFacts {
        active: slot.holder.is_some(),
        wal_status: wal_status.map(str::to_owned),
        retained_bytes: Some(retained),
        confirmed_lag_bytes: Some(lag),
        safe_wal_bytes: slot.safe_wal_bytes,
    });
}
