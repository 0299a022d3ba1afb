//! From the plugin's bytes to numbered records, and from acknowledgements to the position that may
//! be confirmed. No socket, clock, thread or log line: the shell hands events in (`handle_*`) and
//! takes what is to be done out (`take_*`, `confirmed`).
//!
//! With protocol 1 the server sends only committed transactions, so a row leaves as it arrives,
//! inside its transaction; only the confirmation waits for the commit.

mod counters;
mod error;
mod passing;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ack::{AckTracker, Committed, ConfirmedCommit, Limits, Outcome, Resend, Ticket, Window};
use crate::connect::{Passed, Search, Taken};
use crate::lsn::Lsn;
use crate::outbox::{Change, Operation, TypeCatalog};
use crate::pgoutput::{self, Begin, Commit, Message, Relation, RelationCache, Tuple};
use crate::router::dead_letter::{Origin, Reason};
use crate::router::{EventRouter, Record, RouteError, Routed};
use crate::timestamp::Timestamp;

pub use counters::{Counters, DeadLetter};
pub use error::{PipelineError, Unroutable};
use passing::Passing;

#[derive(Debug)]
pub struct Pipeline {
    router: EventRouter,
    relations: RelationCache,
    /// The stream has described it, and the catalog may have more to say.
    undescribed: Option<Arc<Relation>>,
    tracker: AckTracker,
    window: Window,
    open: Option<OpenTransaction>,
    /// What was delivered before is passed over, and nothing is confirmed, until its end.
    passing: Passing,
    /// Issued and not yet taken by the shell.
    outgoing: Resend,
    /// One for each record of the window, where a record may become a dead letter; `None` where it
    /// may not, because it is one or is no row's.
    origins: VecDeque<Option<Origin>>,
    last_dead_letter: Option<DeadLetter>,
    /// Passed since the shell last asked.
    confirmed_commits: Vec<ConfirmedCommit>,
    /// The furthest position that was read.
    received: Lsn,
    counters: Counters,
}

#[derive(Clone, Copy, Debug)]
struct OpenTransaction {
    begin: Begin,
    rows: u64,
}

impl Pipeline {
    pub fn new(router: EventRouter, limits: Limits) -> Self {
        Self {
            router,
            relations: RelationCache::default(),
            undescribed: None,
            tracker: AckTracker::new(Lsn::ZERO),
            window: Window::new(limits),
            open: None,
            passing: Passing::default(),
            outgoing: Vec::new(),
            origins: VecDeque::new(),
            last_dead_letter: None,
            confirmed_commits: Vec::new(),
            received: Lsn::ZERO,
            counters: Counters::default(),
        }
    }

    /// What follows comes from another server, another timeline or another slot: positions of the
    /// old one say nothing about it.
    pub fn forget_position(&mut self) {
        self.passing.forget();
        self.begin_anew();
    }

    /// The server was restarted: its slot may stand before what was confirmed, and its disk may be an
    /// older one that was written to since. The next stream begins at the slot's position, and passes
    /// over what it sends again up to the last transaction that was confirmed; where that is not, it
    /// ends with [`PipelineError::OtherHistory`], and the one after it passes over nothing. Nor does one
    /// of a primary that writes, at `written`, before the end of that transaction, which is returned.
    pub fn server_restarted(&mut self, written: Option<Lsn>) -> Option<Lsn> {
        let last = self.tracker.last_committed();
        let lacking = self.passing.restarted(last, written);
        self.begin_anew();
        lacking
    }

    /// The next stream begins where its slot stands.
    fn begin_anew(&mut self) {
        self.tracker = AckTracker::new(Lsn::ZERO);
        self.received = Lsn::ZERO;
    }

    /// A stream begins at `lsn`, the slot's position. The window is empty: what an earlier stream
    /// left in flight has settled, or it would be sent a second time in another order.
    pub fn start_stream(&mut self, lsn: Lsn) {
        debug_assert!(
            self.window.is_empty(),
            "a stream starts with an empty window"
        );
        self.relations.clear();
        self.router.forget_other_tables();
        self.undescribed = None;
        self.tracker.start_at(lsn);
        self.passing.begin(self.tracker.confirmed());
        self.received = self.received.max(lsn);
    }

    /// The stream that has started is passed over up to the place where Kafka Connect stopped. One that does not have the place ends with an error, and nothing of it was confirmed.
    pub fn start_after(&mut self, search: Search) {
        self.passing.start_after(search);
    }

    /// Where that of ours ends which the stream passes over, if it does.
    pub const fn passes_over_until(&self) -> Option<Lsn> {
        self.passing.own_end()
    }

    /// The end of what was delivered before was found since this was asked.
    pub fn take_passed(&mut self) -> Option<Passed> {
        self.passing.take_passed()
    }

    /// The stream ended. The server sends an unfinished transaction again from its start.
    pub fn end_stream(&mut self) {
        self.open = None;
        self.passing.end();
        self.tracker.abandon_open();
    }

    /// Forgets what is outstanding: the next stream, here or elsewhere, begins before it. The
    /// producer that has it must be given up too.
    pub fn give_up(&mut self) {
        self.end_stream();
        self.outgoing.clear();
        self.window.clear();
        self.tracker.abandon();
    }

    /// One message of the plugin, found at `lsn`.
    pub fn handle_wal(&mut self, lsn: Lsn, body: &[u8]) -> Result<(), PipelineError> {
        self.received = self.received.max(lsn);
        let message =
            pgoutput::decode(body).map_err(|source| PipelineError::Decode { lsn, source })?;
        match message {
            Message::Begin(begin) => self.begin(lsn, begin),
            Message::Commit(commit) => self.commit(lsn, commit),
            Message::Relation(relation) => {
                self.describe(relation);
                Ok(())
            }
            Message::Insert(insert) => {
                self.change(lsn, Operation::Insert, insert.relation, Some(&insert.new))
            }
            Message::Update(update) => {
                self.change(lsn, Operation::Update, update.relation, Some(&update.new))
            }
            Message::Delete(delete) => self.change(lsn, Operation::Delete, delete.relation, None),
            Message::Truncate { relations, .. } => relations
                .into_iter()
                .try_for_each(|relation| self.change(lsn, Operation::Truncate, relation, None)),
            Message::Message(_) | Message::Origin { .. } | Message::Type { .. } => Ok(()),
        }
    }

    /// A table that the stream has described for the first time, or again because something about
    /// it changed. Its rows should wait for [`Self::learn_types`].
    pub const fn undescribed(&self) -> Option<&Arc<Relation>> {
        self.undescribed.as_ref()
    }

    /// What the catalog says of types and columns, from the next row on.
    pub fn learn_types(&mut self, catalog: TypeCatalog) {
        self.router.learn_types(catalog);
        self.undescribed = None;
    }

    /// Rows of such a table could be events.
    pub fn could_route(&self, relation: &Relation) -> bool {
        self.router.could_route(relation)
    }

    /// The server has sent everything before `wal_end`.
    pub fn handle_keepalive(&mut self, wal_end: Lsn) -> Result<(), PipelineError> {
        self.received = self.received.max(wal_end);
        if self.open.is_none() {
            self.passing
                .step(wal_end, |search| search.idle_at(wal_end))?;
        }
        if !self.passing.is_on() {
            self.tracker.idle_at(wal_end, self.window.next_ticket());
            self.advance();
        }
        Ok(())
    }

    /// One row of a snapshot taken at `consistent_point`.
    pub fn handle_snapshot_row(
        &mut self,
        relation: &Arc<Relation>,
        row: &Tuple<'_>,
        consistent_point: Lsn,
        taken_at: Timestamp,
    ) -> Result<(), PipelineError> {
        let change = Change {
            operation: Operation::Read,
            relation,
            new: Some(row),
            commit_time: taken_at,
            commit_lsn: consistent_point,
        };
        self.route(&change, self.counters.records + 1)
    }

    pub fn handle_delivery(&mut self, ticket: Ticket, outcome: Outcome) {
        self.window.settle(ticket, outcome);
        self.advance();
    }

    /// A record that is no row's: acknowledged in its turn, without a position of its own.
    pub fn publish_beside(&mut self, record: Record) {
        self.issue(record, None);
    }

    /// In the place of a record that failed, its dead letter: it goes out with the next resend, and
    /// the transaction waits for it. False where there is no topic for it, or the record is a dead
    /// letter itself, or no row's.
    pub fn make_dead_letter(&mut self, ticket: Ticket, reason: Reason) -> bool {
        let first = self.window.released();
        let index = ticket
            .0
            .checked_sub(first.0)
            .and_then(|at| usize::try_from(at).ok());
        let place = index.and_then(|index| self.origins.get_mut(index));
        let (Some(topic), Some(place), Some(record)) = (
            self.router.options().dead_letter_topic.as_ref(),
            place,
            self.window.record(ticket),
        ) else {
            return false;
        };
        let Some(origin) = place.take() else {
            return false;
        };
        let letter = record.dead_letter(Arc::clone(topic), &origin, &reason);
        let event_id = record.event_id();
        if !self.window.replace(ticket, Arc::new(letter)) {
            *place = Some(origin);
            return false;
        }
        self.note_dead_letter(DeadLetter {
            reason,
            origin,
            event_id,
        });
        true
    }

    pub fn dead_letter_topic(&self) -> Option<&Arc<str>> {
        self.router.options().dead_letter_topic.as_ref()
    }

    /// The last event that went to the dead-letter topic since this was asked.
    pub fn take_last_dead_letter(&mut self) -> Option<DeadLetter> {
        self.last_dead_letter.take()
    }

    /// The window has room, and no failure has to be made good before anything new goes out.
    pub fn can_accept(&self) -> bool {
        self.window.can_accept()
    }

    /// Records to hand to the producer, in order.
    pub fn take_outgoing(&mut self) -> Resend {
        std::mem::take(&mut self.outgoing)
    }

    /// After a failure, once everything in flight has settled: what has to go out again, in order.
    pub fn take_resend(&mut self) -> Resend {
        let resend = self.window.resend();
        self.counters.resent += resend.len() as u64;
        resend
    }

    pub fn take_confirmed_commits(&mut self) -> Vec<ConfirmedCommit> {
        std::mem::take(&mut self.confirmed_commits)
    }

    /// What may be confirmed to PostgreSQL.
    pub fn confirmed(&self) -> Lsn {
        self.tracker.confirmed()
    }

    pub fn received(&self) -> Lsn {
        self.received
    }

    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Rows of an unfinished transaction have been taken, or the place up to which this relay had
    /// confirmed has not been reached again: one that is started anew would repeat them.
    pub fn is_midway(&self) -> bool {
        self.open.is_some() || self.passing.is_to_our_own_place()
    }

    pub fn oldest_unconfirmed_commit(&self) -> Option<Timestamp> {
        let open = self
            .open
            .filter(|open| open.rows > 0)
            .map(|open| open.begin.commit_time);
        self.tracker.oldest_unconfirmed_commit().or(open)
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn describe(&mut self, relation: Relation) {
        let again = self.relations.get(relation.oid).is_ok();
        let described = self.relations.insert(relation);
        if again || !self.router.knows_types(described) {
            self.undescribed = Some(Arc::clone(described));
        }
    }

    fn begin(&mut self, lsn: Lsn, begin: Begin) -> Result<(), PipelineError> {
        if self.open.is_some() {
            return Err(PipelineError::OutOfOrder {
                lsn,
                message: "Begin",
                expected: "Commit",
            });
        }
        self.open = Some(OpenTransaction { begin, rows: 0 });
        self.tracker.begin();
        self.passing.step(lsn, |search| search.begin(&begin))
    }

    fn commit(&mut self, lsn: Lsn, commit: Commit) -> Result<(), PipelineError> {
        let Some(open) = self.open.take() else {
            return Err(PipelineError::OutOfOrder {
                lsn,
                message: "Commit",
                expected: "Begin",
            });
        };
        self.received = self.received.max(commit.end_lsn);
        self.passing
            .step(lsn, |search| search.commit(commit.end_lsn))?;
        if self.passing.is_on() {
            self.tracker.abandon_open();
            return Ok(());
        }
        self.counters.transactions += 1;
        let largest = &mut self.counters.largest_transaction_records;
        *largest = open.rows.max(*largest);
        let transaction = Committed {
            end_lsn: commit.end_lsn,
            xid: open.begin.xid,
            commit_time: commit.commit_time,
        };
        self.tracker.commit(transaction, self.window.next_ticket());
        self.advance();
        Ok(())
    }

    fn change(
        &mut self,
        lsn: Lsn,
        operation: Operation,
        relation: u32,
        new: Option<&Tuple<'_>>,
    ) -> Result<(), PipelineError> {
        let Some(open) = self.open else {
            return Err(PipelineError::OutOfOrder {
                lsn,
                message: "a row",
                expected: "Begin",
            });
        };
        let relation = self
            .relations
            .get(relation)
            .map(Arc::clone)
            .map_err(|source| PipelineError::Decode { lsn, source })?;
        let change = Change {
            operation,
            relation: &relation,
            new,
            commit_time: open.begin.commit_time,
            commit_lsn: open.begin.final_lsn,
        };
        // Counted first: the transaction of a row that cannot be routed is one that waits.
        let rows = open.rows + 1;
        self.open = Some(OpenTransaction { rows, ..open });
        let mut taken = Taken::ToPublish;
        self.passing.step(lsn, |search| {
            taken = search.row(lsn, operation == Operation::Insert)?;
            Ok(())
        })?;
        match taken {
            Taken::Delivered => Ok(()),
            Taken::ToPublish => self.route(&change, rows),
        }
    }

    fn route(&mut self, change: &Change<'_, '_>, row: u64) -> Result<(), PipelineError> {
        match self.router.route(change) {
            Ok(Routed::Publish { record, note }) => {
                if let Some(note) = note {
                    *self.counters.notes.entry(note).or_default() += 1;
                }
                let origin = self.dead_letter_topic().map(|_| origin(change, row));
                self.issue(record, origin);
                Ok(())
            }
            Ok(Routed::Drop(reason)) => {
                *self.counters.dropped.entry(reason).or_default() += 1;
                Ok(())
            }
            Err(source) => self.route_to_dead_letters(change, row, source),
        }
    }

    /// Where there is such a topic; else the stream ends here.
    fn route_to_dead_letters(
        &mut self,
        change: &Change<'_, '_>,
        row: u64,
        source: RouteError,
    ) -> Result<(), PipelineError> {
        let (origin, reason) = (origin(change, row), Reason::from(&source));
        match self.router.dead_letter(change, &origin, &reason) {
            Some(letter) => {
                self.note_dead_letter(DeadLetter {
                    reason,
                    event_id: self.router.event_id(change),
                    origin,
                });
                self.issue(letter, None);
                Ok(())
            }
            None => Err(PipelineError::Route(Box::new(Unroutable {
                table: change.relation.qualified_name(),
                commit_lsn: change.commit_lsn,
                row,
                source,
            }))),
        }
    }

    fn note_dead_letter(&mut self, letter: DeadLetter) {
        let count = &mut self.counters.dead_letters;
        *count.entry(letter.reason.code).or_default() += 1;
        self.last_dead_letter = Some(letter);
    }

    fn issue(&mut self, record: Record, origin: Option<Origin>) {
        let record = Arc::new(record);
        let ticket = self.window.issue(Arc::clone(&record));
        self.outgoing.push((ticket, record));
        if self.router.options().dead_letter_topic.is_some() {
            self.origins.push_back(origin);
        }
        self.counters.records += 1;
    }

    fn advance(&mut self) {
        let released = self.origins.len().saturating_sub(self.window.len());
        self.origins.drain(..released);
        let commits = &mut self.confirmed_commits;
        self.tracker
            .release(self.window.released(), |commit| commits.push(commit));
    }
}

fn origin(change: &Change<'_, '_>, row: u64) -> Origin {
    Origin {
        relation: Arc::clone(change.relation),
        commit_lsn: change.commit_lsn,
        commit_time: change.commit_time,
        row,
    }
}
