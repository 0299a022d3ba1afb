//! `outboxd slot drop` and `outboxd slot advance`: what is given up is shown, the slot's name is asked
//! for, and the position journal learns what was done, so that the next start does not take it for a gap.

mod confirm;
mod hand;
mod sight;

use std::time::Duration;

use crate::cli::{AdvanceTo, SlotAdvanceArgs, SlotDropArgs, exit};
use crate::config::Config;
use crate::errand::Errand;
use crate::lsn::Lsn;
use crate::observe::{Problem, say};
use crate::postgres::slot::{self, SlotName};
use crate::postgres::{ObjectError, PostgresError};
use crate::relay::RelayError;
use confirm::confirm;
use hand::Hand;

/// For the journal, and for a reader that was told to end.
const PATIENCE: Duration = Duration::from_secs(15);

pub async fn drop(config: &Config, args: &SlotDropArgs, errand: &Errand) -> Result<u8, Problem> {
    let mut hand = errand
        .attend(Hand::open(config, errand.progress()))
        .await??;
    hand.refuse_what_is_no_relays()?;
    hand.sight.show();
    let (from, to) = hand.sight.unsent(hand.sight.slot.server_lsn);
    say(&format!(
        "Dropping it gives up every event that was committed from {from} to {to} and is not in the table any more."
    ));
    hand.refuse_in_use(args.terminate)?;
    let name = config.slot.name.as_str();
    let confirmed = errand.attend(confirm(name, args.yes.as_deref(), "drop it"));
    confirmed.await??;
    let taken = errand.attend(hand.take_lead(args.terminate)).await;
    taken.map_err(|stopped| {
        stopped.with(
            "The slot was not dropped; with --terminate, sessions may have been ended.",
            "Run it again.",
        )
    })??;
    let given_up = errand.attend(give_up(config, &mut hand)).await;
    given_up.unwrap_or_else(|stopped| {
        Err(stopped.with(
            DROP_UNKNOWN,
            "Look with outboxd status, and run it again where the slot is still there.",
        ))
    })
}

async fn give_up(config: &Config, hand: &mut Hand<'_>) -> Result<u8, Problem> {
    let claim = hand.sight.claim.clone();
    if let Some(claim) = &claim {
        let written = hand.write(&claim.dropping()).await;
        written.map_err(without_journal)?;
    }
    let dropped = slot::drop_when_free(&mut hand.session, &config.slot.name, PATIENCE).await;
    dropped.map_err(|error| not_dropped(&config.slot.name, error))?;
    say(&format!("dropped: replication slot {}", config.slot.name));
    if let Some(claim) = &claim {
        // What was written before says enough.
        if hand.write(&claim.dropped()).await.is_err() {
            say("The position journal was not told that it is gone; the next start sees it.");
        }
    }
    Ok(exit::DRAINED)
}

pub async fn advance(
    config: &Config,
    args: &SlotAdvanceArgs,
    errand: &Errand,
) -> Result<u8, Problem> {
    let mut hand = errand
        .attend(Hand::open(config, errand.progress()))
        .await??;
    hand.refuse_what_is_no_relays()?;
    hand.sight.show();
    hand.refuse_in_use(false)?;
    let target = match &args.to {
        AdvanceTo::Current => hand.sight.reach.written,
        AdvanceTo::Position(text) => text.parse().map_err(|_| Problem {
            hint: Some("Give it as the server prints it: 2F/60000000; or current.".to_owned()),
            ..Problem::new(format!("\"{text}\" is no position of the log"))
        })?,
    };
    hand.refuse_out_of_reach(target)?;
    let (from, to) = hand.sight.unsent(target);
    say(&format!(
        "Advancing it to {to} means that no event committed from {from} to there is ever sent from it: {} of WAL.",
        bytesize::ByteSize(to.bytes_since(from))
    ));
    say(
        "What of them is in the table still, outboxd snapshot can publish: before a relay with housekeeping.retain starts, which may delete them.",
    );
    let name = config.slot.name.as_str();
    let confirmed = errand.attend(confirm(name, args.yes.as_deref(), "advance it"));
    confirmed.await??;
    errand.attend(hand.take_lead(false)).await??;
    hand.refuse_out_of_reach(target)?;
    say(
        "The server reads all of that WAL, which can take minutes. Interrupted, the slot stays where it is; where the server was done already, the next start calls it a gap.",
    );
    let advanced = errand
        .attend(move_on(config, &mut hand, from, target))
        .await;
    advanced.unwrap_or_else(|stopped| {
        Err(stopped.with(
            "The server was asked to give it up, and the slot stays where it was; where the server was done already, the next start calls it a gap.",
            "Look with outboxd status, and run it again.",
        ))
    })
}

async fn move_on(
    config: &Config,
    hand: &mut Hand<'_>,
    from: Lsn,
    target: Lsn,
) -> Result<u8, Problem> {
    let stands = hand.advance(target).await?;
    say(&format!(
        "advanced: replication slot {} from {from} to {stands}, {} skipped",
        config.slot.name,
        bytesize::ByteSize(stands.bytes_since(from))
    ));
    say(
        "The server has it on disk with its next checkpoint: after a crash before that, skipped events come again.",
    );
    let claim = hand.sight.claim.as_ref();
    if let Some(entry) = claim.and_then(|claim| claim.advanced(stands)) {
        hand.write(&entry).await.map_err(|problem| Problem {
            detail: Some("The slot was advanced.".to_owned()),
            hint: Some(
                "The next start takes it for a gap: start once with --accept-gap.".to_owned(),
            ),
            ..problem
        })?;
    }
    Ok(exit::DRAINED)
}

/// `doing`: what cannot be done with the slot where the server says no.
fn of_server(name: &SlotName, doing: &str, error: PostgresError) -> Problem {
    let refused = matches!(error, PostgresError::Server(_));
    let problem = RelayError::from(error).problem();
    let message = match refused {
        true => format!(
            "replication slot \"{name}\" cannot be {doing}: {}",
            problem.message
        ),
        false => problem.message,
    };
    Problem {
        message,
        hint: problem.hint.or_else(|| Some(IN_THE_LOG.to_owned())),
        ..problem
    }
}

const IN_THE_LOG: &str = "See the server's log for more; outboxd status shows the slot.";

fn of_object(name: &SlotName, doing: &str, error: ObjectError) -> Problem {
    match error {
        ObjectError::Session(error) => of_server(name, doing, error),
        error => RelayError::from(error).problem(),
    }
}

/// A server that said no did nothing; of one that said nothing nobody knows.
fn not_dropped(name: &SlotName, error: PostgresError) -> Problem {
    let refused = error.sqlstate().is_some();
    let problem = of_server(name, "dropped", error);
    match refused {
        true => problem,
        false => Problem {
            detail: Some(DROP_UNKNOWN.to_owned()),
            ..problem
        },
    }
}

const DROP_UNKNOWN: &str = "Whether the slot was dropped is not known: outboxd status shows it, and the next start sees it.";

const WITHOUT_JOURNAL: &str =
    "With --set position.topic= the journal is left alone; the next start then needs --accept-gap.";

/// The night on which the disk fills because Kafka is away is the one for these commands.
fn without_journal(problem: Problem) -> Problem {
    let hint = match problem.hint {
        Some(hint) => format!("{hint} {WITHOUT_JOURNAL}"),
        None => WITHOUT_JOURNAL.to_owned(),
    };
    Problem {
        hint: Some(hint),
        ..problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ServerMessage;

    #[test]
    fn what_the_server_refuses_names_the_slot_and_what_to_do() {
        let name: SlotName = "outbox".parse().unwrap();
        let refusal = |sqlstate: &str, hint: Option<&str>| {
            let message = ServerMessage {
                severity: "ERROR".to_owned(),
                sqlstate: sqlstate.to_owned(),
                message: "no".to_owned(),
                detail: None,
                hint: hint.map(str::to_owned),
                routine: None,
            };
            of_server(&name, "advanced", PostgresError::Server(Box::new(message)))
        };
        let problem = refusal("55000", None);
        assert_eq!(
            problem.message,
            "replication slot \"outbox\" cannot be advanced: ERROR 55000: no"
        );
        assert_eq!(problem.hint.as_deref(), Some(IN_THE_LOG));
        assert_eq!(refusal("55000", Some("Do.")).hint.as_deref(), Some("Do."));
        // A slot can be undefined as well as a publication.
        assert_eq!(refusal("42704", None).hint.as_deref(), Some(IN_THE_LOG));
        let closed = of_server(&name, "advanced", PostgresError::Closed);
        assert_eq!(closed.message, "the server closed the connection");
        assert!(!closed.hint.unwrap().contains("by itself"));
    }
}
