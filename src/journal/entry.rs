//! One record of the journal.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lsn::Lsn;

/// What was about to be confirmed to which slot. As JSON it is a record's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Of the format.
    version: u32,
    /// Higher with each lead, each new slot and each gap that somebody has accepted: what an earlier one
    /// says, however late it comes, says nothing any more.
    pub generation: u64,
    pub system_id: String,
    pub timeline: u32,
    pub database: String,
    pub slot: String,
    /// Where the slot began, or stood when it was first seen.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub slot_lsn: Lsn,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub confirmed_lsn: Lsn,
    #[serde(default)]
    pub state: SlotState,
    /// A gap was accepted, and the rows that are in the table were not published since: none is deleted
    /// for its age.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_unpublished: bool,
    /// Milliseconds since 1970-01-01 00:00 UTC, for people.
    pub written_at_ms: i64,
}

const VERSION: u32 = 1;

/// What is known of the slot's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotState {
    #[default]
    Kept,
    /// It is about to be dropped on purpose. Whether it was, only the server knows: it was where it
    /// is not there any more, and it still has its claim where it is.
    Dropping,
    /// It was seen not to be there: the next one begins without a claim.
    Dropped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// Not what a relay writes.
    Malformed { reason: String },
    /// A later format than this relay knows.
    Version { found: u32 },
}

impl Entry {
    /// The first of a generation.
    pub fn first(generation: u64, server: &super::Server<'_>, lsn: Lsn) -> Self {
        Self {
            version: VERSION,
            generation,
            system_id: server.system_id.to_owned(),
            timeline: server.timeline,
            database: server.database.to_owned(),
            slot: server.slot.to_owned(),
            slot_lsn: lsn,
            confirmed_lsn: lsn,
            state: SlotState::Kept,
            has_unpublished: false,
            written_at_ms: 0,
        }
    }

    pub fn at(&self, confirmed_lsn: Lsn, written_at_ms: i64) -> Self {
        Self {
            confirmed_lsn,
            written_at_ms,
            ..self.clone()
        }
    }

    /// To be written before the slot is dropped, which has everything before `confirmed_lsn` behind
    /// it.
    pub fn dropping(&self, confirmed_lsn: Lsn) -> Self {
        Self {
            confirmed_lsn,
            state: SlotState::Dropping,
            ..self.clone()
        }
    }

    /// To be written once the slot is seen not to be there.
    pub fn dropped(&self) -> Self {
        Self {
            state: SlotState::Dropped,
            ..self.clone()
        }
    }

    /// The same, of a slot that is there and has another leader. The last one may be frozen, and thaw
    /// with a position or a mark of the end still to write: the slot lives on in spite of it.
    pub fn taken_over(&self) -> Self {
        Self {
            generation: self.generation + 1,
            state: SlotState::Kept,
            ..self.clone()
        }
    }

    /// Whether it says of the slot what the other one says, whoever has the lead.
    pub fn claims_as(&self, other: &Self) -> bool {
        let generation = self.generation;
        *self
            == Self {
                generation,
                ..other.clone()
            }
    }

    /// The same slot on the timeline that the server is on now.
    pub fn on_timeline(&self, timeline: u32, confirmed_lsn: Lsn) -> Self {
        Self {
            timeline,
            confirmed_lsn,
            ..self.clone()
        }
    }

    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are always JSON")
    }

    pub fn from_json(bytes: &[u8]) -> Result<Self, EntryError> {
        #[derive(Deserialize)]
        struct Format {
            version: u32,
        }
        let malformed = |error: serde_json::Error| EntryError::Malformed {
            reason: format!("{:?} at column {}", error.classify(), error.column()),
        };
        let Format { version } = serde_json::from_slice(bytes).map_err(malformed)?;
        if version != VERSION {
            return Err(EntryError::Version { found: version });
        }
        serde_json::from_slice(bytes).map_err(malformed)
    }

    /// Of two records the one that counts, whichever stands later in the topic: a relay that was
    /// frozen can write an old position behind newer ones when it thaws. Of one place the later counts.
    pub fn newest(self, other: Self) -> Self {
        if other.place() >= self.place() {
            other
        } else {
            self
        }
    }

    fn place(&self) -> (u64, SlotState, u32, Lsn) {
        let Self {
            generation,
            state,
            timeline,
            confirmed_lsn,
            ..
        } = self;
        (*generation, *state, *timeline, *confirmed_lsn)
    }
}

fn as_text<S: Serializer>(lsn: &Lsn, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(lsn)
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Lsn, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { reason } => write!(f, "it is not a position of a relay's ({reason})"),
            Self::Version { found } => write!(
                f,
                "it has the format {found}, and this relay knows {VERSION} alone"
            ),
        }
    }
}

impl std::error::Error for EntryError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Server;

    fn entry(generation: u64, timeline: u32, confirmed: u64) -> Entry {
        let server = Server {
            system_id: "77",
            timeline,
            database: "shop",
            slot: "outbox",
            written: Lsn::ZERO,
            left_at: None,
        };
        Entry::first(generation, &server, Lsn::new(16)).at(Lsn::new(confirmed), 5)
    }

    #[test]
    fn an_entry_is_json_that_people_can_read() {
        let text = r#"{"version":1,"generation":2,"system_id":"77","timeline":3,"database":"shop","slot":"outbox","slot_lsn":"0/10","confirmed_lsn":"1/2","state":"kept","written_at_ms":5}"#;
        let entry = entry(2, 3, (1 << 32) + 2);
        assert_eq!(String::from_utf8(entry.to_json()).unwrap(), text);
        assert_eq!(Entry::from_json(text.as_bytes()), Ok(entry.clone()));
        let resting = Entry {
            has_unpublished: true,
            ..entry
        };
        let text = String::from_utf8(resting.to_json()).unwrap();
        assert!(
            text.contains(r#""state":"kept","has_unpublished":true,"#),
            "{text}"
        );
        assert_eq!(Entry::from_json(text.as_bytes()), Ok(resting));
    }

    #[test]
    fn what_is_no_entry_and_what_is_of_a_later_format_are_told_apart() {
        let later = br#"{"version":2,"anything":1}"#;
        assert_eq!(
            Entry::from_json(later),
            Err(EntryError::Version { found: 2 })
        );
        for bytes in [&b"hunter2"[..], b"", br#"{"version":1}"#, &[0xff]] {
            let error = Entry::from_json(bytes).unwrap_err();
            assert!(matches!(error, EntryError::Malformed { .. }));
            assert!(!error.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn what_is_not_published_stays_so_until_it_is_told_at_the_same_place() {
        let resting = Entry {
            has_unpublished: true,
            ..entry(1, 1, 20)
        };
        for next in [
            resting.at(Lsn::new(30), 6),
            resting.dropping(Lsn::new(20)).dropped(),
            resting.dropping(Lsn::new(20)).taken_over(),
            resting.on_timeline(2, Lsn::new(15)),
        ] {
            assert!(next.has_unpublished);
        }
        let published = entry(1, 1, 20);
        assert_eq!(resting.newest(published.clone()), published);
    }

    #[test]
    fn the_furthest_of_the_last_generation_counts_in_whatever_order() {
        let dropping = entry(1, 1, 10).dropping(Lsn::new(8));
        let rising = [
            entry(1, 1, 20),
            entry(1, 1, 30),
            entry(1, 1, 30).on_timeline(2, Lsn::new(5)),
            dropping.clone(),
            dropping.dropped(),
            dropping.taken_over(),
            entry(2, 1, 9),
        ];
        for (place, newer) in rising.iter().enumerate() {
            for older in &rising[..place] {
                assert_eq!(&older.clone().newest(newer.clone()), newer);
                assert_eq!(&newer.clone().newest(older.clone()), newer);
            }
        }
    }
}
