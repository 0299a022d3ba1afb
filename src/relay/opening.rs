//! From nothing to a session that may stream: connect, take the lead, look at the source, make what
//! is missing.

use std::time::Duration;

use super::comparing::{Begins, Compared, Looked, Memory, Told, begin_reading};
use super::handover::{Handover, Resumption};
use super::journal::Journal;
use super::noticed::Noticed;
use super::origin::StreamOrigin;
use super::standby::OnStandby;
use super::streaming::Source;
use super::{Interrupted, Relay, RelayError, View};
use crate::config::Config;
use crate::lsn::Lsn;
use crate::observe::{Role, State};
use crate::outbox::TypeCatalog;
use crate::postgres::publication::{self, Publication, PublicationChange};
use crate::postgres::slot::{self, SlotDescription, SlotVerdict};
use crate::postgres::snapshot::{Snapshot, SnapshotMode, StartPlan};
use crate::postgres::table::OutboxTable;
use crate::postgres::watched::Watched;
use crate::postgres::{self, ObjectError, ReplicationSession, ServerSeen};

const FREE_ATTEMPTS: u32 = 50;
const FREE_PAUSE: Duration = Duration::from_millis(100);

/// A session that holds the lead, and what is to be done with it.
pub(super) struct Opened {
    pub(super) session: ReplicationSession,
    pub(super) origin: StreamOrigin,
    pub(super) source: Source,
    /// Positions before and after everything was found to be published.
    pub(super) sound: (Lsn, Lsn),
    /// It has what it replays, and writes nothing.
    pub(super) in_recovery: bool,
    pub(super) types: TypeCatalog,
    pub(super) plan: Plan,
    /// Absent without a journal.
    pub(super) begins: Option<Begins>,
    pub(super) resumption: Resumption,
}

#[expect(clippy::large_enum_variant, reason = "one value per connection")]
pub(super) enum Plan {
    /// Stream from the slot, which stands at this position.
    Stream { confirmed: Lsn, is_new: bool },
    /// Publish the retained rows first; then stream from the slot, where there is to be one.
    Snapshot {
        snapshot: Snapshot,
        then: AfterSnapshot,
    },
}

impl Plan {
    /// Where a slot stands that was there before.
    fn existing_slot(&self) -> Option<Lsn> {
        match self {
            Self::Stream { confirmed, is_new } => Some(*confirmed).filter(|_| !is_new),
            Self::Snapshot { then, .. } => match then {
                AfterSnapshot::ExistingSlot { confirmed } => Some(*confirmed),
                AfterSnapshot::NewSlot | AfterSnapshot::Nothing => None,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterSnapshot {
    /// The slot that the snapshot makes permanent.
    NewSlot,
    /// A slot that was there before, at its own position.
    ExistingSlot {
        confirmed: Lsn,
    },
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    Ours,
    /// As it looks, with our last session, of which the server does not know yet that it is over.
    /// Numbers of processes come again, though, and others may wait before us.
    OurLastSession,
    AnotherInstance,
}

/// A session, and who has the lead. `last_backend` is the server's process for our last one that
/// had it.
async fn connect(
    config: &Config,
    last_backend: Option<i32>,
) -> Result<(ReplicationSession, Lead), RelayError> {
    let mut session = postgres::connect_replication(&config.postgres).await?;
    session.prepare(config.postgres.wal_sender_timeout).await?;
    let key = config.slot.name.advisory_key();
    let lead = if session.try_lock(key).await? {
        Lead::Ours
    } else if last_backend.is_some() && session.lock_holder(key).await? == last_backend {
        Lead::OurLastSession
    } else {
        Lead::AnotherInstance
    };
    Ok((session, lead))
}

impl Relay {
    /// Connects, takes the lead and looks.
    pub(super) async fn open_source(&mut self) -> Result<Opened, Interrupted> {
        let (config, view) = (self.config.clone(), self.view.clone());
        let last_backend = self.last_backend;
        let connecting = {
            let config = config.clone();
            async move { connect(&config, last_backend).await }
        };
        let (session, lead) = self.drive(connecting).await??;
        if lead != Lead::Ours {
            self.begin_waiting()?;
        }
        let snapshot = match config.snapshot.mode {
            SnapshotMode::Always if self.snapshot_taken => SnapshotMode::Initial,
            mode => mode,
        };
        let has_own_rest = self.gap_accepted || self.streaming.rests();
        let told = Told::new(snapshot, self.run.accept_gap, has_own_rest);
        let (memory, handover) = (self.memory(), self.handover.clone());
        let confirmed = self.outbound.pipeline.confirmed();
        let generation = self.journal.as_ref().map(Journal::generation);
        let mut noticed = Noticed::new(self.origin.clone(), confirmed, generation);
        let opening = open(
            (session, lead),
            &config,
            told,
            &view,
            memory,
            handover,
            &mut noticed,
        );
        let opened = self.drive(opening).await;
        // Also where the opening failed behind it.
        self.gap_accepted |= noticed.gap_accepted;
        if noticed.others_streamed {
            self.others_streamed = true;
            self.outbound.give_up()?;
        }
        Ok(opened??)
    }

    /// The lead is not ours. Until it is, any instance may have it, also where our own last session is
    /// the one that holds it: others can stand before us in the queue.
    fn begin_waiting(&mut self) -> Result<(), RelayError> {
        if std::mem::take(&mut self.run.accept_gap) {
            tracing::warn!(
                hint = "Where a gap is told after the wait, look at it, and start once more with --accept-gap.",
                "--accept-gap does not count any more: another instance has the lead, and a gap that is found when that one is gone has been seen by nobody"
            );
        }
        // The journal says it better, where there is one.
        self.others_streamed |= self.writer.is_none();
        self.outbound.give_up()
    }
}

async fn open(
    (mut session, lead): (ReplicationSession, Lead),
    config: &Config,
    told: Told,
    view: &View,
    memory: Memory,
    handover: Option<Handover>,
    noticed: &mut Noticed,
) -> Result<Opened, RelayError> {
    match lead {
        Lead::Ours => view.set_role(Role::Leader),
        Lead::OurLastSession => wait_for_lead(&mut session, config, view, OWN_SESSION).await?,
        Lead::AnotherInstance => wait_for_lead(&mut session, config, view, OTHER_INSTANCE).await?,
    }
    // Beside the questions to the server.
    let reading = begin_reading(&memory, told);
    let identity = session.identify_system().await?;
    let options = postgres::Options {
        hosts: vec![session.host().clone()],
        ..config.postgres.clone()
    };
    let client = postgres::connect(&options).await?;
    let server = ServerSeen::look(&client).await?;
    let (before, in_recovery) = (server.position, server.in_recovery);
    let here = StreamOrigin {
        system_id: identity.system_id,
        timeline: identity.timeline,
        started: server.started,
    };
    let tables = OutboxTable::resolve(&client, &config.tables).await?;
    // The publication comes before the slot: a slot cannot read through one that is younger.
    let mut found = SlotDescription::read(&client, &config.slot.name).await?;
    let handover = handover.filter(|_| told.snapshot != SnapshotMode::InitialOnly);
    if handover.is_some() {
        found = until_free(&client, config, found).await?;
    }
    if told.snapshot != SnapshotMode::InitialOnly {
        refuse_for_now(config, found.as_ref(), in_recovery)?;
    }
    let looked = Looked {
        config,
        told,
        here: &here,
        written: before,
        in_recovery,
        found: found.as_ref(),
        view,
    };
    let Compared { begins, connector } = looked
        .compare(&mut session, memory, reading, handover, noticed)
        .await?;
    if found.is_some() {
        refuse_younger_publication(&client, config, &tables).await?;
    }
    let (publication, change) = Publication::ensure(&client, &config.publication, &tables).await?;
    if change != PublicationChange::Unchanged {
        tracing::info!(publication = %config.publication.name, ?change, "publication made");
    }
    let sound = (before, postgres::position_seen(&client).await?);
    let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    let types = postgres::catalog::describe(&client, &oids, &[]).await?;
    let plan = plan(config, told.snapshot, &mut session, client, found, &tables).await?;
    let resumption = match (connector, plan.existing_slot()) {
        (Some(connector), Some(stands)) => {
            let known = begins.as_ref().map_or(stands, Begins::confirmed);
            let ours = noticed.own_position(&here);
            connector.begin(known.max(stands).max(ours), sound.1)
        }
        _ => Resumption::default(),
    };
    Ok(Opened {
        session,
        origin: here,
        source: Source {
            options,
            only_ours: publication.sends_only(&tables),
            watched: Watched {
                slot: config.slot.name.to_string(),
                options: config.publication.clone(),
                tables: tables.clone(),
                publication,
            },
            tables,
        },
        sound,
        in_recovery,
        types,
        plan,
        begins,
        resumption,
    })
}

/// A worker commits the last offset of a connector before it lets go of the slot. Whoever has it
/// longer than this is met when the stream starts.
async fn until_free(
    client: &tokio_postgres::Client,
    config: &Config,
    mut found: Option<SlotDescription>,
) -> Result<Option<SlotDescription>, RelayError> {
    for _ in 0..FREE_ATTEMPTS {
        if !found.as_ref().is_some_and(SlotDescription::is_held) {
            break;
        }
        tokio::time::sleep(FREE_PAUSE).await;
        found = SlotDescription::read(client, &config.slot.name).await?;
    }
    Ok(found)
}

/// What another look may find otherwise, before anything is made of it.
fn refuse_for_now(
    config: &Config,
    found: Option<&SlotDescription>,
    in_recovery: bool,
) -> Result<(), RelayError> {
    let name = config.slot.name.to_string();
    let verdict = found.map(|slot| slot.verdict(&config.postgres.database, None));
    match verdict {
        // Whatever the journal says, or nobody says: the primary may have it, and a slot that is made
        // here is another one.
        None if in_recovery => Err(RelayError::Standby {
            slot: name,
            seen: OnStandby::NoSlot,
        }),
        Some(verdict @ SlotVerdict::BeingMade { .. }) => {
            Err(ObjectError::SlotUnusable { name, verdict }.into())
        }
        Some(SlotVerdict::Lost { reason, .. }) if in_recovery => Err(RelayError::Standby {
            slot: name,
            seen: OnStandby::Invalidated { reason },
        }),
        _ => Ok(()),
    }
}

/// A publication that is made now does not exist for what the slot has yet to send.
async fn refuse_younger_publication(
    client: &tokio_postgres::Client,
    config: &Config,
    tables: &[OutboxTable],
) -> Result<(), RelayError> {
    let options = &config.publication;
    if Publication::read(client, &options.name).await?.is_some() {
        return Ok(());
    }
    Err(ObjectError::PublicationGone {
        name: options.name.to_string(),
        slot: config.slot.name.to_string(),
        create_sql: publication::create_sql(options, tables),
    }
    .into())
}

async fn plan(
    config: &Config,
    snapshot: SnapshotMode,
    session: &mut ReplicationSession,
    client: tokio_postgres::Client,
    found: Option<SlotDescription>,
    tables: &[OutboxTable],
) -> Result<Plan, RelayError> {
    let options = &config.slot;
    let mut verdict = found.as_ref().map_or(SlotVerdict::Missing, |slot| {
        slot.verdict(&config.postgres.database, None)
    });
    // We hold the lead, so whoever still holds the slot is on its way out: the start will tell.
    if let SlotVerdict::Active(_) = verdict {
        verdict = SlotVerdict::Usable;
    }
    let confirmed = found
        .as_ref()
        .and_then(|slot| slot.confirmed_flush_lsn)
        .unwrap_or_default();
    match StartPlan::decide(snapshot, options.create, &verdict) {
        StartPlan::Stream => {
            let retained_bytes = found.as_ref().map(SlotDescription::retained_bytes);
            tracing::info!(slot = %options.name, lsn = %confirmed, retained_bytes, "slot found");
            if options.failover && found.is_some_and(|slot| slot.failover != Some(true)) {
                slot::set_failover(session, options).await?;
            }
            let is_new = false;
            Ok(Plan::Stream { confirmed, is_new })
        }
        StartPlan::CreateSlot => {
            let confirmed = slot::create(&client, options).await?;
            tracing::info!(slot = %options.name, lsn = %confirmed, "slot created without a snapshot");
            let is_new = true;
            Ok(Plan::Stream { confirmed, is_new })
        }
        StartPlan::ReplaceLostSlot => {
            tracing::warn!(slot = %options.name, "the invalidated slot is replaced, as snapshot.mode asks");
            slot::drop(&client, &options.name).await?;
            snapshot_new_slot(config, session, client, tables).await
        }
        StartPlan::SnapshotNewSlot => snapshot_new_slot(config, session, client, tables).await,
        StartPlan::SnapshotBeside => {
            let snapshot = Snapshot::begin_beside(client, &config.snapshot, tables).await?;
            Ok(announce(
                config,
                snapshot,
                AfterSnapshot::ExistingSlot { confirmed },
            ))
        }
        StartPlan::SnapshotOnly => {
            let snapshot = Snapshot::begin_beside(client, &config.snapshot, tables).await?;
            Ok(announce(config, snapshot, AfterSnapshot::Nothing))
        }
        StartPlan::Refuse => Err(ObjectError::SlotUnusable {
            name: options.name.to_string(),
            verdict,
        }
        .into()),
    }
}

async fn snapshot_new_slot(
    config: &Config,
    session: &mut ReplicationSession,
    client: tokio_postgres::Client,
    tables: &[OutboxTable],
) -> Result<Plan, RelayError> {
    let begun = Snapshot::begin(session, client, &config.snapshot, &config.slot, tables);
    Ok(announce(config, begun.await?, AfterSnapshot::NewSlot))
}

fn announce(config: &Config, snapshot: Snapshot, then: AfterSnapshot) -> Plan {
    tracing::info!(
        slot = %config.slot.name, rows = snapshot.rows(), lsn = %snapshot.consistent_point(),
        "snapshot: publishing the rows that are in the table"
    );
    Plan::Snapshot { snapshot, then }
}

/// Who had the lead before, for the metric of takeovers.
const OTHER_INSTANCE: &str = "other_instance";
const OWN_SESSION: &str = "own_session";
pub(super) const TAKEOVERS: [&str; 2] = [OTHER_INSTANCE, OWN_SESSION];

/// Lock and stream end together, because both belong to this connection: no instance can hold one
/// without the other, and a waiting one is woken by the server.
async fn wait_for_lead(
    session: &mut ReplicationSession,
    config: &Config,
    view: &View,
    before: &'static str,
) -> Result<(), RelayError> {
    view.set_state(State::Standby);
    view.set_role(Role::Standby);
    // A standby that is stopped would get the lead later, and hold it until the server notices.
    let waiting = postgres::CancelOnDrop::new(session.canceller());
    session.lock(config.slot.name.advisory_key()).await?;
    waiting.disarm();
    view.set_role(Role::Leader);
    view.metrics.takeovers.with_label_values(&[before]).inc();
    tracing::info!(from = before, "the lead was given free: taking over");
    view.set_state(State::Starting);
    Ok(())
}
