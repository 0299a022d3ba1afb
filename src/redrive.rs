//! `outboxd redrive`: publishes dead letters again, once what stood in their way is gone.
//!
//! In the order of the dead-letter topic, one at a time. The group's offset moves past a letter only
//! when it and all before it in its partition are acknowledged, so none is ever passed over; what was
//! published behind one that still fails is published again the next time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::ack::Ticket;
use crate::cli::{RedriveArgs, exit};
use crate::config::Config;
use crate::errand::{Errand, KAFKA, POSTGRES, Progress, Stopped};
use crate::kafka::{
    DeliveryReports, Fate, Gone, GroupOffsets, Offsets, Publisher, ReadError, Reading,
    StoredRecord, Trial,
};
use crate::observe::{Problem, say};
use crate::pgoutput::Relation;
use crate::postgres;
use crate::relay::RelayError;
use crate::router::dead_letter::{Content, Letter, StoredRow};
use crate::router::{EventRouter, Record, Routed};

/// How long Kafka may be silent, beside the time that a record may wait for its topic.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a stop waits for what it does last.
const AT_A_STOP: Duration = Duration::from_secs(2);
/// Letters that are read ahead.
const QUEUE: usize = 16;

pub async fn run(config: &Config, args: &RedriveArgs, errand: &Errand) -> Result<u8, Problem> {
    let mut config = config.clone();
    let named = args.topic.as_deref().map(Arc::from);
    let Some(topic) = named.or(config.router.dead_letter_topic.take()) else {
        return Err(problem(
            "no dead-letter topic is configured".to_owned(),
            "Name it with --topic, or set errors.on_blocked to dead-letter.".to_owned(),
        ));
    };
    config.router.dead_letter_topic = Some(Arc::clone(&topic));
    let opened = errand.attend(open(&config, &topic, errand)).await;
    let (group, mut letters, reading) = opened.map_err(nothing_published)??;
    let mut redrive = Redrive::new(config, args, errand)?;
    let ended = errand.attend(redrive.all(&mut letters, args)).await;
    drop(letters);
    // Ended, or about to be: nobody takes what it reads.
    if let Ok(Ok(gone)) = tokio::time::timeout(AT_A_STOP, reading).await {
        gone.into_iter().for_each(|gone| redrive.note_gone(gone));
    }
    redrive.say_summary();
    if !args.dry_run {
        store(group, redrive.moved(), errand).await?;
    }
    let patience = if errand.is_stopped() {
        AT_A_STOP
    } else {
        PATIENCE
    };
    redrive.publisher.close(patience).await;
    ended.map_err(|stopped| {
        stopped.with(
            "What was acknowledged is done; the rest stays.",
            "Run it again: it goes on where this one ended.",
        )
    })??;
    if redrive.read_to_end && !redrive.unmet.is_empty() {
        return Err(not_met(&topic, &redrive.unmet));
    }
    Ok(if redrive.tally.failing == 0 && redrive.tally.gone == 0 {
        exit::DRAINED
    } else {
        exit::FAILED
    })
}

fn nothing_published(stopped: Stopped) -> Problem {
    stopped.with("Nothing was published.", "Run it again.")
}

/// Also at a stop, but not for long then.
async fn store(group: GroupOffsets, moved: Offsets, errand: &Errand) -> Result<(), Problem> {
    let _asked = errand.asks(KAFKA, "the group's position to be stored");
    let storing = tokio::task::spawn_blocking(move || group.commit(&moved));
    let stored = match errand.is_stopped() {
        true => tokio::time::timeout(AT_A_STOP, storing).await.ok(),
        false => errand.attend(storing).await.ok(),
    };
    match stored {
        Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(error))) => Err(not_stored(&error.to_string())),
        Some(Err(error)) => Err(not_stored(&error.to_string())),
        None => Err(not_stored("Kafka gave no answer before the end")),
    }
}

fn not_stored(reason: &str) -> Problem {
    problem(
        format!("the position could not be stored: {reason}"),
        "Grant Read on the group, or the same letters are published again the next time."
            .to_owned(),
    )
}

type Letters = mpsc::Receiver<Result<StoredRecord, ReadError>>;

/// The letters from the group's position to where the topic ends now; and, once those are not looked at
/// any more, which were deleted before.
async fn open(
    config: &Config,
    topic: &Arc<str>,
    errand: &Errand,
) -> Result<(GroupOffsets, Letters, JoinHandle<Vec<Gone>>), Problem> {
    let asked = errand.asks(KAFKA, "the group's position");
    let (options, topic) = (config.kafka.clone(), Arc::clone(topic));
    let name = format!("{}.redrive", config.name);
    let group_name = name.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let group = GroupOffsets::open(&options, &group_name, &topic).map_err(ReadError::Client)?;
        let from = group.committed(PATIENCE)?;
        let reading = Reading::start(&options, &topic, &from, PATIENCE)?;
        Ok((group, reading))
    });
    let opened: Result<_, ReadError> = opened
        .await
        .map_err(|error| Problem::new(error.to_string()))?;
    let (group, mut reading) = opened.map_err(|error| match error {
        ReadError::BeyondEnd { .. } => beyond_end(&error, config, &name),
        error => unread(error),
    })?;
    drop(asked);
    let (sender, letters) = mpsc::channel(QUEUE);
    let reading = tokio::task::spawn_blocking(move || {
        while let Some(read) = reading.read().transpose() {
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                break;
            }
        }
        reading.gone().to_vec()
    });
    Ok((group, letters, reading))
}

struct Redrive {
    config: Config,
    progress: Progress,
    dry_run: bool,
    router: EventRouter,
    client: Option<Client>,
    described: Option<Arc<Relation>>,
    publisher: Publisher,
    reports: DeliveryReports,
    next_ticket: Ticket,
    /// Topics that take nothing, and why: the next record for one of them is not tried.
    closed: HashMap<Arc<str>, String>,
    /// What the brokers say of topics, asked in a dry run; absent while it is asked.
    trial: Option<Trial>,
    /// Of the events that were asked for, those that were not met.
    unmet: BTreeSet<String>,
    /// There is no letter behind those that were looked at.
    read_to_end: bool,
    places: BTreeMap<i32, Place>,
    tally: Tally,
}

/// In one partition of the dead letters.
#[derive(Default)]
struct Place {
    /// Everything before it is done.
    next: Option<i64>,
    /// Something stays here: nothing behind it moves the position.
    stays: bool,
}

#[derive(Default)]
struct Tally {
    published: u64,
    nothing: u64,
    failing: u64,
    left: u64,
    /// Offsets: a few may have had no letter.
    gone: u64,
}

impl Tally {
    /// What `--limit` counts: a letter that fails again takes no place of one behind it.
    const fn done(&self) -> u64 {
        self.published + self.nothing
    }
}

enum Outcome {
    Published(Arc<str>),
    /// By the router's rules there is no event.
    Nothing(&'static str),
    Failing(String),
    /// Not asked for.
    Left,
}

impl Redrive {
    fn new(config: Config, args: &RedriveArgs, errand: &Errand) -> Result<Self, Problem> {
        let started = Publisher::start(&config.kafka);
        let (publisher, reports) =
            started.map_err(|error| Problem::new(postgres::chain(&error)))?;
        Ok(Self {
            dry_run: args.dry_run,
            progress: errand.progress().clone(),
            router: config.event_router(),
            client: None,
            described: None,
            publisher,
            reports,
            next_ticket: Ticket::default(),
            closed: HashMap::new(),
            trial: args.dry_run.then(|| Trial::new(&config.kafka)),
            unmet: args.event_id.iter().cloned().collect(),
            read_to_end: false,
            places: BTreeMap::new(),
            tally: Tally::default(),
            config,
        })
    }

    async fn all(&mut self, letters: &mut Letters, args: &RedriveArgs) -> Result<(), Problem> {
        loop {
            let asked = self.progress.asks(KAFKA, "the next dead letter");
            let read = letters.recv().await;
            drop(asked);
            let Some(read) = read else {
                self.read_to_end = true;
                return Ok(());
            };
            if args.limit.is_some_and(|limit| self.tally.done() >= limit) {
                return Ok(());
            }
            let stored = read.map_err(unread)?;
            let (partition, offset) = (stored.partition, stored.offset);
            let letter = Letter::read(stored.key, stored.value, stored.headers);
            let id = letter
                .as_ref()
                .ok()
                .and_then(|found| found.event_id.clone());
            let wanted = args.event_id.is_empty()
                || id.as_ref().is_some_and(|id| args.event_id.contains(id));
            let reason = letter
                .as_ref()
                .map_or("", |letter| &letter.reason)
                .to_owned();
            let outcome = match letter {
                _ if !wanted => Outcome::Left,
                Ok(letter) => self.take(letter).await?,
                Err(error) => Outcome::Failing(format!("no dead letter: {error}")),
            };
            if let Some(id) = &id {
                self.unmet.remove(id);
            }
            let id = id.map_or_else(|| "without an id".to_owned(), |id| shown(&id));
            self.say(
                &format!("{partition}/{offset} event {id} ({})", shown(&reason)),
                &outcome,
            );
            self.settle(partition, offset, &outcome);
        }
    }

    async fn take(&mut self, letter: Letter) -> Result<Outcome, Problem> {
        match letter.content {
            Content::Record(record) => self.publish(*record).await,
            Content::Row(row) => {
                self.describe(&row).await?;
                match row.with_change(|change| self.router.route(change)) {
                    Ok(Routed::Publish { record, .. }) => self.publish(record).await,
                    Ok(Routed::Drop(reason)) => Ok(Outcome::Nothing(reason.as_str())),
                    Err(error) => Ok(Outcome::Failing(error.to_string())),
                }
            }
        }
    }

    /// What the catalog says of the row's table and types.
    async fn describe(&mut self, row: &StoredRow) -> Result<(), Problem> {
        if self.described.as_ref() == Some(&row.relation) {
            return Ok(());
        }
        let failed = |error| RelayError::from(error).problem();
        let _asked = self.progress.asks(POSTGRES, "the columns of a row's table");
        let client = match self.client.take() {
            Some(client) => client,
            None => postgres::connect(&self.config.postgres)
                .await
                .map_err(failed)?,
        };
        let types: Vec<u32> = row.relation.columns.iter().map(|c| c.type_oid).collect();
        let described = postgres::catalog::describe(&client, &[row.relation.oid], &types).await;
        self.router.learn_types(described.map_err(failed)?);
        self.described = Some(Arc::clone(&row.relation));
        self.client = Some(client);
        Ok(())
    }

    async fn publish(&mut self, record: Record) -> Result<Outcome, Problem> {
        let topic = Arc::clone(&record.topic);
        if let Some(reason) = self.closed.get(&topic) {
            return Ok(Outcome::Failing(reason.clone()));
        }
        if self.dry_run {
            return self.try_out(record).await;
        }
        let ticket = self.next_ticket;
        self.next_ticket = Ticket(ticket.0 + 1);
        self.publisher.send(vec![(ticket, Arc::new(record))]);
        let patience = PATIENCE + self.config.kafka.topic_timeout;
        let _asked = self.progress.asks(KAFKA, "the answer to a record");
        let report = tokio::time::timeout(patience, self.reports.recv()).await;
        let reports = report.map_err(|_| {
            problem(
                format!("Kafka gave no answer for {patience:?}"),
                "Check that the brokers run. What was acknowledged is done; the rest stays."
                    .to_owned(),
            )
        })?;
        let last = reports.and_then(|reports| reports.into_iter().next_back());
        match last.map(|report| report.fate) {
            Some(Fate::Acknowledged { .. }) => Ok(Outcome::Published(topic)),
            Some(Fate::Failed { error, .. }) => {
                if error.needs_new_producer() {
                    return Err(problem(error.to_string(), error.hint()));
                }
                self.publisher.resume();
                if !error.concerns_the_record() {
                    self.closed.insert(topic, error.to_string());
                }
                Ok(Outcome::Failing(error.to_string()))
            }
            Some(Fate::NotSent) | None => Err(problem(
                "the Kafka producer ended".to_owned(),
                "Run it again: what was acknowledged is done, the rest stays.".to_owned(),
            )),
        }
    }

    async fn try_out(&mut self, record: Record) -> Result<Outcome, Problem> {
        let topic = Arc::clone(&record.topic);
        let _asked = self.progress.asks(KAFKA, "a record's topic");
        let mut trial = self
            .trial
            .take()
            .unwrap_or_else(|| Trial::new(&self.config.kafka));
        let asked = tokio::task::spawn_blocking(move || {
            let asked = trial.ask(&record, PATIENCE);
            (trial, asked)
        });
        let (trial, asked) = asked
            .await
            .map_err(|error| Problem::new(error.to_string()))?;
        self.trial = Some(trial);
        match asked.map_err(|error| Problem::new(postgres::chain(&error)))? {
            Ok(()) => Ok(Outcome::Published(topic)),
            Err(refused) => {
                if !refused.concerns_the_record() {
                    self.closed.insert(topic, refused.to_string());
                }
                Ok(Outcome::Failing(refused.to_string()))
            }
        }
    }

    fn settle(&mut self, partition: i32, offset: i64, outcome: &Outcome) {
        let place = self.places.entry(partition).or_default();
        let (count, done) = match outcome {
            Outcome::Published(_) => (&mut self.tally.published, true),
            Outcome::Nothing(_) => (&mut self.tally.nothing, true),
            Outcome::Failing(_) => (&mut self.tally.failing, false),
            Outcome::Left => (&mut self.tally.left, false),
        };
        *count += 1;
        place.stays |= !done;
        if !place.stays {
            place.next = Some(offset + 1);
        }
    }

    /// Said once: the position moves past them.
    fn note_gone(&mut self, gone: Gone) {
        let Gone {
            partition,
            from,
            to,
        } = gone;
        self.tally.gone += u64::try_from(to - from).unwrap_or(0);
        say(&format!(
            "{partition}/{from} to {partition}/{}: gone: the topic begins at {to}",
            to - 1
        ));
        // Whatever stays before it is gone as well.
        let place = self.places.entry(partition).or_default();
        place.next = place.next.max(Some(to));
    }

    fn moved(&self) -> Offsets {
        let places = self.places.iter();
        let moved = places.filter_map(|(partition, place)| Some((*partition, place.next?)));
        moved.collect()
    }

    fn say(&self, letter: &str, outcome: &Outcome) {
        let would = if self.dry_run { "would be " } else { "" };
        let text = match outcome {
            Outcome::Published(topic) => format!("{would}published to {topic}"),
            Outcome::Nothing(reason) => format!("nothing to publish: {reason}"),
            Outcome::Failing(reason) => format!("still failing: {reason}"),
            Outcome::Left => return,
        };
        say(&format!("{letter}: {text}"));
    }

    fn say_summary(&self) {
        let Tally {
            published,
            nothing,
            failing,
            left,
            gone,
        } = self.tally;
        let would = if self.dry_run { " (dry run)" } else { "" };
        say(&format!("published        {published}{would}"));
        say(&format!("nothing to do    {nothing}"));
        say(&format!("still failing    {failing}"));
        say(&format!("not asked for    {left}"));
        if gone > 0 {
            say(&format!(
                "gone             {gone} at most: deleted by the topic's retention before they were published"
            ));
        }
        if !self.read_to_end && !self.unmet.is_empty() {
            let unmet = self.unmet.len();
            say(&format!(
                "not met yet      {unmet} of the events, and not every letter was looked at"
            ));
        }
    }
}

/// As much of a foreign text as a line is to have.
const ID_CHARACTERS: usize = 100;

fn shown(text: &str) -> String {
    let mut characters = text.chars();
    let short: String = characters.by_ref().take(ID_CHARACTERS).collect();
    let more = if characters.next().is_some() {
        "…"
    } else {
        ""
    };
    format!("{short}{more}")
}

fn not_met(topic: &str, unmet: &BTreeSet<String>) -> Problem {
    let ids: Vec<_> = unmet.iter().map(|id| shown(id)).collect();
    problem(
        format!("no dead letter of event {} in topic \"{topic}\"", ids.join(", ")),
        "Check the id (header outboxd.dead_letter.event_id) and --topic. Letters before the group's position are done: they are not looked at.".to_owned(),
    )
}

/// The topic was made anew, and the group's position is of the one before.
fn beyond_end(error: &ReadError, config: &Config, group: &str) -> Problem {
    let ReadError::BeyondEnd { topic, .. } = error else {
        return Problem::new(error.to_string());
    };
    problem(
        error.to_string(),
        format!(
            "The topic was made anew, or has lost its end. To look at every letter that it has: kafka-consumer-groups.sh --bootstrap-server {} --group {group} --topic {topic} --reset-offsets --to-earliest --execute",
            config.kafka.bootstrap_servers()
        ),
    )
}

fn unread(error: ReadError) -> Problem {
    let hint = error.hint();
    problem(postgres::chain(&error), hint)
}

fn problem(message: String, hint: String) -> Problem {
    Problem {
        hint: Some(hint),
        ..Problem::new(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ConfigArgs;
    use crate::config::{Sources, load};

    fn args(limit: Option<u64>) -> RedriveArgs {
        RedriveArgs {
            config: ConfigArgs {
                config: None,
                connector: None,
                worker: None,
                set: Vec::new(),
            },
            topic: None,
            event_id: vec!["7".to_owned()],
            limit,
            dry_run: true,
        }
    }

    fn config() -> Config {
        let set = ["postgres.user=relay", "kafka.bootstrap.servers=localhost:1"];
        let sources = Sources {
            set: set.map(str::to_owned).to_vec(),
            needs_kafka: true,
            ..Sources::default()
        };
        load(&sources, std::iter::empty()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[tokio::test]
    async fn letters_that_are_gone_are_counted_and_the_position_moves_past_them() {
        let config = config();
        let errand = Errand::begin(&config.postgres.sessions).unwrap();
        let mut redrive = Redrive::new(config, &args(None), &errand).unwrap();
        let gone = |partition, from, to| Gone {
            partition,
            from,
            to,
        };
        redrive.settle(0, 5, &Outcome::Left);
        redrive.settle(1, 5, &Outcome::Nothing("tombstone"));
        redrive.note_gone(gone(0, 3, 5));
        redrive.note_gone(gone(1, 3, 5));
        assert_eq!(redrive.tally.gone, 4);
        assert_eq!(redrive.moved(), Offsets::from([(0, 5), (1, 6)]));
        redrive.publisher.close(Duration::ZERO).await;
    }

    #[tokio::test]
    async fn an_event_has_no_letter_only_where_all_letters_were_looked_at() {
        let config = config();
        for (limit, letters, read_to_end) in
            [(None, 2, true), (Some(0), 2, false), (Some(0), 0, true)]
        {
            let (sender, mut receiver) = mpsc::channel(QUEUE);
            for offset in 0..letters {
                let stored = StoredRecord {
                    partition: 0,
                    offset,
                    key: None,
                    value: None,
                    headers: Vec::new(),
                    timestamp_ms: None,
                };
                sender.send(Ok(stored)).await.unwrap();
            }
            drop(sender);
            let args = args(limit);
            let errand = Errand::begin(&config.postgres.sessions).unwrap();
            let mut redrive = Redrive::new(config.clone(), &args, &errand).unwrap();
            redrive.all(&mut receiver, &args).await.unwrap();
            let found = (redrive.read_to_end, redrive.unmet.len());
            assert_eq!(found, (read_to_end, 1), "{limit:?}, {letters} letters");
            redrive.publisher.close(Duration::ZERO).await;
        }
    }
}
