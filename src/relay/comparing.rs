//! The slot and its server as they are, beside what was known of them.

use tokio::task::JoinHandle;

use super::handover::{Connector, Handover};
use super::journal::{self, Journal, Stored, Writer};
use super::noticed::Noticed;
use super::origin::StreamOrigin;
use super::snapshot::while_leading;
use super::standby::OnStandby;
use super::view::Obstacle;
use super::{Interrupted, Relay, RelayError, View};
use crate::config::Config;
use crate::journal::{Beginning, Entry, Found, Gap, Knowledge, Past, Server, judge};
use crate::lsn::Lsn;
use crate::postgres::slot::{SlotDescription, SlotVerdict};
use crate::postgres::snapshot::{SnapshotMode, StartPlan};
use crate::postgres::{ObjectError, ReplicationSession};

/// The journal's entry with which the stream begins.
pub(super) struct Begins {
    read: Option<Entry>,
    entry: Entry,
}

impl Begins {
    /// What was confirmed to the slot before.
    pub(super) const fn confirmed(&self) -> Lsn {
        self.entry.confirmed_lsn
    }

    /// Events may be missing that are in the table, and no snapshot has published those since.
    pub(super) const fn has_unpublished(&self) -> bool {
        self.entry.has_unpublished
    }

    /// A snapshot has published what is in the table.
    pub(super) fn published(mut self) -> Self {
        self.entry.has_unpublished = false;
        self
    }

    /// The stream begins at `confirmed`, of a slot that may be new. And whether the journal has that
    /// already, of an earlier lead.
    pub(super) fn at(mut self, confirmed: Lsn, is_new: bool) -> (Entry, bool) {
        if is_new {
            (self.entry.slot_lsn, self.entry.confirmed_lsn) = (confirmed, confirmed);
        }
        let is_there = self.read.is_some_and(|read| read.claims_as(&self.entry));
        (self.entry, is_there)
    }
}

/// What the comparison leaves to begin with.
#[derive(Default)]
pub(super) struct Compared {
    /// Absent without a journal.
    pub(super) begins: Option<Begins>,
    /// That used the slot, on the first start after it.
    pub(super) connector: Option<Connector>,
}

/// What is known of the slot before it is looked at.
pub(super) enum Memory {
    /// This process has streamed from it; absent at the start.
    Process(Option<Entry>),
    Journal(Box<Writer>),
}

/// What the start was told.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// The mode that counts now; a process takes `always` once.
    pub(super) snapshot: SnapshotMode,
    pub(super) accept_gap: bool,
    /// What a gap of an earlier process left in the table counts as published.
    pub(super) ends_rest: bool,
}

impl Told {
    /// `has_own_rest`: a gap of this very process is why housekeeping rests. Nobody has looked at that
    /// one since.
    pub(super) const fn new(snapshot: SnapshotMode, accept_gap: bool, has_own_rest: bool) -> Self {
        Self {
            snapshot,
            accept_gap,
            ends_rest: accept_gap && !has_own_rest,
        }
    }

    /// Only what another look would find again: what a standby lacks the primary may have, and whoever
    /// holds a slot goes on moving it.
    fn accepts(&self, gap: &Gap, in_recovery: bool, is_held: bool) -> bool {
        if is_held || (in_recovery && OnStandby::in_place_of(gap).is_some()) {
            return false;
        }
        let replaces = gap.is_loss() && self.snapshot == SnapshotMode::WhenNeeded;
        self.accept_gap || (replaces && !in_recovery)
    }
}

pub(super) type JournalRead = JoinHandle<Result<Stored, RelayError>>;

/// Goes on beside the questions to the server. `None` where no slot is used or no journal kept.
pub(super) fn begin_reading(memory: &Memory, told: Told) -> Option<JournalRead> {
    match memory {
        Memory::Journal(writer) if told.snapshot != SnapshotMode::InitialOnly => {
            let read = journal::read(writer.kafka.clone(), writer.options.clone());
            Some(tokio::spawn(read))
        }
        Memory::Journal(_) | Memory::Process(_) => None,
    }
}

/// The slot as it was found, to be compared with what was known of it.
pub(super) struct Looked<'a> {
    pub(super) config: &'a Config,
    pub(super) told: Told,
    pub(super) here: &'a StreamOrigin,
    /// Where the server writes.
    pub(super) written: Lsn,
    pub(super) in_recovery: bool,
    pub(super) found: Option<&'a SlotDescription>,
    pub(super) view: &'a View,
}

/// What a start makes of what was known of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PastIs {
    Kept,
    /// The slot was dropped on purpose, or a new one is to be made in its place.
    Over,
    /// It is over, and what it had may be missing: a gap was accepted.
    Missed,
}

impl Looked<'_> {
    pub(super) async fn compare(
        &self,
        session: &mut ReplicationSession,
        memory: Memory,
        reading: Option<JournalRead>,
        handover: Option<Handover>,
        noticed: &mut Noticed,
    ) -> Result<Compared, RelayError> {
        let (mut writer, reading) = match (memory, reading) {
            (Memory::Process(known), _) => {
                noticed.slot(self.here, self.stands());
                let server = self.server(self.left_at(session, known.as_ref()).await?);
                // Another instance may have moved the slot meanwhile, and on another server the
                // slot's own position tells.
                if let Err(gap @ (Gap::Missing { .. } | Gap::Rewound { .. })) =
                    judge(known.as_ref(), &server, self.stands())
                {
                    if !self.accepts(&gap) {
                        return Err(self.refusal(gap, None));
                    }
                    noticed.gap_accepted = true;
                }
                return Ok(Compared::default());
            }
            // No slot is used.
            (Memory::Journal(_), None) => return Ok(Compared::default()),
            // That a slot is lost has to be told while brokers are away, too.
            (Memory::Journal(_), _) if self.verdict().is_lost() && self.is_refused() => {
                return Ok(Compared::default());
            }
            (Memory::Journal(writer), Some(reading)) => (writer, reading),
        };
        let Stored { newest, unreadable } =
            reading.await.unwrap_or(Err(RelayError::ProducerGone))?;
        match &newest {
            Some(entry) => noticed.journal(entry),
            None => noticed.slot(self.here, self.stands()),
        }
        let generation = newest.as_ref().map_or(0, |entry| entry.generation);
        let read = match unreadable {
            Some(error) if !self.told.accept_gap => return Err(error),
            Some(_) if self.is_held() => return Err(self.in_use()),
            Some(error) => {
                tracing::warn!("accepted: {error}");
                noticed.gap_accepted = true;
                None
            }
            None => newest,
        };
        let past = Past {
            entry: read.as_ref(),
            generation,
        };
        let server = self.server(self.left_at(session, read.as_ref()).await?);
        let connector = match handover {
            Some(handover) if self.may_be_connectors(&handover, read.as_ref(), &server) => {
                handover.look(self.found).await?
            }
            _ => None,
        };
        let (mut entry, past_is) = self.begin(past, &server, connector.as_ref())?;
        // Before the mark that ends the past: behind it the gap is not to be seen any more.
        noticed.gap_accepted |= past_is == PastIs::Missed;
        if past_is != PastIs::Kept
            && self.is_replaced()
            && let Some(mut end) = past.end()
        {
            // A start that is cut off behind it has nothing to accept any more.
            end.has_unpublished |= past_is == PastIs::Missed;
            writer.write(end).await?;
        }
        if !noticed.gap_accepted && self.told.ends_rest && entry.has_unpublished {
            tracing::warn!(
                "accepted: the rows in the table count as published, and housekeeping goes on"
            );
            entry.has_unpublished = false;
        }
        entry.has_unpublished |= noticed.gap_accepted;
        let begins = Some(Begins { read, entry });
        Ok(Compared { begins, connector })
    }

    /// A slot that cannot be streamed from is told of without a look at the offset.
    fn may_be_connectors(
        &self,
        handover: &Handover,
        read: Option<&Entry>,
        server: &Server<'_>,
    ) -> bool {
        let judged = judge(read, server, self.stands());
        let may_matter = handover.may_matter(read, &judged);
        if !may_matter {
            tracing::info!(
                "the relay has streamed from the slot before: Kafka Connect's offset does not count any more"
            );
        }
        let verdict = self.verdict();
        may_matter && matches!(verdict, SlotVerdict::Usable | SlotVerdict::Active(_))
    }

    fn server(&self, left_at: Option<Lsn>) -> Server<'_> {
        let config = self.config;
        let (database, slot) = (&config.postgres.database, config.slot.name.as_str());
        Server {
            written: self.written,
            left_at,
            ..self.here.server(database, slot)
        }
    }

    fn verdict(&self) -> SlotVerdict {
        self.found.map_or(SlotVerdict::Missing, |slot| {
            slot.verdict(&self.config.postgres.database, None)
        })
    }

    fn stands(&self) -> Option<Lsn> {
        self.found
            .map(|slot| slot.confirmed_flush_lsn.unwrap_or_default())
    }

    fn is_refused(&self) -> bool {
        let verdict = self.verdict();
        let plan = StartPlan::decide(self.told.snapshot, self.config.slot.create, &verdict);
        matches!(plan, StartPlan::Refuse)
    }

    /// A new slot comes in the place of one that is gone.
    fn is_replaced(&self) -> bool {
        let is_gone = self.found.is_none() || self.verdict().is_lost();
        is_gone && !self.is_refused()
    }

    async fn left_at(
        &self,
        session: &mut ReplicationSession,
        read: Option<&Entry>,
    ) -> Result<Option<Lsn>, RelayError> {
        match read {
            Some(entry) if entry.timeline < self.here.timeline => {
                let own = self.here.timeline;
                Ok(session.left_timeline_at(own, entry.timeline).await?)
            }
            _ => Ok(None),
        }
    }

    /// What a gap is told as: a connector may have used the slot meanwhile, and a standby says nothing
    /// of the primary's slot.
    fn refusal(&self, gap: Gap, connector: Option<&Connector>) -> RelayError {
        if let Some(seen) = OnStandby::in_place_of(&gap).filter(|_| self.in_recovery) {
            let slot = self.config.slot.name.to_string();
            return RelayError::Standby { slot, seen };
        }
        match (self.stands(), connector) {
            (Some(stands), Some(connector)) if matches!(gap, Gap::Moved { .. }) => {
                connector.refusal(gap, stands, self.written)
            }
            // It counts once the slot is free.
            _ if self.told.accept_gap && self.is_held() => self.in_use(),
            _ => gap.into(),
        }
    }

    fn accepts(&self, gap: &Gap) -> bool {
        self.told.accepts(gap, self.in_recovery, self.is_held())
    }

    fn is_held(&self) -> bool {
        self.found.is_some_and(SlotDescription::is_held)
    }

    fn in_use(&self) -> RelayError {
        let name = self.config.slot.name.to_string();
        let verdict = self.verdict();
        ObjectError::SlotUnusable { name, verdict }.into()
    }

    /// The entry to begin with, and what becomes of what was known before.
    fn begin(
        &self,
        past: Past<'_>,
        server: &Server<'_>,
        connector: Option<&Connector>,
    ) -> Result<(Entry, PastIs), RelayError> {
        let stands = self.stands();
        match self.verdict() {
            SlotVerdict::Usable | SlotVerdict::Active(_) | SlotVerdict::Missing => {}
            // Whether it is replaced or refused is for the plan to say.
            verdict => {
                let replaces = self.told.snapshot == SnapshotMode::WhenNeeded;
                let past_is = match verdict.is_lost() && replaces {
                    true => PastIs::Over,
                    false => PastIs::Kept,
                };
                return Ok((past.anew(server, stands), past_is));
            }
        }
        let Beginning { entry, found } = past
            .begin(server, stands, |gap| self.accepts(gap))
            .map_err(|gap| self.refusal(gap, connector))?;
        let past_is = match found {
            Found::Accepted(gap) => {
                self.view.metrics.unseen_ranges.inc();
                let (from, to) = gap.range().unzip();
                let problem = self.refusal(gap, connector).problem();
                tracing::warn!(
                    detail = problem.detail,
                    from_lsn = from.map(tracing::field::display),
                    to_lsn = to.map(tracing::field::display),
                    "accepted: {}",
                    problem.message
                );
                PastIs::Missed
            }
            Found::Fits(knowledge) => {
                tell(knowledge);
                match knowledge {
                    Knowledge::Dropped => PastIs::Over,
                    _ => PastIs::Kept,
                }
            }
        };
        Ok((entry, past_is))
    }
}

fn tell(knowledge: Knowledge) {
    match knowledge {
        Knowledge::None | Knowledge::Known { repeats_from: None } => {}
        Knowledge::Dropped => {
            tracing::info!("the slot was dropped on purpose: a new one takes its place");
        }
        Knowledge::Known {
            repeats_from: Some(lsn),
        } => {
            tracing::info!(%lsn, "the slot stands before what was confirmed: events from there on can come again");
        }
        Knowledge::Ahead { left_at, confirmed } => tracing::warn!(
            from_lsn = %left_at, to_lsn = %confirmed,
            "the server that was promoted lacks the end of the history that was streamed: events committed between these positions are in Kafka and not in its database"
        ),
    }
}

impl Relay {
    /// Without a journal, what this process itself has seen.
    pub(super) fn memory(&self) -> Memory {
        if let Some(writer) = &self.writer {
            return Memory::Journal(Box::new(writer.clone()));
        }
        let confirmed = self.outbound.pipeline.confirmed();
        let origin = self.origin.as_ref().filter(|_| confirmed > Lsn::ZERO);
        let (database, slot) = (&self.config.postgres.database, &self.config.slot.name);
        let known = origin.map(|origin| {
            let server = origin.server(database, slot.as_str());
            Entry::first(0, &server, confirmed)
        });
        Memory::Process(known)
    }

    /// Nothing is confirmed before the journal knows of the slot.
    pub(super) async fn begin_journal(
        &mut self,
        mut session: ReplicationSession,
        begins: Option<Begins>,
        confirmed: Lsn,
        is_new: bool,
    ) -> Result<ReplicationSession, Interrupted> {
        self.journal = None;
        if let (Some(begins), Some(writer)) = (begins, self.writer.clone()) {
            let (entry, is_there) = begins.at(confirmed, is_new);
            if !is_there {
                // What stood in the way before is over; what may stand in the way now is the journal.
                self.view.unblock(Obstacle::Source);
                self.view.set_problem(None);
                let (mut writer, entry) = (writer.clone(), entry.clone());
                let written = async {
                    let written = self.drive(async move { writer.write(entry).await });
                    Ok(written.await??)
                };
                while_leading(&mut session, written).await?;
            }
            if let Some(handover) = &mut self.handover {
                handover.begin(&entry);
            }
            // Of this lead: nothing waits for it, as it claims nothing new.
            if is_there {
                writer.want(&entry, entry.confirmed_lsn, false);
            }
            self.journal = Some(Journal::new(writer, entry));
        }
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps() -> [Gap; 4] {
        let (low, high) = (Lsn::new(256), Lsn::new(512));
        let slot = || "outbox".to_owned();
        [
            Gap::Missing {
                slot: slot(),
                from: low,
                to: high,
            },
            Gap::Rewound {
                confirmed: high,
                written: low,
            },
            Gap::Moved {
                slot: slot(),
                from: low,
                to: high,
            },
            Gap::OtherSystem {
                known: "77".to_owned(),
                found: "88".to_owned(),
                confirmed: low,
            },
        ]
    }

    fn accepted(told: Told, in_recovery: bool, is_held: bool) -> [bool; 4] {
        gaps().map(|gap| told.accepts(&gap, in_recovery, is_held))
    }

    #[test]
    fn what_a_standby_lacks_and_a_slot_that_is_held_nobody_can_accept() {
        let told = Told::new(SnapshotMode::NoData, true, false);
        assert_eq!(accepted(told, false, false), [true; 4]);
        // Another server is another one, also where it is a standby.
        assert_eq!(accepted(told, true, false), [false, false, false, true]);
        for in_recovery in [false, true] {
            assert_eq!(accepted(told, in_recovery, true), [false; 4]);
        }
        let replacing = Told::new(SnapshotMode::WhenNeeded, false, false);
        let of_primary = accepted(replacing, false, false);
        assert_eq!(of_primary, gaps().map(|gap| gap.is_loss()));
        assert_eq!(accepted(replacing, true, false), [false; 4]);
    }

    #[test]
    fn a_process_does_not_end_the_rest_of_a_gap_that_it_has_accepted_itself() {
        let ends = |accept_gap, has_own_rest| {
            Told::new(SnapshotMode::NoData, accept_gap, has_own_rest).ends_rest
        };
        assert!(ends(true, false));
        assert!(!ends(true, true));
        // So it is after a wait for the lead, too, which takes the flag away.
        assert!(!ends(false, false));
    }
}
