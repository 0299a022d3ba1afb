//! What a start would make of Kafka Connect's offset.

use crate::config::Config;
use crate::connect::{AtSlot, Start};
use crate::journal::{Entry, Gap, Knowledge};
use crate::lsn::Lsn;
use crate::postgres::preflight::Check;
use crate::relay::{AT_SLOT, Foretold, ForetoldOffset, ForetoldSlot};

const NAME: &str = "connector offset";

/// Without a journal that was read. `None` where a start would look at more than that.
pub(super) fn without_journal(config: &Config) -> Option<Check> {
    useless(config).map(|foretold| line(config, &foretold, None, false))
}

fn useless(config: &Config) -> Option<Foretold> {
    let options = config.relay.handover.as_ref()?;
    let has_journal = config.relay.journal.is_some();
    Foretold::useless(options, config.slot.name.as_str(), has_journal)
}

/// `None` without a connector. `entry` is the journal's, `judged` what it comes to.
pub(super) async fn ask(
    config: &Config,
    entry: Option<&Entry>,
    judged: &Result<Knowledge, Gap>,
    slot: Option<ForetoldSlot>,
    written: Lsn,
) -> Option<Foretold> {
    let options = config.relay.handover.as_ref()?;
    if let Some(foretold) = useless(config) {
        return Some(foretold);
    }
    Some(Foretold::ask(&config.kafka, options, entry, judged, slot, written).await)
}

/// Where a start begins, and why there. `is_refused` where it has to be told `--accept-gap` first.
pub(super) fn line(
    config: &Config,
    foretold: &Foretold,
    slot: Option<ForetoldSlot>,
    is_refused: bool,
) -> Check {
    let (connector, store) = (foretold.connector(), foretold.store());
    let start = match (is_refused, slot) {
        (true, _) => "with --accept-gap a start begins",
        (false, Some(slot)) if slot.is_held => "once the connector is stopped a start begins",
        (false, _) => "a start begins",
    };
    let stands = slot.map(|slot| slot.stands);
    let at_slot = |why: String| format!("{why}: {start} at {}", place(stands));
    let unexpected = |found| Check::warning(NAME, found, AT_SLOT);
    match &foretold.offset {
        ForetoldOffset::Useless(reason) => {
            let why = format!("connector \"{connector}\" in {store} is not looked at, {reason}");
            unexpected(at_slot(why))
        }
        ForetoldOffset::NoSlot => Check::ok(
            NAME,
            format!(
                "connector \"{connector}\" in {store} is not looked at: there is no slot that it could have used"
            ),
        ),
        ForetoldOffset::Known => Check::ok(
            NAME,
            format!(
                "connector \"{connector}\" in {store} does not count any more: the relay has streamed from the slot before, and nobody has moved it since"
            ),
        ),
        ForetoldOffset::Unread(error) => {
            let problem = error.problem();
            let detail = problem.detail.map(|detail| format!(". {detail}"));
            let found = format!("{}{}", problem.message, detail.unwrap_or_default());
            let hint = config.door.reword(&problem.hint.unwrap_or_default());
            Check::error(NAME, found, hint)
        }
        ForetoldOffset::Unreadable(reason) => {
            let why = format!("connector \"{connector}\" in {store} cannot be read, {reason}");
            unexpected(at_slot(why))
        }
        ForetoldOffset::Read { offset: None, .. } => {
            let why = format!("{store} has none of connector \"{connector}\"");
            unexpected(at_slot(why))
        }
        ForetoldOffset::Read {
            offset: Some(offset),
            start: begins,
        } => {
            let found = format!("{store} has connector \"{connector}\" at {offset}");
            match begins {
                Start::After(_) => Check::ok(
                    NAME,
                    format!("{found}: {start} after that, where the slot's stream has it"),
                ),
                Start::AtSlot(reason) => told(*reason)(at_slot(format!("{found}, {reason}"))),
            }
        }
    }
}

fn told(reason: AtSlot) -> fn(String) -> Check {
    match reason.is_unexpected() {
        true => |found| Check::warning(NAME, found, AT_SLOT),
        false => |found| Check::ok(NAME, found),
    }
}

fn place(stands: Option<Lsn>) -> String {
    stands.map_or_else(
        || "the slot's position".to_owned(),
        |stands| format!("the slot's position {stands}"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;
    use crate::connect::{ConnectorOffset, Standing, decide};
    use crate::relay::{RelayError, Useless};

    const SET: [&str; 3] = [
        "connect.offset_topic=offsets",
        "connect.connector=shop",
        "connect.server=prefix",
    ];

    fn said(offset: ForetoldOffset, is_held: bool, is_refused: bool) -> (String, String) {
        let config = config(&SET);
        let options = config.relay.handover.clone().unwrap();
        let foretold = Foretold::new(options, offset);
        let stands = Lsn::new(256);
        let slot = Some(ForetoldSlot { stands, is_held });
        let check = line(&config, &foretold, slot, is_refused);
        (check.outcome.to_string(), check.found)
    }

    fn read(json: Option<&str>) -> ForetoldOffset {
        let offset = json.map(|json| ConnectorOffset::from_json(json.as_bytes()).unwrap());
        let standing = Standing {
            confirmed: Lsn::new(256),
            written: Lsn::new(4096),
        };
        let start = decide(offset.as_ref(), standing);
        ForetoldOffset::Read { offset, start }
    }

    #[test]
    fn the_line_says_what_was_found_and_where_a_start_begins() {
        let row = |lsn: u64| {
            format!(
                "{{\"lsn\":{lsn},\"lsn_commit\":256,\"messageType\":\"INSERT\",\"txId\":7,\"ts_usec\":5}}"
            )
        };
        let snapshot = r#"{"lsn":200,"snapshot":"INITIAL","snapshot_completed":true}"#;
        let at_slot = "a start begins at the slot's position 0/100";
        let ours = "topic offsets has connector \"shop\" at";
        let theirs = "connector \"shop\" in topic offsets";
        let cases = [
            (
                read(Some(&row(512))),
                "ok",
                format!(
                    "{ours} a row of transaction 7 at 0/200: a start begins after that, where the slot's stream has it"
                ),
            ),
            (
                read(Some(&row(255))),
                "ok",
                format!(
                    "{ours} a row of transaction 7 at 0/FF: a start begins after that, where the slot's stream has it"
                ),
            ),
            (
                read(Some(
                    r#"{"lsn":200,"lsn_commit":200,"messageType":"COMMIT"}"#,
                )),
                "ok",
                format!(
                    "{ours} the commit at 0/C8, everything that the connector's offset stands for is confirmed: {at_slot}"
                ),
            ),
            (
                read(Some(snapshot)),
                "ok",
                format!(
                    "{ours} the end of a snapshot at 0/C8, the connector's offset is of its snapshot: {at_slot}"
                ),
            ),
            (
                read(Some(&row(8192))),
                "warning",
                format!(
                    "{ours} a row of transaction 7 at 0/2000, the connector's offset 0/2000 lies beyond 0/1000, where the server writes: it belongs to another server, or this one was restored: {at_slot}"
                ),
            ),
            (
                read(None),
                "warning",
                format!("topic offsets has none of connector \"shop\": {at_slot}"),
            ),
            (
                ForetoldOffset::Unreadable("no such topic".to_owned()),
                "warning",
                format!("{theirs} cannot be read, no such topic: {at_slot}"),
            ),
            (
                ForetoldOffset::Useless(Useless::OtherSlot {
                    theirs: "own".to_owned(),
                }),
                "warning",
                format!(
                    "{theirs} is not looked at, the connector's offset is of slot \"own\": {at_slot}"
                ),
            ),
            (
                ForetoldOffset::Unread(RelayError::ProducerGone),
                "error",
                "the Kafka producer ended unexpectedly".to_owned(),
            ),
            (
                ForetoldOffset::NoSlot,
                "ok",
                format!("{theirs} is not looked at: there is no slot that it could have used"),
            ),
            (
                ForetoldOffset::Known,
                "ok",
                format!(
                    "{theirs} does not count any more: the relay has streamed from the slot before, and nobody has moved it since"
                ),
            ),
        ];
        for (offset, outcome, found) in cases {
            assert_eq!(said(offset, false, false), (outcome.to_owned(), found));
        }
    }

    #[test]
    fn a_slot_that_is_in_use_and_a_gap_come_before_the_start() {
        let json = r#"{"lsn":512,"lsn_commit":256,"messageType":"INSERT","txId":7,"ts_usec":5}"#;
        let found = |is_held, is_refused| said(read(Some(json)), is_held, is_refused).1;
        assert!(
            found(true, false).contains(": once the connector is stopped a start begins after")
        );
        assert!(found(false, true).contains(": with --accept-gap a start begins after"));
    }

    #[test]
    fn without_a_journal_the_offset_is_told_to_be_of_no_use() {
        let settings = [&SET[..], &["position.topic="]].concat();
        let found = without_journal(&config(&settings)).unwrap().found;
        assert!(
            found.ends_with("as the connector left it: a start begins at the slot's position"),
            "{found}"
        );
        assert_eq!(without_journal(&config(&SET)), None);
        assert_eq!(without_journal(&config(&[])), None);
    }
}
