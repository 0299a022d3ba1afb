//! `outboxd slot drop` and `outboxd slot advance`: what is given up is shown, the slot's name is asked
//! for, and the position journal learns what was done, so that the next start does not take it for a gap.

mod confirm;

use std::time::Duration;

use tokio_postgres::Client;

use crate::cli::{AdvanceTo, SlotAdvanceArgs, SlotDropArgs, exit};
use crate::config::Config;
use crate::journal::{Entry, SlotState};
use crate::lsn::Lsn;
use crate::observe::{Problem, say};
use crate::postgres::slot::{self, Leader, SlotDescription, SlotVerdict};
use crate::postgres::{self, ObjectError, PostgresError, ReplicationSession, SystemIdentity};
use crate::relay::{RelayError, journal};
use confirm::confirm;

/// For the journal, and for a reader that was told to end.
const PATIENCE: Duration = Duration::from_secs(15);

pub async fn drop(config: &Config, args: &SlotDropArgs) -> Result<u8, Problem> {
    let mut hand = Hand::open(config).await?;
    hand.refuse_what_is_no_relays()?;
    hand.show();
    let (from, to) = hand.unsent(hand.found.server_lsn);
    say(&format!(
        "Dropping it gives up every event that was committed from {from} to {to} and is not in the table any more."
    ));
    hand.refuse_in_use(args.terminate)?;
    confirm(config.slot.name.as_str(), args.yes.as_deref(), "drop it")?;
    hand.take_lead(args.terminate).await?;
    // Before the slot is dropped: until it is seen to be gone the claim stays.
    if let Some(known) = hand.known.clone() {
        hand.write(&known.dropping(known.confirmed_lsn)).await?;
    }
    let dropped = slot::drop_when_free(&mut hand.session, &config.slot.name);
    let dropped = tokio::time::timeout(PATIENCE, dropped).await;
    let silent = |_| PostgresError::Silent { after: PATIENCE };
    dropped.map_err(silent).flatten().map_err(of_server)?;
    say(&format!("dropped: replication slot {}", config.slot.name));
    if let Some(known) = hand.known.clone() {
        // What was written before says enough.
        if hand
            .write(&known.dropping(known.confirmed_lsn).dropped())
            .await
            .is_err()
        {
            say("The position journal was not told that it is gone; the next start sees it.");
        }
    }
    Ok(exit::DRAINED)
}

pub async fn advance(config: &Config, args: &SlotAdvanceArgs) -> Result<u8, Problem> {
    let mut hand = Hand::open(config).await?;
    hand.refuse_what_is_no_relays()?;
    hand.show();
    hand.refuse_in_use(false)?;
    let target = hand.target(&args.to).await?;
    let (from, to) = hand.unsent(target);
    say(&format!(
        "Advancing it to {to} means that no event committed from {from} to there is ever sent from it: {} of WAL.",
        bytesize::ByteSize(to.bytes_since(from))
    ));
    say("What of them is in the table still, outboxd snapshot can publish.");
    confirm(config.slot.name.as_str(), args.yes.as_deref(), "advance it")?;
    hand.take_lead(false).await?;
    let advanced = slot::advance(&mut hand.session, &config.slot.name, target).await;
    let stands = advanced.map_err(of_object)?;
    say(&format!(
        "advanced: replication slot {} from {from} to {stands}, {} skipped",
        config.slot.name,
        bytesize::ByteSize(stands.bytes_since(from))
    ));
    if let Some(entry) = hand.entry_at(stands) {
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

/// The slot, its server and what the journal knows of it.
struct Hand<'a> {
    config: &'a Config,
    /// For the lead, and for what is done with it.
    session: ReplicationSession,
    client: Client,
    server: SystemIdentity,
    found: SlotDescription,
    leader: Option<Leader>,
    /// Absent where the journal has no claim to this slot.
    known: Option<Entry>,
}

fn of_server(error: PostgresError) -> Problem {
    RelayError::from(error).problem()
}

fn of_object(error: ObjectError) -> Problem {
    RelayError::from(error).problem()
}

impl<'a> Hand<'a> {
    async fn open(config: &'a Config) -> Result<Self, Problem> {
        let connected = postgres::connect_replication(&config.postgres).await;
        let mut session = connected.map_err(of_server)?;
        let timeout = config.postgres.wal_sender_timeout;
        session.prepare(timeout).await.map_err(of_server)?;
        let server = session.identify_system().await.map_err(of_server)?;
        let options = postgres::Options {
            hosts: vec![session.host().clone()],
            ..config.postgres.clone()
        };
        let client = postgres::connect(&options).await.map_err(of_server)?;
        let name = &config.slot.name;
        let found = SlotDescription::read(&client, name)
            .await
            .map_err(of_server)?;
        let Some(found) = found else {
            return Err(Problem {
                hint: Some(
                    "There is nothing to do: a start makes it, or says what is missing.".to_owned(),
                ),
                ..Problem::new(format!("replication slot \"{name}\" does not exist"))
            });
        };
        let leader = Leader::read(&client, name).await.map_err(of_server)?;
        let known = known(config, &server).await?;
        Ok(Self {
            config,
            session,
            client,
            server,
            found,
            leader,
            known,
        })
    }

    fn show(&self) {
        let slot = &self.found;
        let lsn = |lsn: Option<Lsn>| lsn.map_or("nowhere".to_owned(), |lsn| lsn.to_string());
        let size = |bytes| bytesize::ByteSize(bytes).to_string();
        let mut facts = vec![
            (
                "held back",
                format!(
                    "{} from {}",
                    size(slot.retained_bytes()),
                    lsn(slot.restart_lsn)
                ),
            ),
            ("confirmed up to", lsn(slot.confirmed_flush_lsn)),
            ("not confirmed", size(slot.lag_bytes())),
        ];
        if let Some(known) = &self.known {
            facts.push(("in the journal", known.confirmed_lsn.to_string()));
        }
        if let Some(reason) = slot.lost_because() {
            facts.push(("lost", reason));
        }
        if let Some(holder) = &slot.holder {
            facts.push(("in use by", holder.to_string()));
        }
        if let Some(leader) = &self.leader {
            facts.push(("the lead has", format!("process {}", leader.pid)));
        }
        let database = slot.database.as_deref().unwrap_or_default();
        say(&format!("Slot {} of database {database}", slot.name));
        for (name, found) in facts {
            say(&format!("  {name:<18}{found}"));
        }
    }

    /// What lies between what is known to be in Kafka and `to`.
    fn unsent(&self, to: Lsn) -> (Lsn, Lsn) {
        let known = self.known.as_ref().map(|known| known.confirmed_lsn);
        let from = known.or(self.found.confirmed_flush_lsn).unwrap_or_default();
        (from.min(to), to)
    }

    fn refuse_what_is_no_relays(&self) -> Result<(), Problem> {
        match self.found.verdict(&self.config.postgres.database, None) {
            SlotVerdict::Usable | SlotVerdict::Lost { .. } | SlotVerdict::Active(_) => Ok(()),
            verdict => {
                let name = self.config.slot.name.as_str();
                Err(Problem {
                    message: format!("replication slot \"{name}\" {verdict}"),
                    detail: verdict.detail(),
                    hint: verdict.hint(name),
                })
            }
        }
    }

    fn refuse_in_use(&self, terminates: bool) -> Result<(), Problem> {
        let name = &self.config.slot.name;
        let message = match (&self.found.holder, &self.leader) {
            (Some(holder), _) => format!("replication slot \"{name}\" is in use by {holder}"),
            (None, Some(leader)) => format!(
                "a relay has the lead of slot \"{name}\": process {}",
                leader.pid
            ),
            (None, None) => return Ok(()),
        };
        if terminates {
            return Ok(());
        }
        Err(Problem {
            hint: Some("Stop every relay of this slot first: one that runs makes a new slot at once. slot drop --terminate ends the session that has it.".to_owned()),
            ..Problem::new(message)
        })
    }

    /// So that no relay begins meanwhile. The lead ends with the process.
    async fn take_lead(&mut self, terminates: bool) -> Result<(), Problem> {
        let key = self.config.slot.name.advisory_key();
        let taken = self.session.try_lock(key).await.map_err(of_server)?;
        let readers = [
            self.leader.as_ref().map(|leader| leader.pid),
            self.found.holder.as_ref().map(|holder| holder.pid),
        ];
        if terminates {
            for pid in readers.into_iter().flatten() {
                let end = "SELECT pg_terminate_backend($1)";
                let ended = self.client.query_one(end, &[&pid]).await;
                ended.map_err(|error| of_server(error.into()))?;
            }
        }
        if taken {
            return Ok(());
        }
        if terminates {
            let canceller = self.session.canceller();
            let lock = tokio::time::timeout(PATIENCE, self.session.lock(key)).await;
            match lock {
                Ok(locked) => return locked.map_err(of_server),
                // A backend that waits for a lock does not see that its client is gone.
                Err(_) => std::mem::drop(canceller.cancel().await),
            }
        }
        Err(Problem {
            hint: Some("Stop every relay of this slot first.".to_owned()),
            ..Problem::new("another relay has taken the lead")
        })
    }

    async fn target(&self, to: &AdvanceTo) -> Result<Lsn, Problem> {
        let written = slot::written(&self.client).await.map_err(of_object)?;
        let target = match to {
            AdvanceTo::Current => written,
            AdvanceTo::Position(text) => text.parse().map_err(|_| Problem {
                hint: Some("Give it as the server prints it: 2F/60000000; or current.".to_owned()),
                ..Problem::new(format!("\"{text}\" is no position of the log"))
            })?,
        };
        let stands = self.found.confirmed_flush_lsn.unwrap_or_default();
        let name = &self.config.slot.name;
        if let SlotVerdict::Lost { .. } = self.found.verdict(&self.config.postgres.database, None) {
            return Err(Problem {
                hint: Some("It can only be dropped: outboxd slot drop.".to_owned()),
                ..Problem::new(format!(
                    "replication slot \"{name}\" was invalidated by the server"
                ))
            });
        }
        if target <= stands || target > written {
            return Err(Problem {
                hint: Some(format!(
                    "Give a position behind {stands}, up to {written}; or current."
                )),
                ..Problem::new(format!(
                    "replication slot \"{name}\" cannot be advanced to {target}"
                ))
            });
        }
        Ok(target)
    }

    /// What the journal is to say of the slot that stands there now, where it does not say so.
    fn entry_at(&self, stands: Lsn) -> Option<Entry> {
        let known = self.known.as_ref()?.kept();
        let same = known.timeline == self.server.timeline;
        if same && known.confirmed_lsn >= stands {
            return None;
        }
        Some(known.on_timeline(self.server.timeline, stands))
    }

    async fn write(&self, entry: &Entry) -> Result<(), Problem> {
        let Some(options) = &self.config.relay.journal else {
            return Ok(());
        };
        let written = journal::write_once(&self.config.kafka, options, entry, PATIENCE).await;
        written.map_err(|error| error.problem())
    }
}

/// The journal's claim to this slot of this server. One to another is not ours to change.
async fn known(config: &Config, server: &SystemIdentity) -> Result<Option<Entry>, Problem> {
    let Some(options) = &config.relay.journal else {
        return Ok(None);
    };
    let read = journal::read(config.kafka.clone(), options.clone()).await;
    let stored = read.map_err(|error| error.problem())?;
    if let Some(error) = stored.unreadable {
        return Err(error.problem());
    }
    let Some(entry) = stored
        .newest
        .filter(|entry| entry.state != SlotState::Dropped)
    else {
        return Ok(None);
    };
    let (database, slot) = (config.postgres.database.as_str(), config.slot.name.as_str());
    let is_ours = entry.system_id == server.system_id
        && (entry.database.as_str(), entry.slot.as_str()) == (database, slot);
    if !is_ours {
        say(&format!(
            "The position journal's entry is of slot {} of database {} of server {}: it is left as it is.",
            entry.slot, entry.database, entry.system_id
        ));
    }
    Ok(Some(entry).filter(|_| is_ours))
}
