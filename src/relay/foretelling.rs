//! What a start would make of Kafka Connect's offset, for who asks without starting.

use super::handover::{Found, Handover, Options, Useless};
use super::{MovedSlot, RelayError};
use crate::connect::{ConnectorOffset, Standing, Start, decide};
use crate::journal::{Entry, Gap, Knowledge};
use crate::kafka::Options as KafkaOptions;
use crate::lsn::Lsn;

#[derive(Debug)]
pub struct Foretold {
    options: Options,
    pub offset: ForetoldOffset,
}

#[derive(Debug)]
pub enum ForetoldOffset {
    Useless(Useless),
    /// No connector can have used a slot that is not there.
    NoSlot,
    /// The relay has streamed from the slot, and nobody has moved it since.
    Known,
    /// The brokers do not give it.
    Unread(RelayError),
    /// A start begins without it.
    Unreadable(String),
    Read {
        offset: Option<ConnectorOffset>,
        /// If the connector were stopped now.
        start: Start,
    },
}

/// The slot that is there.
#[derive(Clone, Copy, Debug)]
pub struct ForetoldSlot {
    pub stands: Lsn,
    /// Somebody streams from it.
    pub is_held: bool,
}

impl Foretold {
    pub const fn new(options: Options, offset: ForetoldOffset) -> Self {
        Self { options, offset }
    }

    /// `read` is the journal's entry, `judged` what it comes to; the server writes at `written`.
    pub async fn ask(
        kafka: &KafkaOptions,
        options: &Options,
        read: Option<&Entry>,
        judged: &Result<Knowledge, Gap>,
        slot: Option<ForetoldSlot>,
        written: Lsn,
    ) -> Self {
        let offset = match slot {
            None => ForetoldOffset::NoSlot,
            Some(slot) => {
                let handover = Handover::of(kafka, options);
                if handover.may_matter(read, judged) {
                    // As where the connector's offset counts, the journal has nothing beyond the slot.
                    let confirmed = slot.stands;
                    foretell(handover, Standing { confirmed, written }).await
                } else {
                    ForetoldOffset::Known
                }
            }
        };
        Self::new(options.clone(), offset)
    }

    /// What can be said without a slot's standing and the journal's entry.
    pub fn useless(options: &Options, slot: &str, has_journal: bool) -> Option<Self> {
        let useless = options.is_useless(slot, has_journal)?;
        Some(Self::new(options.clone(), ForetoldOffset::Useless(useless)))
    }

    /// Why a start does not go on where the slot stands beyond the journal, where it looks at the offset.
    pub fn refusal(&self, gap: &Gap, slot: ForetoldSlot, written: Lsn) -> Option<RelayError> {
        let found: Found = match &self.offset {
            ForetoldOffset::Read { offset, .. } => Ok(offset.clone()),
            ForetoldOffset::Unreadable(reason) => Err(reason.clone()),
            ForetoldOffset::Useless(_)
            | ForetoldOffset::NoSlot
            | ForetoldOffset::Known
            | ForetoldOffset::Unread(_) => return None,
        };
        let found = Some(&found).filter(|_| !slot.is_held);
        let at = (slot.stands, written);
        let refused = RelayError::of_gap(gap.clone(), &self.options, found, at);
        Some(refused)
    }

    pub fn connector(&self) -> &str {
        &self.options.connector
    }

    /// Where its offset is kept.
    pub fn store(&self) -> String {
        self.options.store.to_string()
    }
}

async fn foretell(handover: Handover, standing: Standing) -> ForetoldOffset {
    match handover.read().await {
        Err(error) => ForetoldOffset::Unread(error),
        Ok(Err(reason)) => ForetoldOffset::Unreadable(reason),
        Ok(Ok(offset)) => ForetoldOffset::Read {
            start: decide(offset.as_ref(), standing),
            offset,
        },
    }
}

impl RelayError {
    /// What a gap is told as where a connector may have used the slot.
    pub(super) fn of_gap(
        gap: Gap,
        options: &Options,
        found: Option<&Found>,
        at: (Lsn, Lsn),
    ) -> Self {
        match gap {
            Gap::Moved { .. } => Self::MovedSlot(Box::new(MovedSlot::new(gap, options, found, at))),
            gap => Self::Gap(gap),
        }
    }
}
