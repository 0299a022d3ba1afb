//! Whether the slot that is there is the one that was known.

use std::fmt;

use super::{Entry, SlotState};
use crate::lsn::Lsn;

/// The server and the slot as they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server<'a> {
    pub system_id: &'a str,
    pub timeline: u32,
    pub database: &'a str,
    pub slot: &'a str,
    /// Where the server writes.
    pub written: Lsn,
    /// Where its history left the timeline of the journal's entry. `None` where that is its own, or
    /// none that it comes from.
    pub left_at: Option<Lsn>,
}

/// The slot may be streamed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// The journal has no word on it: what is there is taken as it is.
    None,
    /// It is not there any more, as somebody wanted it.
    Dropped,
    /// The slot stands here or before: what lies between comes again.
    Known { repeats_from: Option<Lsn> },
    /// After a failover: events between the positions are in Kafka, and not in this server's
    /// history.
    Ahead { left_at: Lsn, confirmed: Lsn },
}

/// Why events may be missing, or why this may not be the server that was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The journal's entry is of another slot.
    OtherSlot {
        slot: String,
        known_database: String,
        known_slot: String,
    },
    OtherSystem {
        known: String,
        found: String,
        confirmed: Lsn,
    },
    /// The server is on an older timeline, or on one that does not come from the known one.
    OtherHistory {
        known: u32,
        found: u32,
        confirmed: Lsn,
    },
    /// The server writes at a position that lies before what it had confirmed.
    Rewound {
        confirmed: Lsn,
        written: Lsn,
    },
    Missing {
        slot: String,
        from: Lsn,
        to: Lsn,
    },
    /// The slot stands beyond what the relay has confirmed.
    Moved {
        slot: String,
        from: Lsn,
        to: Lsn,
    },
}

/// `slot` is where the slot stands; `None` where there is none.
pub fn judge(
    entry: Option<&Entry>,
    server: &Server<'_>,
    slot: Option<Lsn>,
) -> Result<Knowledge, Gap> {
    let Some(entry) = entry.filter(|entry| entry.state != SlotState::Dropped) else {
        return Ok(Knowledge::None);
    };
    let confirmed = entry.confirmed_lsn;
    if (entry.database.as_str(), entry.slot.as_str()) != (server.database, server.slot) {
        return Err(Gap::OtherSlot {
            slot: server.slot.to_owned(),
            known_database: entry.database.clone(),
            known_slot: entry.slot.clone(),
        });
    }
    if entry.system_id != server.system_id {
        return Err(Gap::OtherSystem {
            known: entry.system_id.clone(),
            found: server.system_id.to_owned(),
            confirmed,
        });
    }
    let left_at = match server.left_at {
        _ if server.timeline == entry.timeline => None,
        Some(left_at) if server.timeline > entry.timeline => Some(left_at),
        _ => {
            return Err(Gap::OtherHistory {
                known: entry.timeline,
                found: server.timeline,
                confirmed,
            });
        }
    };
    if left_at.is_none() && server.written < confirmed {
        let written = server.written;
        return Err(Gap::Rewound { confirmed, written });
    }
    // What this server shares with the one that was known.
    let shared = left_at.map_or(confirmed, |left_at| left_at.min(confirmed));
    let name = || server.slot.to_owned();
    match (slot, left_at) {
        // A server that was promoted since says nothing of what became of it on the one before.
        (None, None) if entry.state == SlotState::Dropping => Ok(Knowledge::Dropped),
        (None, _) => Err(Gap::Missing {
            slot: name(),
            from: shared,
            to: server.written,
        }),
        (Some(stands), _) if stands > shared => Err(Gap::Moved {
            slot: name(),
            from: shared,
            to: stands,
        }),
        (Some(_), Some(left_at)) if confirmed > left_at => {
            Ok(Knowledge::Ahead { left_at, confirmed })
        }
        (Some(stands), _) => Ok(Knowledge::Known {
            repeats_from: (stands < shared).then_some(stands),
        }),
    }
}

impl Gap {
    /// What the slot had is not to be had any more.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// Between which positions events may be missing, where that can be said.
    pub fn range(&self) -> Option<(Lsn, Lsn)> {
        match self {
            Self::Missing { from, to, .. } | Self::Moved { from, to, .. } => Some((*from, *to)),
            Self::OtherSlot { .. }
            | Self::OtherSystem { .. }
            | Self::OtherHistory { .. }
            | Self::Rewound { .. } => None,
        }
    }

    pub fn detail(&self) -> String {
        match self {
            Self::OtherSlot { slot, .. } => format!("This relay streams from slot \"{slot}\"."),
            Self::OtherSystem {
                known,
                found,
                confirmed,
            } => format!(
                "The position journal has system identifier {known}, confirmed up to {confirmed}; the server has {found}. It is the wrong server, or another cluster was put in the place of the one that was streamed from."
            ),
            Self::OtherHistory {
                known,
                found,
                confirmed,
            } => format!(
                "The position journal has timeline {known}, confirmed up to {confirmed}; the server is on timeline {found}, which does not come from it. It is an old primary that came back, or was restored from a backup."
            ),
            Self::Rewound { confirmed, written } => format!(
                "The position journal has {confirmed} as confirmed, and the server writes at {written}. It was restored from a backup or a snapshot of its disk: events that were published are not in it."
            ),
            Self::Missing { from, to, .. } => format!(
                "It was there when {from} was confirmed, and the server writes at {to} now. Rows committed between the two cannot be streamed."
            ),
            Self::Moved { from, to, .. } => format!(
                "The relay has confirmed up to {from}, and the slot stands at {to}: it was advanced, made anew, or read by something else. Rows committed between the two are not streamed."
            ),
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::OtherSlot { .. } => {
                "Two relays share one key: give each a position.key of its own. If the slot was renamed on purpose: outboxd run --accept-gap.".to_owned()
            }
            Self::OtherSystem { .. } => {
                "Check postgres.url, and that no relay of another server has the same position.key: by default it is the database and the slot. If this is the server to stream from: outboxd run --accept-gap goes on at its slot's own position; compare the outbox with Kafka.".to_owned()
            }
            Self::OtherHistory { .. } | Self::Rewound { .. } => {
                "Check postgres.url. If this is the server to stream from: outboxd run --accept-gap goes on at its slot's own position; compare the outbox with Kafka.".to_owned()
            }
            Self::Missing { .. } => {
                "Find out which events are missing. Then: outboxd run --accept-gap makes a new slot and, with snapshot.mode = initial, publishes the rows that are in the table.".to_owned()
            }
            Self::Moved { .. } => {
                "Find out who did it and which events are missing. Then: outboxd run --accept-gap goes on where the slot stands; with --set snapshot.mode=always it publishes the rows that are in the table first.".to_owned()
            }
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSlot {
                known_database,
                known_slot,
                ..
            } => write!(
                f,
                "the position journal's entry is of slot \"{known_slot}\" of database \"{known_database}\""
            ),
            Self::OtherSystem { .. } => {
                f.write_str("the server is another one than the one that was streamed from")
            }
            Self::OtherHistory { .. } => f.write_str(
                "the server's history is another one than the one that was streamed from",
            ),
            Self::Rewound { .. } => {
                f.write_str("the server is older than what was streamed from it")
            }
            Self::Missing { slot, .. } => {
                write!(f, "replication slot \"{slot}\" does not exist any more")
            }
            Self::Moved { slot, .. } => write!(
                f,
                "replication slot \"{slot}\" stands beyond what was confirmed to it"
            ),
        }
    }
}

impl std::error::Error for Gap {}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Server<'static> = Server {
        system_id: "77",
        timeline: 2,
        database: "shop",
        slot: "outbox",
        written: Lsn::new(400),
        left_at: None,
    };

    fn entry(change: impl FnOnce(&mut Entry)) -> Entry {
        let mut entry = Entry::first(1, &HERE, Lsn::new(10)).at(Lsn::new(200), 0);
        change(&mut entry);
        entry
    }

    fn slot() -> String {
        "outbox".to_owned()
    }

    #[test]
    fn without_an_entry_what_is_there_is_taken_as_it_is() {
        let dropped = entry(|_| ()).dropped();
        for known in [None, Some(&dropped)] {
            for slot in [None, Some(Lsn::new(999))] {
                assert_eq!(judge(known, &HERE, slot), Ok(Knowledge::None));
            }
        }
    }

    #[test]
    fn each_thing_that_can_have_happened_is_told_apart() {
        let (lsn, at) = (Lsn::new, |position| Some(Lsn::new(position)));
        let known = |repeats_from: Option<u64>| {
            Ok(Knowledge::Known {
                repeats_from: repeats_from.map(Lsn::new),
            })
        };
        let (from, to) = (lsn(200), lsn(400));
        let missing = |from| {
            Err(Gap::Missing {
                slot: slot(),
                from,
                to,
            })
        };
        let moved = |from, to| {
            Err(Gap::Moved {
                slot: slot(),
                from,
                to,
            })
        };
        let history = |known| {
            let (found, confirmed) = (2, lsn(200));
            Err(Gap::OtherHistory {
                known,
                found,
                confirmed,
            })
        };
        let same = entry(|_| ());
        let parent = entry(|entry| entry.timeline = 1);
        let child = entry(|entry| entry.timeline = 3);
        let dropping = same.dropping(from);
        let rewound = Server {
            written: lsn(150),
            ..HERE
        };
        let left = |position| Server {
            left_at: Some(lsn(position)),
            ..HERE
        };
        let cases = [
            ("where it was", &same, HERE, at(200), known(None)),
            (
                "behind: a crash of either side",
                &same,
                HERE,
                at(150),
                known(Some(150)),
            ),
            ("dropped", &same, HERE, None, missing(from)),
            (
                "advanced or made anew",
                &same,
                HERE,
                at(201),
                moved(from, lsn(201)),
            ),
            (
                "dropped on purpose",
                &dropping,
                HERE,
                None,
                Ok(Knowledge::Dropped),
            ),
            (
                "not dropped after all",
                &dropping,
                HERE,
                at(200),
                known(None),
            ),
            (
                "not dropped, and advanced",
                &dropping,
                HERE,
                at(300),
                moved(from, lsn(300)),
            ),
            (
                "the disk of yesterday",
                &same,
                rewound,
                at(100),
                Err(Gap::Rewound {
                    confirmed: from,
                    written: lsn(150),
                }),
            ),
            ("an old primary", &child, HERE, at(100), history(3)),
            (
                "a branch of another history",
                &parent,
                HERE,
                at(100),
                history(1),
            ),
            ("failover", &parent, left(300), at(200), known(None)),
            (
                "failover, slot behind",
                &parent,
                left(300),
                at(90),
                known(Some(90)),
            ),
            (
                "failover without the slot",
                &parent,
                left(300),
                None,
                missing(from),
            ),
            (
                "failover while it was to be dropped",
                &parent.dropping(from),
                left(300),
                None,
                missing(from),
            ),
            (
                "failover, slot made there",
                &parent,
                left(300),
                at(310),
                moved(from, lsn(310)),
            ),
            (
                "failover that lost the end",
                &parent,
                left(180),
                at(150),
                Ok(Knowledge::Ahead {
                    left_at: lsn(180),
                    confirmed: from,
                }),
            ),
            (
                "failover that lost the end, slot made there",
                &parent,
                left(180),
                at(190),
                moved(lsn(180), lsn(190)),
            ),
        ];
        for (what, entry, server, slot, expected) in cases {
            assert_eq!(judge(Some(entry), &server, slot), expected, "{what}");
        }
    }

    #[test]
    fn another_cluster_and_another_relays_entry_are_named() {
        let other = entry(|entry| entry.system_id = "88".into());
        let gap = judge(Some(&other), &HERE, Some(Lsn::new(5))).unwrap_err();
        assert_eq!(
            gap.to_string(),
            "the server is another one than the one that was streamed from"
        );
        assert!(gap.detail().contains("identifier 88, confirmed up to 0/C8"));
        let shared = entry(|entry| entry.slot = "billing".into());
        let gap = judge(Some(&shared), &HERE, None).unwrap_err();
        assert_eq!(
            gap.to_string(),
            "the position journal's entry is of slot \"billing\" of database \"shop\""
        );
        assert_eq!((gap.range(), gap.is_loss()), (None, false));
    }
}
