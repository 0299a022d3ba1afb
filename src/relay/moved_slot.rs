//! A slot that stands beyond the position journal although Kafka Connect may have used it.

use super::handover::{Found, Options};
use crate::connect::Testimony;
use crate::journal::Gap;
use crate::lsn::Lsn;
use crate::observe::Problem;

/// With what the connector's offset says of it, which may be why, and is no proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedSlot {
    pub gap: Gap,
    pub connector: String,
    /// Where its offset is kept.
    pub store: String,
    pub offset: SeenOffset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenOffset {
    /// Somebody reads the slot: the connector may still run.
    InUse,
    Unreadable {
        reason: String,
    },
    Read(Testimony),
}

impl MovedSlot {
    /// `found` is absent while the slot is in use; it stands at `stands`, and the server writes at
    /// `written`.
    pub(super) fn new(
        gap: Gap,
        options: &Options,
        found: Option<&Found>,
        (stands, written): (Lsn, Lsn),
    ) -> Self {
        let offset = match found {
            None => SeenOffset::InUse,
            Some(Err(reason)) => SeenOffset::Unreadable {
                reason: reason.clone(),
            },
            Some(Ok(offset)) => SeenOffset::Read(Testimony::of(offset.as_ref(), stands, written)),
        };
        Self {
            gap,
            connector: options.connector.clone(),
            store: options.store.to_string(),
            offset,
        }
    }

    pub(super) fn problem(&self) -> Problem {
        let Self {
            gap,
            connector,
            store,
            offset,
        } = self;
        let offset = match offset {
            SeenOffset::InUse => {
                "is not looked at while the slot is in use, as the connector may still run"
                    .to_owned()
            }
            SeenOffset::Unreadable { reason } => format!("cannot be read: {reason}"),
            SeenOffset::Read(testimony) => format!("in {store}: {testimony}"),
        };
        Problem {
            message: gap.to_string(),
            detail: Some(format!(
                "{} The offset of Kafka Connect's connector \"{connector}\" {offset}.",
                gap.detail()
            )),
            hint: Some(self.hint()),
        }
    }

    fn hint(&self) -> String {
        const ONLY_CONNECTOR: &str = "If nothing but the connector has used the slot since the relay stopped, and nobody has advanced it or made it anew: outboxd run --accept-gap starts after what the connector has delivered. Otherwise find out which events are missing first; with --set snapshot.mode=always it publishes the rows that are in the table before it goes on.";
        match self.offset {
            SeenOffset::InUse => format!(
                "Stop the connector: its offset is looked at once the slot is free, and --accept-gap counts from then on. {ONLY_CONNECTOR}"
            ),
            SeenOffset::Read(Testimony::MayHaveMoved { .. }) => ONLY_CONNECTOR.to_owned(),
            SeenOffset::Unreadable { .. } | SeenOffset::Read(_) => self.gap.hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::handover::OffsetStore;
    use super::*;
    use crate::connect::ConnectorOffset;

    fn problem(found: Option<&Found>) -> Problem {
        let (from, to) = (Lsn::new(256), Lsn::new(512));
        let slot = "outbox".to_owned();
        let gap = Gap::Moved { slot, from, to };
        let options = Options {
            connector: "shop".to_owned(),
            server: "prefix".to_owned(),
            slot: None,
            store: OffsetStore::File(PathBuf::from("offsets")),
        };
        MovedSlot::new(gap, &options, found, (to, Lsn::new(1024))).problem()
    }

    #[test]
    fn what_the_offset_makes_likely_is_told_and_who_has_to_decide() {
        let offset = |committed: u64| {
            let json =
                format!("{{\"lsn\":640,\"lsn_commit\":{committed},\"messageType\":\"INSERT\"}}");
            Ok(Some(ConnectorOffset::from_json(json.as_bytes()).unwrap()))
        };
        let likely = problem(Some(&offset(512)));
        assert_eq!(
            likely.message,
            "replication slot \"outbox\" stands beyond what was confirmed to it"
        );
        let detail = likely.detail.unwrap();
        assert!(
            detail.contains("up to 0/100, and the slot stands at 0/200"),
            "{detail}"
        );
        assert!(
            detail.contains("connector \"shop\" in file offsets: it has seen what was committed up to 0/200, so it may be"),
            "{detail}"
        );
        let only = "If nothing but the connector has used the slot";
        assert!(likely.hint.unwrap().starts_with(only));

        let unlikely = problem(Some(&offset(511)));
        assert!(
            unlikely
                .detail
                .unwrap()
                .contains("something else moved the slot")
        );
        let hint = unlikely.hint.unwrap();
        assert!(hint.starts_with("Find out who did it"), "{hint}");

        let unreadable = problem(Some(&Err("no such file".to_owned())));
        assert!(
            unreadable
                .detail
                .unwrap()
                .ends_with("\"shop\" cannot be read: no such file.")
        );
        assert_eq!(unreadable.hint.unwrap(), hint);

        let in_use = problem(None);
        assert!(
            in_use
                .detail
                .unwrap()
                .contains("is not looked at while the slot is in use")
        );
        assert!(in_use.hint.unwrap().starts_with("Stop the connector"));
    }
}
