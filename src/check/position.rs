//! What the position journal says against the slot as it is: the gap that a start would refuse.

use std::time::Duration;

use super::source::Walsender;
use crate::config::Config;
use crate::journal::{Entry, Knowledge, Server, judge};
use crate::lsn::Lsn;
use crate::postgres::preflight::{Check, CheckOutcome};
use crate::postgres::slot::SlotVerdict;
use crate::postgres::snapshot::{SnapshotMode, StartPlan};

const NAME: &str = "position";
const PATIENCE: Duration = Duration::from_secs(10);

/// `None` where no start would compare.
pub(super) async fn check(
    config: &Config,
    walsender: &mut Walsender,
    entry: Option<&Entry>,
) -> Option<Check> {
    let examined = &walsender.examined;
    match &examined.verdict {
        SlotVerdict::Usable | SlotVerdict::Active(_) | SlotVerdict::Missing => {}
        // That is told of the slot.
        _ => return None,
    }
    if examined.plan == StartPlan::SnapshotOnly {
        return None;
    }
    let stands = examined.slot.as_ref();
    let stands = stands.map(|slot| slot.confirmed_flush_lsn.unwrap_or_default());
    let seen = examined.slot.as_ref().map(|slot| slot.server_lsn);
    // Anew: a relay that streams has moved the journal on since the server was looked at.
    let asked = tokio::time::timeout(PATIENCE, walsender.session.identify_system()).await;
    let now = asked.ok().and_then(Result::ok);
    let now = now.map_or(walsender.written, |identity| identity.wal_lsn);
    let server = Server {
        system_id: &walsender.system_id.clone(),
        timeline: walsender.timeline,
        database: &config.postgres.database,
        slot: config.slot.name.as_str(),
        written: now.max(seen.unwrap_or_default()).max(walsender.written),
        left_at: left_at(walsender, entry).await,
    };
    Some(judged(config, entry, &server, stands))
}

async fn left_at(walsender: &mut Walsender, entry: Option<&Entry>) -> Option<Lsn> {
    let known = entry.map(|entry| entry.timeline);
    let known = known.filter(|known| *known < walsender.timeline)?;
    let own = walsender.timeline;
    let asked = walsender.session.left_timeline_at(own, known);
    let answer = tokio::time::timeout(PATIENCE, asked).await.ok()?;
    answer.ok().flatten()
}

fn judged(
    config: &Config,
    entry: Option<&Entry>,
    server: &Server<'_>,
    stands: Option<Lsn>,
) -> Check {
    let confirmed = entry.map(|entry| entry.confirmed_lsn);
    match judge(entry, server, stands) {
        Ok(Knowledge::None) => Check::ok(NAME, "the journal has no word on this slot yet"),
        Ok(Knowledge::Dropped) => Check::ok(
            NAME,
            "the slot was dropped on purpose: the next one begins without a claim",
        ),
        Ok(Knowledge::Known { repeats_from: None }) => Check::ok(
            NAME,
            format!(
                "the journal has {}, where the slot stands",
                confirmed.unwrap_or_default()
            ),
        ),
        Ok(Knowledge::Known {
            repeats_from: Some(from),
        }) => Check::ok(
            NAME,
            format!(
                "the journal has {}, and the slot stands before it: events from {from} on can come again",
                confirmed.unwrap_or_default()
            ),
        ),
        Ok(Knowledge::Ahead { left_at, confirmed }) => Check::warning(
            NAME,
            format!(
                "events between {left_at} and {confirmed} are in Kafka and not in this server, which was promoted without them"
            ),
            "Nothing is lost to consumers; compare the service's own tables with what they were told.",
        ),
        Err(gap) => {
            let outcome = match gap.is_loss() && config.snapshot.mode == SnapshotMode::WhenNeeded {
                true => CheckOutcome::Warning,
                false => CheckOutcome::Error,
            };
            let found = format!("{gap}. {}", gap.detail());
            Check {
                outcome,
                ..Check::error(NAME, found, config.door.reword(&gap.hint()))
            }
        }
    }
}
