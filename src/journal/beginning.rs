//! With which entry a stream begins.

use super::{Entry, Gap, Knowledge, Server, SlotState, judge};
use crate::lsn::Lsn;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// To be in the journal before anything is confirmed.
    pub entry: Entry,
    pub found: Found,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Fits(Knowledge),
    Accepted(Gap),
}

/// What the journal says under the key.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// Absent where there is none, or none that can be used.
    pub entry: Option<&'a Entry>,
    /// The last one that was read, used or not.
    pub generation: u64,
}

impl Past<'_> {
    /// Without a claim from before.
    pub fn anew(&self, server: &Server<'_>, slot: Option<Lsn>) -> Entry {
        let lsn = slot.unwrap_or(server.written);
        let mut entry = Entry::first(self.generation + 1, server, lsn);
        entry.has_unpublished = self.entry.is_some_and(|past| past.has_unpublished);
        entry
    }

    /// `slot` is where the slot stands; `None` where there is none.
    pub fn begin(
        &self,
        server: &Server<'_>,
        slot: Option<Lsn>,
        accepts: impl FnOnce(&Gap) -> bool,
    ) -> Result<Beginning, Gap> {
        let knowledge = match judge(self.entry, server, slot) {
            Ok(knowledge) => knowledge,
            Err(gap) if accepts(&gap) => {
                return Ok(Beginning {
                    entry: self.anew(server, slot),
                    found: Found::Accepted(gap),
                });
            }
            Err(gap) => return Err(gap),
        };
        let entry = match (self.entry, knowledge) {
            (None, _) | (_, Knowledge::None | Knowledge::Dropped) => self.anew(server, slot),
            (Some(entry), Knowledge::Known { .. } | Knowledge::Ahead { .. }) => {
                let entry = entry.taken_over();
                if entry.timeline == server.timeline {
                    entry
                } else {
                    entry.on_timeline(server.timeline, slot.unwrap_or(server.written))
                }
            }
        };
        Ok(Beginning {
            entry,
            found: Found::Fits(knowledge),
        })
    }

    /// To be written before a slot is made in the place of the one that was known: a start that is cut
    /// off behind it finds the new slot, and must not take it for a gap. Of the generation that ends,
    /// so that it says nothing of the new slot. One that is invalidated and yet to be dropped has
    /// nothing left to lose, so the start that is cut off between its drop and the new slot needs no
    /// claim of it either.
    pub fn end(&self) -> Option<Entry> {
        let entry = self.entry?;
        (entry.state != SlotState::Dropped).then(|| entry.dropped())
    }
}
