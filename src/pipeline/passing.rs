//! What was delivered before is passed over: the beginning of a stream, up to a place that somebody
//! knows.

use super::PipelineError;
use crate::ack::Committed;
use crate::connect::{NotFound, Passed, Search, Whose};
use crate::lsn::Lsn;

#[derive(Debug, Default)]
pub(super) struct Passing {
    /// The last transaction that was confirmed to a server before it was restarted, until a stream has
    /// come to it, or does not have it.
    own: Option<Committed>,
    search: Option<Search>,
    passed: Option<Passed>,
}

impl Passing {
    /// Up to a transaction of ours, where a stream begins before its end. The end of one that a primary
    /// cannot have, because it writes before it.
    pub(super) fn restarted(
        &mut self,
        last: Option<Committed>,
        written: Option<Lsn>,
    ) -> Option<Lsn> {
        self.own = last.or(self.own);
        let lacking = self
            .own
            .map(|last| last.end_lsn)
            .filter(|end| written.is_some_and(|written| written < *end));
        if lacking.is_some() {
            self.own = None;
        }
        lacking
    }

    /// A position of ours says nothing any more.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// A stream begins at `from`.
    pub(super) fn begin(&mut self, from: Lsn) {
        self.own = self.own.filter(|last| last.end_lsn > from);
        self.search = self
            .own
            .map(|last| Search::after(last.end_lsn, last.xid, last.commit_time));
    }

    /// A place of ours does not count any more: what is published behind this one lies before it.
    pub(super) fn start_after(&mut self, search: Search) {
        self.own = None;
        self.search = Some(search);
    }

    pub(super) const fn own_end(&self) -> Option<Lsn> {
        match self.own {
            Some(last) => Some(last.end_lsn),
            None => None,
        }
    }

    pub(super) fn end(&mut self) {
        self.search = None;
    }

    pub(super) const fn is_on(&self) -> bool {
        self.search.is_some()
    }

    pub(super) fn is_to_our_own_place(&self) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.whose() == Whose::Relay)
    }

    pub(super) fn take_passed(&mut self) -> Option<Passed> {
        self.passed.take()
    }

    /// Takes a step at `lsn`, where there is a search.
    pub(super) fn step(
        &mut self,
        lsn: Lsn,
        step: impl FnOnce(&mut Search) -> Result<(), NotFound>,
    ) -> Result<(), PipelineError> {
        let Some(search) = &mut self.search else {
            return Ok(());
        };
        let whose = search.whose();
        let stepped = step(search);
        if let Some(passed) = search.passed() {
            self.passed = Some(passed);
            self.search = None;
        }
        let is_over = stepped.is_err() || self.search.is_none();
        if whose == Whose::Relay && is_over {
            self.own = None;
        }
        stepped.map_err(|source| match whose {
            Whose::Connector => PipelineError::ConnectorOffset { lsn, source },
            Whose::Relay => PipelineError::OtherHistory { lsn, source },
        })
    }
}
