//! `outboxd snapshot`: retained rows once more, while a relay streams.
//!
//! An ordinary session and a producer of its own: the slot and the lead are not touched. There is no
//! memory either; one that was cut off begins from the start the next time.

mod pace;
mod progress;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use tokio::time::Instant;

use crate::cli::{SnapshotArgs, exit};
use crate::config::{Config, Door};
use crate::lsn::Lsn;
use crate::observe::{Metrics, Problem, State, Status, say};
use crate::pipeline::Unroutable;
use crate::postgres;
use crate::postgres::snapshot::{SelectedRows, Selection, SnapshotRow};
use crate::postgres::table::OutboxTable;
use crate::relay::{Interrupted, RelayError, Replay, Sink, Stop, Taken, View, stop_on_signals};
use crate::router::{Header, Record};
use crate::timestamp::Timestamp;
use pace::Pace;
use progress::{Progress, Tally};

/// Rows that were left out are named one by one up to here.
const NAMED: u64 = 20;

pub async fn run(mut config: Config, args: &SnapshotArgs) -> Result<u8, Problem> {
    // A relay's choice for its stream; here nothing stands behind a row that is left out.
    config.router.dead_letter_topic = None;
    let run_id = args.run_id.clone().unwrap_or_else(run_id);
    config.router.mark = mark(&args.header, &run_id);
    let stop =
        stop_on_signals().map_err(|error| Problem::new(format!("no signal handlers: {error}")))?;
    let door = config.door.clone();
    let worded = |error: RelayError| reworded(&door, &error);
    let (rows, mut work) = open(&config, args, stop).await.map_err(worded)?;
    work.announce(&rows, args, &run_id);
    let progress = Arc::clone(&work.progress);
    let telling = tokio::spawn(progress.tell(rows.estimate(), work.view.clone()));
    let ended = work.all(rows).await;
    if ended.is_err() {
        work.replay.settle(config.relay.shutdown_timeout).await;
    }
    telling.abort();
    let ended = work.end(ended, &door);
    work.replay.close().await;
    ended
}

/// Another one at each run, which people can place.
fn run_id() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    format!("{now}-{:04x}", rand::random::<u16>())
}

fn mark(name: &str, run_id: &str) -> Option<Header> {
    (!name.is_empty()).then(|| Header {
        name: name.into(),
        value: Some(Bytes::copy_from_slice(run_id.as_bytes())),
    })
}

fn reworded(door: &Door, error: &RelayError) -> Problem {
    error.problem().reworded(|text| door.reword(text))
}

/// Everything that can be refused before the first row.
async fn open(
    config: &Config,
    args: &SnapshotArgs,
    stop: Stop,
) -> Result<(SelectedRows, Work), RelayError> {
    let client = postgres::connect(&config.postgres).await?;
    let tables = OutboxTable::resolve(&client, &config.tables).await?;
    let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    let types = postgres::catalog::describe(&client, &oids, &[]).await?;
    let selection = Selection {
        condition: args.condition.clone(),
        order_by: args.order_by.clone(),
        limit: args.limit,
    };
    let rows = SelectedRows::begin(client, &selection, &config.snapshot, &tables).await?;
    let sink = (!args.dry_run).then(|| Sink::Kafka(Box::new(config.kafka.clone())));
    let metrics = Metrics::new().expect("the metrics' names are valid and each is there once");
    let (slot, publication) = (config.slot.name.as_str(), config.publication.name.as_str());
    let status = Status::new(&config.name, slot, publication, SystemTime::now());
    let view = View::new(metrics, status);
    view.set_state(State::Snapshotting);
    let router = config.event_router();
    let mut replay = Replay::new(router, &config.relay, sink, view.clone(), stop)?;
    replay.learn_types(types);
    let progress = Progress::new(replay.watch_acknowledged());
    let work = Work {
        replay,
        view,
        pace: args.rate.map(Pace::new),
        skips: args.skip_unroutable || args.dry_run,
        dry_run: args.dry_run,
        read_at: (rows.point(), rows.taken_at()),
        progress: Arc::new(progress),
        tally: Tally::default(),
        last: None,
    };
    Ok((rows, work))
}

struct Work {
    replay: Replay,
    view: View,
    pace: Option<Pace>,
    skips: bool,
    dry_run: bool,
    read_at: (Lsn, Timestamp),
    progress: Arc<Progress>,
    tally: Tally,
    last: Option<Arc<Record>>,
}

/// What kept the rows from being complete.
enum Cut {
    Work(Interrupted),
    Unroutable(Problem),
}

impl<E: Into<Interrupted>> From<E> for Cut {
    fn from(error: E) -> Self {
        Self::Work(error.into())
    }
}

impl Work {
    fn announce(&self, rows: &SelectedRows, args: &SnapshotArgs, run_id: &str) {
        for (table, order) in rows.orders() {
            let order = order.map_or("as they lie in the table".to_owned(), |order| {
                format!("ordered by {order}")
            });
            say(&format!("rows of {table}, {order}"));
        }
        say(&format!(
            "about {} rows, by the server's estimate",
            rows.estimate()
        ));
        if !self.dry_run && !args.header.is_empty() {
            say(&format!("header {}: {run_id}", args.header));
        }
    }

    async fn all(&mut self, mut rows: SelectedRows) -> Result<(), Cut> {
        let began = Instant::now();
        while let Some(row) = self.replay.drive(rows.next()).await?? {
            if let Some(pace) = &mut self.pace {
                let due_at = began + pace.next(began.elapsed());
                self.replay.drive(tokio::time::sleep_until(due_at)).await?;
            }
            self.take(&row).await?;
            self.progress.note(self.tally.rows);
        }
        Ok(self.replay.drain().await?)
    }

    async fn take(&mut self, row: &SnapshotRow) -> Result<(), Cut> {
        let taken = self.replay.take(row, self.read_at).await?;
        self.tally.rows += 1;
        match taken {
            Taken::Sent(record) => {
                self.tally.count(&record.topic);
                self.last = Some(record);
            }
            Taken::Nothing => self.tally.nothing += 1,
            Taken::Unroutable(unroutable) => {
                self.tally.unroutable += 1;
                let (place, reason) = self.name(&unroutable);
                if !self.skips {
                    return Err(Cut::Unroutable(Problem {
                        message: format!("{place} cannot be routed: {reason}"),
                        detail: None,
                        hint: Some(format!(
                            "{} Or leave the row out with --where, or every such row with --skip-unroutable.",
                            unroutable.source.hint()
                        )),
                    }));
                }
                if self.tally.unroutable <= NAMED {
                    say(&format!("{place} is left out: {reason}"));
                }
            }
        }
        Ok(())
    }

    /// Where the row stands and what is wrong with it.
    fn name(&self, unroutable: &Unroutable) -> (String, String) {
        let (number, table) = (self.tally.rows, &unroutable.table);
        (
            format!("row {number} of this run, of table \"{table}\","),
            postgres::chain(&unroutable.source),
        )
    }

    /// The last words, and the exit status.
    fn end(&self, ended: Result<(), Cut>, door: &Door) -> Result<u8, Problem> {
        let acknowledged = self.replay.acknowledged();
        for line in self.tally.lines(acknowledged, self.dry_run) {
            say(&line);
        }
        let problem = match ended {
            Ok(()) if self.tally.unroutable == 0 => return Ok(exit::DRAINED),
            Ok(()) => return Ok(exit::FAILED),
            Err(Cut::Unroutable(problem)) => problem.reworded(|text| door.reword(text)),
            Err(Cut::Work(Interrupted::Failed(error))) => reworded(door, &error),
            Err(Cut::Work(Interrupted::Stop)) => Problem {
                hint: Some("Run it again: it begins from the start. --where leaves out what was sent; events that come twice have the same id.".to_owned()),
                ..Problem::new("stopped before the last row")
            },
        };
        Err(self.with_place(problem, acknowledged))
    }

    /// How far it came.
    fn with_place(&self, mut problem: Problem, acknowledged: u64) -> Problem {
        if self.dry_run {
            return problem;
        }
        let last = self.last.as_ref().and_then(|record| record.event_id());
        let last = match last.filter(|_| acknowledged == self.tally.sent()) {
            Some(id) if !id.is_empty() => format!(", the last one the event {id}"),
            _ => String::new(),
        };
        let place = format!(
            "Of {} rows, {acknowledged} are in Kafka{last}.",
            self.tally.rows
        );
        problem.detail = Some(match problem.detail.take() {
            Some(detail) => format!("{detail} {place}"),
            None => place,
        });
        problem
    }
}
