//! `outboxd demo`: a temporary PostgreSQL with a little shop, Kafka, the relay as its users run it,
//! and a consumer. The relay is killed in mid-stream and started again; the summary says whether
//! anything was lost.

mod broker;
mod child;
mod consumer;
mod error;
mod relay;
mod screen;
mod server;
mod shop;
mod summary;

use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::cli::{DemoArgs, exit};
use crate::observe::escaped;
use broker::Broker;
use consumer::{Consumer, Delivery};
use error::{DemoError, During};
use relay::{Recipe, Relay};
use screen::Screen;
use server::Server;
use shop::{Note, Step};
use summary::{Ledger, Summary};

/// The shop's transactions are spread over this time, as far as they take no longer by themselves.
const SHOP_OPEN: Duration = Duration::from_secs(18);
const LONGEST_PACE: Duration = Duration::from_millis(400);
const SHORTEST_PACE: Duration = Duration::from_micros(100);
/// How long the relay stays dead.
const DEAD: Duration = Duration::from_millis(2_500);
/// What has not arrived this long after the last arrival does not arrive.
const PATIENCE: Duration = Duration::from_secs(20);
const NOTES: usize = 256;

/// Exit status 0 only if nothing was lost or out of order and both sides agree.
pub async fn run(args: DemoArgs) -> u8 {
    let mut screen = Screen::new();
    let mut stage = Stage::default();
    let outcome = tokio::select! {
        biased;
        error = interrupted() => Err(error),
        outcome = play(&args, &mut stage, &mut screen) => outcome,
    };
    stage.clear().await;
    match outcome {
        Ok(summary) => {
            screen.summary(&summary);
            if summary.is_good() {
                exit::DRAINED
            } else {
                exit::FAILED
            }
        }
        Err(error) => {
            report(&error);
            exit::FAILED
        }
    }
}

/// What has to be cleared away, whatever happened.
#[derive(Default)]
struct Stage {
    server: Option<Server>,
    broker: Option<Broker>,
    relay: Option<Relay>,
}

impl Stage {
    async fn clear(&mut self) {
        if let Some(relay) = self.relay.take() {
            // Only after a failure or an interrupt, which has been or will be told.
            drop(relay.kill().await);
        }
        if let Some(broker) = self.broker.take() {
            broker.close().await;
        }
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }
}

async fn play(
    args: &DemoArgs,
    stage: &mut Stage,
    screen: &mut Screen,
) -> Result<Summary, DemoError> {
    screen.title("outboxd demo: a shop, its outbox, a relay and a consumer");
    let server = Server::start(args.postgres_bin.as_deref()).await?;
    let server = stage.server.insert(server);
    let (shop, warehouse) = (server.shop().await?, server.warehouse().await?);
    shop::open(&shop).await?;
    consumer::open(&warehouse).await?;
    let broker = Broker::start(args.broker.as_deref(), &name_of(server.folder())).await?;
    let broker = stage.broker.insert(broker);
    let recipe = Recipe::new(server, broker)?;
    let relay = stage.relay.insert(recipe.start()?);
    introduce(screen, server, broker, &recipe, &shop).await?;
    relay.wait_for_slot(&shop).await?;

    let steps = shop::plan(args.orders);
    let (sender, notes) = mpsc::channel(NOTES);
    let customers = server.shop().await?;
    let pace = pace(steps.len());
    let mut scene = Scene {
        kill_at: events(&steps) / 2,
        shop: tokio::spawn(shop::run(customers, steps, pace, sender)),
        notes,
        consumer: Consumer::start(broker)?,
        warehouse,
        recipe,
        ledger: Ledger::default(),
        act: Act::First,
        last_news: Instant::now(),
    };
    screen.headings();
    scene.play(&mut stage.relay, screen).await?;
    if let Some(relay) = stage.relay.take() {
        screen.event("the shop has closed: the relay is asked to stop (SIGTERM) and drains");
        relay.stop().await?;
    }
    scene.read_to_the_end(screen).await?;
    let source = consumer::rows(&shop, consumer::SOURCE_ROWS).await?;
    let applied = consumer::rows(&scene.warehouse, consumer::CONSUMER_ROWS).await?;
    Ok(scene.ledger.summary(&source, &applied))
}

async fn introduce(
    screen: &mut Screen,
    server: &Server,
    broker: &Broker,
    recipe: &Recipe,
    shop: &Client,
) -> Result<(), DemoError> {
    let row = shop
        .query_one("SELECT current_setting('server_version')", &[])
        .await
        .during("asking for the server's version")?;
    let version: String = row.try_get(0).during("asking for the server's version")?;
    let folder = server.folder().display();
    screen.part("PostgreSQL", &format!("{version}, temporary, in {folder}"));
    let kind = if broker.is_in_process() {
        ", in this process"
    } else {
        ""
    };
    let Broker {
        bootstrap_servers,
        topic,
        ..
    } = broker;
    screen.part(
        "Kafka",
        &format!("{bootstrap_servers}{kind}; topic {topic}"),
    );
    let page = format!("outboxd run; its status page: http://{}/", recipe.http());
    screen.part("relay", &page);
    screen.remark(
        "Each transaction changes an order, inserts the event into the outbox and deletes it again:\n  \
         PostgreSQL's log is its only copy. One transaction in eight is rolled back.",
    );
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Until the relay is killed.
    First,
    Dead {
        until: Instant,
    },
    /// The relay was started again.
    Last,
}

/// Everything that moves.
struct Scene {
    /// The number of events that have arrived when the relay is killed.
    kill_at: usize,
    shop: JoinHandle<Result<(), DemoError>>,
    notes: mpsc::Receiver<Note>,
    consumer: Consumer,
    warehouse: Client,
    recipe: Recipe,
    ledger: Ledger,
    act: Act,
    last_news: Instant,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.shop.abort();
    }
}

impl Scene {
    /// Until the shop has closed and everything has arrived, or nothing arrives any more.
    async fn play(
        &mut self,
        relay: &mut Option<Relay>,
        screen: &mut Screen,
    ) -> Result<(), DemoError> {
        let mut open = true;
        while open || self.act != Act::Last || !self.ledger.is_complete() {
            let give_up = self.last_news + PATIENCE;
            tokio::select! {
                note = self.notes.recv(), if open => match note {
                    Some(note) => self.ledger.note(note),
                    None => {
                        open = false;
                        self.shop_has_closed().await?;
                    }
                },
                delivery = self.consumer.next() => match delivery {
                    Some(delivery) => {
                        let first = self.take(delivery?, screen).await?;
                        let due = first && self.act == Act::First;
                        if due && self.ledger.seen() >= self.kill_at && let Some(alive) = relay.take() {
                            self.kill(alive, screen).await?;
                        }
                    }
                    // It ends only when it is asked to, or after an error that it has told.
                    None => return Ok(()),
                },
                error = ended(relay) => return Err(error),
                () = resurrection(self.act) => *relay = Some(self.start_again(screen)?),
                () = tokio::time::sleep_until(give_up) => return Ok(()),
            }
        }
        Ok(())
    }

    /// True for the first record of an event.
    async fn take(&mut self, delivery: Delivery, screen: &mut Screen) -> Result<bool, DemoError> {
        let applied = consumer::apply(&self.warehouse, &delivery).await?;
        let first = self.ledger.deliver(&delivery);
        screen.delivery(&delivery, first, applied);
        self.last_news = Instant::now();
        Ok(first)
    }

    /// Right after an event has arrived: Kafka has it, and PostgreSQL has not been told.
    async fn kill(&mut self, relay: Relay, screen: &mut Screen) -> Result<(), DemoError> {
        let pid = relay.pid();
        relay.kill().await?;
        self.act = Act::Dead {
            until: Instant::now() + DEAD,
        };
        screen.event(&format!(
            "kill -9 {pid}: the relay is gone in mid-stream, the shop goes on"
        ));
        Ok(())
    }

    fn start_again(&mut self, screen: &mut Screen) -> Result<Relay, DemoError> {
        let waiting = self.ledger.committed().saturating_sub(self.ledger.seen());
        let relay = self.recipe.start()?;
        self.act = Act::Last;
        self.last_news = Instant::now();
        screen.event(&format!(
            "the relay is started again: {waiting} events wait in PostgreSQL's log"
        ));
        Ok(relay)
    }

    async fn shop_has_closed(&mut self) -> Result<(), DemoError> {
        self.last_news = Instant::now();
        match (&mut self.shop).await {
            Ok(result) => result,
            Err(error) => Err(std::io::Error::other(error)).during("the shop"),
        }
    }

    /// The relay has stopped: what is in Kafka now is all there will be.
    async fn read_to_the_end(&mut self, screen: &mut Screen) -> Result<(), DemoError> {
        self.consumer.finish();
        while let Some(delivery) = self.consumer.next().await {
            self.take(delivery?, screen).await?;
        }
        Ok(())
    }
}

async fn resurrection(act: Act) {
    match act {
        Act::Dead { until } => tokio::time::sleep_until(until).await,
        Act::First | Act::Last => std::future::pending().await,
    }
}

async fn ended(relay: &mut Option<Relay>) -> DemoError {
    match relay {
        Some(relay) => relay.ended().await,
        None => std::future::pending().await,
    }
}

fn events(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.commits()).count()
}

fn pace(steps: usize) -> Duration {
    let steps = u32::try_from(steps).unwrap_or(u32::MAX).max(1);
    (SHOP_OPEN / steps).clamp(SHORTEST_PACE, LONGEST_PACE)
}

/// The temporary folder's own name is one that nobody else has.
fn name_of(folder: &Path) -> String {
    folder
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Ends at Ctrl-C, SIGTERM or a closed terminal.
async fn interrupted() -> DemoError {
    let listen = |kind| signal(kind).during("listening for signals");
    let signals = (
        listen(SignalKind::interrupt()),
        listen(SignalKind::terminate()),
        listen(SignalKind::hangup()),
    );
    match signals {
        (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            DemoError::Interrupted
        }
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => error,
    }
}

#[expect(clippy::print_stderr, reason = "the demo has a terminal, not a log")]
fn report(error: &DemoError) {
    eprintln!("outboxd demo: {}", escaped(&error.to_string()));
    if let Some(detail) = error.detail() {
        let lines: Vec<_> = detail.lines().map(escaped).collect();
        eprintln!("DETAIL:  {}", lines.join("\n"));
    }
    if let Some(hint) = error.hint() {
        eprintln!("HINT:  {hint}");
    }
}
