//! What is to be seen of the slot, its server and the journal at one time.

use tokio_postgres::Client;

use super::hand::SEEN;
use super::{of_object, of_server, without_journal};
use crate::config::Config;
use crate::journal::{Claim, Entry, Gap, Server};
use crate::lsn::Lsn;
use crate::observe::{Problem, say};
use crate::postgres::slot::{self, Leader, Reach, SlotDescription, SlotName};
use crate::postgres::{ReplicationSession, SystemIdentity};
use crate::relay::journal;

pub(super) struct Sight {
    pub(super) slot: SlotDescription,
    /// Another session than our own.
    pub(super) leader: Option<Leader>,
    pub(super) reach: Reach,
    /// Absent where the journal has none to this slot, or is not to hear of it.
    pub(super) claim: Option<Claim>,
    /// Why it is not to hear of it.
    note: Option<String>,
}

impl Sight {
    pub(super) async fn take(
        config: &Config,
        session: &mut ReplicationSession,
        client: &Client,
    ) -> Result<Self, Problem> {
        let of_server = |error| of_server(&config.slot.name, SEEN, error);
        read_slot(config, client).await?;
        let in_recovery = reach(&config.slot.name, client).await?.in_recovery;
        // Before the slot, which then never stands behind what is read here: a relay may run.
        let entry = match in_recovery {
            true => None,
            false => newest(config).await?,
        };
        let server = session.identify_system().await.map_err(of_server)?;
        let slot = read_slot(config, client).await?;
        let leader = Leader::read(client, &config.slot.name).await;
        let own_pid = session.backend_pid();
        let mut sight = Self {
            leader: leader
                .map_err(of_server)?
                .filter(|leader| leader.pid != own_pid),
            reach: reach(&config.slot.name, client).await?,
            claim: None,
            note: in_recovery.then(|| IN_RECOVERY.to_owned()),
            slot,
        };
        if let Some(entry) = entry {
            sight.compare(config, session, &server, &entry).await?;
        }
        Ok(sight)
    }

    async fn compare(
        &mut self,
        config: &Config,
        session: &mut ReplicationSession,
        server: &SystemIdentity,
        entry: &Entry,
    ) -> Result<(), Problem> {
        let of_server = |error| of_server(&config.slot.name, SEEN, error);
        let own = server.timeline;
        let left_at = match entry.timeline < own {
            true => session.left_timeline_at(own, entry.timeline).await,
            false => Ok(None),
        };
        let here = Server {
            system_id: &server.system_id,
            timeline: own,
            database: &config.postgres.database,
            slot: config.slot.name.as_str(),
            written: self.slot.server_lsn,
            left_at: left_at.map_err(of_server)?,
        };
        let stands = self.slot.confirmed_flush_lsn.unwrap_or_default();
        match Claim::of(Some(entry), &here, stands) {
            Ok(claim) => self.claim = claim,
            Err(Gap::OtherSlot { .. } | Gap::OtherSystem { .. }) => {
                self.note = Some(format!(
                    "The position journal's entry is of slot {} of database {} of server {}: it is left as it is.",
                    entry.slot, entry.database, entry.system_id
                ));
            }
            Err(gap) => return Err(refused(&gap)),
        }
        Ok(())
    }

    /// What lies between what is known to be in Kafka and `to`.
    pub(super) fn unsent(&self, to: Lsn) -> (Lsn, Lsn) {
        let known = self.claim.as_ref().map(Claim::shared);
        let from = known.or(self.slot.confirmed_flush_lsn).unwrap_or_default();
        (from.min(to), to)
    }

    pub(super) fn show(&self) {
        let slot = &self.slot;
        let lsn = |lsn: Option<Lsn>| lsn.map_or("nowhere".to_owned(), |lsn| lsn.to_string());
        let size = |bytes| bytesize::ByteSize(bytes).to_string();
        let held = (size(slot.retained_bytes()), lsn(slot.restart_lsn));
        let mut facts = vec![
            ("held back", format!("{} from {}", held.0, held.1)),
            ("confirmed up to", lsn(slot.confirmed_flush_lsn)),
            ("not confirmed", size(slot.lag_bytes())),
        ];
        if let Some(claim) = &self.claim {
            facts.push(("in the journal", claim.shared().to_string()));
        }
        if let Some((from, to)) = self.claim.as_ref().and_then(Claim::ahead) {
            let ahead = format!("from {from} to {to}, which this server was promoted without");
            facts.push(("in Kafka alone", ahead));
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
        if let Some(note) = &self.note {
            say(note);
        }
    }
}

const IN_RECOVERY: &str = "This server is a standby: the position journal tells of the primary's slot, and is left as it is.";

/// The relay has streamed from a server that this one is not, or is not any more.
fn refused(gap: &Gap) -> Problem {
    Problem {
        message: gap.to_string(),
        detail: Some(gap.detail()),
        hint: Some("Nothing was done. Check postgres.url: what is done to this server's slot says nothing of the one that was streamed from. Where this one is meant all the same: --set position.topic= leaves the journal as it is.".to_owned()),
    }
}

async fn reach(name: &SlotName, client: &Client) -> Result<Reach, Problem> {
    let reach = slot::reach(client).await;
    reach.map_err(|error| of_object(name, SEEN, error))
}

async fn read_slot(config: &Config, client: &Client) -> Result<SlotDescription, Problem> {
    let name = &config.slot.name;
    let found = SlotDescription::read(client, name).await;
    found
        .map_err(|error| of_server(name, SEEN, error))?
        .ok_or_else(|| Problem {
            hint: Some(
                "There is nothing to do: a start makes it, or says what is missing.".to_owned(),
            ),
            ..Problem::new(format!("replication slot \"{name}\" does not exist"))
        })
}

async fn newest(config: &Config) -> Result<Option<Entry>, Problem> {
    let Some(options) = &config.relay.journal else {
        return Ok(None);
    };
    let read = journal::read(config.kafka.clone(), options.clone()).await;
    let stored = read.map_err(|error| without_journal(error.problem()))?;
    match stored.unreadable {
        Some(error) => Err(without_journal(error.problem())),
        None => Ok(stored.newest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_left_behind_is_refused_with_the_way_round_the_journal() {
        let gap = Gap::OtherHistory {
            known: 2,
            found: 1,
            confirmed: Lsn::new(200),
        };
        let problem = refused(&gap);
        assert_eq!(
            problem.message,
            "the server's history is another one than the one that was streamed from"
        );
        let hint = problem.hint.unwrap();
        assert!(hint.ends_with("--set position.topic= leaves the journal as it is."));
        assert!(!hint.contains("--accept-gap"), "{hint}");
    }
}
