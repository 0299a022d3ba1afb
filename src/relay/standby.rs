//! A standby that does not have what was streamed: the primary may have it.

use std::fmt;

use crate::journal::Gap;
use crate::lsn::Lsn;

/// What would be a loss, or an older server, on a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnStandby {
    NoSlot,
    /// The server has invalidated its own.
    Invalidated {
        reason: String,
    },
    /// It has not replayed what was confirmed.
    Behind {
        confirmed: Lsn,
        replayed: Lsn,
    },
    /// Its slot stands beyond what was confirmed to the primary's.
    OtherSlot {
        confirmed: Lsn,
        stands: Lsn,
    },
}

impl OnStandby {
    /// `None` for what is the same on a primary and on a standby.
    pub(super) const fn in_place_of(gap: &Gap) -> Option<Self> {
        match gap {
            Gap::Missing { .. } => Some(Self::NoSlot),
            Gap::Rewound { confirmed, written } => Some(Self::Behind {
                confirmed: *confirmed,
                replayed: *written,
            }),
            Gap::Moved { from, to, .. } => Some(Self::OtherSlot {
                confirmed: *from,
                stands: *to,
            }),
            Gap::OtherSlot { .. } | Gap::OtherSystem { .. } | Gap::OtherHistory { .. } => None,
        }
    }

    pub(super) fn message(&self, slot: &str) -> String {
        format!("the server is a standby, and replication slot \"{slot}\" {self}")
    }

    pub(super) fn detail(&self) -> String {
        let found = match self {
            Self::NoSlot => String::new(),
            Self::Invalidated { reason } => format!("The reason is \"{reason}\". "),
            Self::Behind {
                confirmed,
                replayed,
            } => format!("It has replayed up to {replayed}, and {confirmed} was confirmed. "),
            Self::OtherSlot { confirmed, stands } => {
                format!("It stands at {stands}, and {confirmed} was confirmed. ")
            }
        };
        format!("{found}What became of the primary's slot shows on the primary.")
    }

    pub(super) fn hint() -> String {
        "The relay looks again until it meets the primary. Name the primary in postgres.url, or all hosts with postgres.target_session_attrs = \"primary\".".to_owned()
    }
}

impl fmt::Display for OnStandby {
    /// What follows `replication slot "name"` in a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "does not exist on it",
            Self::Invalidated { .. } => "was invalidated on it",
            Self::Behind { .. } => "was confirmed further than it has replayed",
            Self::OtherSlot { .. } => "stands further on it than was confirmed",
        })
    }
}
