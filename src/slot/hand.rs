//! The sessions, the lead, and what is done with it.

use tokio::time::{Duration, timeout};
use tokio_postgres::Client;

use super::sight::Sight;
use super::{PATIENCE, of_object, of_server};
use crate::config::Config;
use crate::errand::{POSTGRES, Progress};
use crate::journal::Entry;
use crate::lsn::Lsn;
use crate::observe::{Problem, say};
use crate::postgres::slot::{self, Leader, SlotDescription, SlotVerdict};
use crate::postgres::{self, PostgresError, ReplicationSession};
use crate::relay::journal;

pub(super) const SEEN: &str = "looked at";
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct Hand<'a> {
    config: &'a Config,
    /// For the lead, and for what is done with it.
    pub(super) session: ReplicationSession,
    client: Client,
    /// As it was last looked at.
    pub(super) sight: Sight,
}

impl<'a> Hand<'a> {
    pub(super) async fn open(config: &'a Config, progress: &Progress) -> Result<Self, Problem> {
        let of_server = |error| of_server(&config.slot.name, SEEN, error);
        let asked = progress.asks(POSTGRES, "a walsender and a session");
        let connected = postgres::connect_replication(&config.postgres).await;
        let mut session = connected.map_err(of_server)?;
        let timeout = config.postgres.wal_sender_timeout;
        session.prepare(timeout).await.map_err(of_server)?;
        let options = postgres::Options {
            hosts: vec![session.host().clone()],
            ..config.postgres.clone()
        };
        let client = postgres::connect(&options).await.map_err(of_server)?;
        asked.now("the slot, and Kafka for the journal");
        let sight = Sight::take(config, &mut session, &client).await?;
        Ok(Self {
            config,
            session,
            client,
            sight,
        })
    }

    fn verdict(&self) -> SlotVerdict {
        let database = &self.config.postgres.database;
        self.sight.slot.verdict(database, None)
    }

    pub(super) fn refuse_what_is_no_relays(&self) -> Result<(), Problem> {
        match self.verdict() {
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

    pub(super) fn refuse_in_use(&self, terminates: bool) -> Result<(), Problem> {
        let name = &self.config.slot.name;
        let message = match (&self.sight.slot.holder, &self.sight.leader) {
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

    /// So that no relay begins meanwhile; the lead ends with the process. The answer may have taken
    /// hours: whoever is to be ended is looked for when it is done, and everything is looked at again.
    pub(super) async fn take_lead(&mut self, terminates: bool) -> Result<(), Problem> {
        let name = &self.config.slot.name;
        let of_server = |error| of_server(name, "locked", error);
        let key = name.advisory_key();
        let mut taken = self.session.try_lock(key).await.map_err(of_server)?;
        if !taken && terminates {
            Leader::end(&self.client, name).await.map_err(of_server)?;
            taken = self.wait_for_lead(key).await?;
        }
        if !taken {
            return Err(Problem {
                hint: Some("Stop every relay of this slot first.".to_owned()),
                ..Problem::new("another relay has taken the lead")
            });
        }
        if terminates {
            let ended = slot::end_reader(&self.client, name).await;
            ended.map_err(of_server)?;
        }
        self.sight = Sight::take(self.config, &mut self.session, &self.client).await?;
        self.refuse_what_is_no_relays()?;
        self.refuse_in_use(terminates)
    }

    async fn wait_for_lead(&mut self, key: i64) -> Result<bool, Problem> {
        let canceller = self.session.canceller();
        match timeout(PATIENCE, self.session.lock(key)).await {
            Ok(locked) => locked
                .map(|()| true)
                .map_err(|error| of_server(&self.config.slot.name, "locked", error)),
            Err(_) => {
                // A backend that waits for a lock does not see that its client is gone.
                drop(canceller.cancel().await);
                Ok(false)
            }
        }
    }

    pub(super) fn refuse_out_of_reach(&self, target: Lsn) -> Result<(), Problem> {
        let name = &self.config.slot.name;
        if self.verdict().is_lost() {
            return Err(Problem {
                hint: Some("It can only be dropped: outboxd slot drop.".to_owned()),
                ..Problem::new(format!(
                    "replication slot \"{name}\" was invalidated by the server"
                ))
            });
        }
        let stands = self.sight.slot.confirmed_flush_lsn.unwrap_or_default();
        let written = self.sight.reach.written;
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
        Ok(())
    }

    /// As long as the server works on it and can be reached.
    pub(super) async fn advance(&mut self, target: Lsn) -> Result<Lsn, Problem> {
        let name = &self.config.slot.name;
        let advanced = slot::advance(&mut self.session, name, target);
        let mut advanced = std::pin::pin!(advanced);
        let mut waited = Duration::ZERO;
        loop {
            if let Ok(stands) = timeout(PROGRESS_INTERVAL, advanced.as_mut()).await {
                return stands.map_err(|error| of_object(name, "advanced", error));
            }
            waited += PROGRESS_INTERVAL;
            let lives = timeout(PATIENCE, SlotDescription::read(&self.client, name)).await;
            let silent = |_| PostgresError::Silent { after: PATIENCE };
            lives.map_err(silent).flatten().map_err(|error| Problem {
                detail: Some(
                    "Whether the slot was advanced is not known: where it was, the next start calls it a gap."
                        .to_owned(),
                ),
                ..of_server(name, SEEN, error)
            })?;
            say(&format!(
                "The server still reads on to {target}: {} s",
                waited.as_secs()
            ));
        }
    }

    pub(super) async fn write(&self, entry: &Entry) -> Result<(), Problem> {
        let Some(options) = &self.config.relay.journal else {
            return Ok(());
        };
        let written = journal::write_once(&self.config.kafka, options, entry, PATIENCE).await;
        written.map_err(|error| error.problem())
    }
}
