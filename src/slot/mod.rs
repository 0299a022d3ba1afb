//! `outboxd slot drop` and `outboxd slot advance`: what is given up is shown, the slot's name is asked
//! for, and the position journal learns what was done, so that the next start does not take it for a gap.

mod confirm;
mod hand;
mod sight;

use std::time::Duration;

use crate::cli::{AdvanceTo, SlotAdvanceArgs, SlotDropArgs, exit};
use crate::config::Config;
use crate::observe::{Problem, say};
use crate::postgres::slot;
use crate::postgres::{ObjectError, PostgresError};
use crate::relay::RelayError;
use confirm::confirm;
use hand::Hand;

/// For the journal, and for a reader that was told to end.
const PATIENCE: Duration = Duration::from_secs(15);

pub async fn drop(config: &Config, args: &SlotDropArgs) -> Result<u8, Problem> {
    let mut hand = Hand::open(config).await?;
    hand.refuse_what_is_no_relays()?;
    hand.sight.show();
    let (from, to) = hand.sight.unsent(hand.sight.slot.server_lsn);
    say(&format!(
        "Dropping it gives up every event that was committed from {from} to {to} and is not in the table any more."
    ));
    hand.refuse_in_use(args.terminate)?;
    confirm(config.slot.name.as_str(), args.yes.as_deref(), "drop it")?;
    hand.take_lead(args.terminate).await?;
    let claim = hand.sight.claim.clone();
    if let Some(claim) = &claim {
        let written = hand.write(&claim.dropping()).await;
        written.map_err(without_journal)?;
    }
    let dropped = slot::drop_when_free(&mut hand.session, &config.slot.name, PATIENCE).await;
    dropped.map_err(not_dropped)?;
    say(&format!("dropped: replication slot {}", config.slot.name));
    if let Some(claim) = &claim {
        // What was written before says enough.
        if hand.write(&claim.dropped()).await.is_err() {
            say("The position journal was not told that it is gone; the next start sees it.");
        }
    }
    Ok(exit::DRAINED)
}

pub async fn advance(config: &Config, args: &SlotAdvanceArgs) -> Result<u8, Problem> {
    let mut hand = Hand::open(config).await?;
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
    confirm(config.slot.name.as_str(), args.yes.as_deref(), "advance it")?;
    hand.take_lead(false).await?;
    hand.refuse_out_of_reach(target)?;
    say(
        "The server reads all of that WAL, which can take minutes. Interrupted, the slot stays where it is; where the server was done already, the next start calls it a gap.",
    );
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

fn of_server(error: PostgresError) -> Problem {
    RelayError::from(error).problem()
}

fn of_object(error: ObjectError) -> Problem {
    RelayError::from(error).problem()
}

/// A server that said no did nothing; of one that said nothing nobody knows.
fn not_dropped(error: PostgresError) -> Problem {
    let refused = error.sqlstate().is_some();
    let problem = of_server(error);
    match refused {
        true => problem,
        false => Problem {
            detail: Some("Whether the slot was dropped is not known: outboxd status shows it, and the next start sees it.".to_owned()),
            ..problem
        },
    }
}

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
