//! What the position journal says against the slot as it is: the gap that a start would refuse; and
//! where one would begin after Kafka Connect.

use std::time::Duration;

use super::handover;
use super::source::Walsender;
use crate::config::Config;
use crate::journal::{Entry, Gap, Knowledge, Server, judge};
use crate::lsn::Lsn;
use crate::postgres::preflight::{Check, CheckOutcome};
use crate::postgres::slot::SlotVerdict;
use crate::postgres::snapshot::{SnapshotMode, StartPlan};
use crate::relay::{ForetoldSlot, RelayError};

const NAME: &str = "position";
const PATIENCE: Duration = Duration::from_secs(10);

/// Nothing where no start would compare. `entry` is the journal's newest.
pub(super) async fn check(
    config: &Config,
    walsender: &mut Walsender,
    entry: Option<&Entry>,
) -> Vec<Check> {
    let examined = &walsender.examined;
    match &examined.verdict {
        SlotVerdict::Usable | SlotVerdict::Active(_) | SlotVerdict::Missing => {}
        // That is told of the slot.
        _ => return Vec::new(),
    }
    if examined.plan == StartPlan::SnapshotOnly {
        return Vec::new();
    }
    let slot = examined.slot.as_ref().map(|slot| ForetoldSlot {
        stands: slot.confirmed_flush_lsn.unwrap_or_default(),
        is_held: slot.is_held(),
    });
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
    let judged = judge(entry, &server, slot.map(|slot| slot.stands));
    let foretold = handover::ask(config, entry, &judged, slot, server.written).await;
    let is_refused = judged.is_err();
    let position = match judged {
        Ok(knowledge) => fits(entry, knowledge),
        Err(gap) => {
            let explained = foretold.as_ref().zip(slot);
            let explained =
                explained.and_then(|(offset, slot)| offset.refusal(&gap, slot, server.written));
            refused(config, &gap, explained)
        }
    };
    let offset = foretold.map(|offset| handover::line(config, &offset, slot, is_refused));
    [position].into_iter().chain(offset).collect()
}

async fn left_at(walsender: &mut Walsender, entry: Option<&Entry>) -> Option<Lsn> {
    let known = entry.map(|entry| entry.timeline);
    let known = known.filter(|known| *known < walsender.timeline)?;
    let own = walsender.timeline;
    let asked = walsender.session.left_timeline_at(own, known);
    let answer = tokio::time::timeout(PATIENCE, asked).await.ok()?;
    answer.ok().flatten()
}

fn fits(entry: Option<&Entry>, knowledge: Knowledge) -> Check {
    let confirmed = entry.map(|entry| entry.confirmed_lsn);
    match knowledge {
        Knowledge::None => Check::ok(NAME, "the journal has no word on this slot yet"),
        Knowledge::Dropped => Check::ok(
            NAME,
            "the slot was dropped on purpose: the next one begins without a claim",
        ),
        Knowledge::Known { repeats_from: None } => Check::ok(
            NAME,
            format!(
                "the journal has {}, where the slot stands",
                confirmed.unwrap_or_default()
            ),
        ),
        Knowledge::Known {
            repeats_from: Some(from),
        } => Check::ok(
            NAME,
            format!(
                "the journal has {}, and the slot stands before it: events from {from} on can come again",
                confirmed.unwrap_or_default()
            ),
        ),
        Knowledge::Ahead { left_at, confirmed } => Check::warning(
            NAME,
            format!(
                "events between {left_at} and {confirmed} are in Kafka and not in this server, which was promoted without them"
            ),
            "Nothing is lost to consumers; compare the service's own tables with what they were told.",
        ),
    }
}

/// In the words of the start that is refused.
fn refused(config: &Config, gap: &Gap, explained: Option<RelayError>) -> Check {
    let outcome = match gap.is_loss() && config.snapshot.mode == SnapshotMode::WhenNeeded {
        true => CheckOutcome::Warning,
        false => CheckOutcome::Error,
    };
    let problem = explained.unwrap_or_else(|| gap.clone().into()).problem();
    let found = format!(
        "{}. {}",
        problem.message,
        problem.detail.unwrap_or_default()
    );
    let remedy = config.door.reword(&problem.hint.unwrap_or_default());
    Check {
        outcome,
        ..Check::error(NAME, found, remedy)
    }
}
