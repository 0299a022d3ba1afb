//! `outboxd snapshot`: retained rows once more, while a relay streams.
//!
//! An ordinary session and a producer of its own: the slot and the lead are not touched. There is no
//! memory either; one that was cut off begins from the start the next time.

mod pace;
mod progress;
mod wish;

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;

use crate::cli::exit;
use crate::config::Config;
use crate::errand::{Errand, POSTGRES};
use crate::lsn::Lsn;
use crate::observe::{Metrics, Problem, State, Status, say};
use crate::pipeline::Unroutable;
use crate::postgres::snapshot::{SelectedRows, SnapshotRow};
use crate::postgres::table::OutboxTable;
use crate::postgres::{self, ObjectError};
use crate::relay::{Interrupted, RelayError, Replay, Sink, Taken, View};
use crate::router::Record;
use crate::timestamp::Timestamp;
use pace::Pace;
use progress::{Progress, Tally};

pub use wish::Wish;

/// Rows that were left out are named one by one up to here.
const NAMED: u64 = 20;

pub async fn run(config: &Config, wish: Wish, errand: &Errand) -> Result<u8, Problem> {
    let mut config = config.clone();
    // A relay's choice for its stream; here nothing stands behind a row that is left out.
    config.router.dead_letter_topic = None;
    config.router.mark = wish.header();
    let opened = errand.attend(open(&config, &wish, errand)).await;
    let opened = opened.map_err(|stopped| stopped.with("No row was read.", "Run it again."))?;
    let (rows, mut work) = opened.map_err(|error| error.problem())?;
    work.announce(&rows, &wish);
    let progress = Arc::clone(&work.progress);
    let telling = tokio::spawn(progress.tell(rows.estimate(), work.view.clone()));
    let ended = work.all(rows).await;
    if errand.is_stopped() {
        // The server would go on with what the next rows take.
        errand.cancel().await;
    }
    if ended.is_err() {
        work.replay.settle(config.relay.shutdown_timeout).await;
    }
    telling.abort();
    let ended = work.end(ended);
    work.replay.close().await;
    ended
}

/// Everything that can be refused before the first row.
async fn open(
    config: &Config,
    wish: &Wish,
    errand: &Errand,
) -> Result<(SelectedRows, Work), RelayError> {
    let asked = errand.asks(POSTGRES, "a session");
    let client = postgres::connect(&config.postgres).await?;
    asked.now("the outbox and the plan of its rows");
    let tables = OutboxTable::resolve(&client, &config.tables).await?;
    refuse_generated(config, &tables)?;
    let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    let types = postgres::catalog::describe(&client, &oids, &[]).await?;
    let rows = SelectedRows::begin(client, &wish.selection, &config.snapshot, &tables).await?;
    let sink = (!wish.dry_run).then(|| Sink::Kafka(Box::new(config.kafka.clone())));
    let metrics = Metrics::new().expect("the metrics' names are valid and each is there once");
    let (slot, publication) = (config.slot.name.as_str(), config.publication.name.as_str());
    let status = Status::new(&config.name, slot, publication, SystemTime::now());
    let view = View::new(metrics, status);
    view.set_state(State::Snapshotting);
    let router = config.event_router();
    let mut replay = Replay::new(router, &config.relay, sink, view.clone(), errand.stop())?;
    replay.learn_types(types);
    let progress = Progress::new(replay.watch_acknowledged());
    let work = Work {
        replay,
        view,
        pace: wish.rate.map(Pace::new),
        skips: wish.skips,
        dry_run: wish.dry_run,
        read_at: (rows.point(), rows.taken_at()),
        progress: Arc::new(progress),
        tally: Tally::default(),
        last: None,
    };
    Ok((rows, work))
}

/// The rows come as the stream would have them, which has no generated columns.
fn refuse_generated(config: &Config, tables: &[OutboxTable]) -> Result<(), ObjectError> {
    let named = config.router.columns();
    let required = named.iter().filter(|(_, _, _, required)| *required);
    for (name, ..) in required {
        for table in tables {
            if table.column(name).is_some_and(|column| column.generated) {
                return Err(ObjectError::GeneratedColumn {
                    table: table.qualified_name(),
                    column: (*name).to_owned(),
                });
            }
        }
    }
    Ok(())
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
    fn announce(&self, rows: &SelectedRows, wish: &Wish) {
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
        if let Some(mark) = wish.mark.as_ref().filter(|_| !self.dry_run) {
            say(&format!("header {}: {}", mark.name, mark.run_id));
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
    fn end(&self, ended: Result<(), Cut>) -> Result<u8, Problem> {
        let acknowledged = self.replay.acknowledged();
        for line in self.tally.lines(acknowledged, self.dry_run) {
            say(&line);
        }
        let problem = match ended {
            Ok(()) if self.tally.unroutable == 0 => return Ok(exit::DRAINED),
            Ok(()) => return Ok(exit::FAILED),
            Err(Cut::Unroutable(problem)) => problem,
            Err(Cut::Work(Interrupted::Failed(error))) => error.problem(),
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
