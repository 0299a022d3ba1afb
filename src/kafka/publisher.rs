//! The handle that the relay holds, and what it can see of the producer's health.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc as channel;

use super::delivery::{DeliveryReport, DeliveryReports};
use super::error::PublishError;
use super::options::Options;
use super::{producer, stdout};
use crate::ack::Resend;

pub(super) enum Command {
    Send(Resend),
    /// The failure has been understood: take records again.
    Resume,
    /// Finish what is outstanding until the deadline, give the rest up, end.
    Close(Instant),
}

pub(super) type Reports = channel::UnboundedSender<Vec<DeliveryReport>>;

/// One producer on a thread of its own. Dropping it closes without waiting for Kafka.
#[derive(Debug)]
pub struct Publisher {
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<()>>,
    health: Arc<Health>,
}

impl Publisher {
    /// Makes a producer; it connects by itself and keeps trying.
    pub fn start(options: &Options) -> Result<(Self, DeliveryReports), PublishError> {
        let health = Arc::new(Health::default());
        let producer = producer::create(options, Arc::clone(&health))?;
        let topic_timeout = options.topic_timeout;
        Self::spawn(health, move |commands, reports| {
            producer::run(producer, topic_timeout, &commands, &reports);
        })
    }

    /// The same for `--sink stdout`: a record is acknowledged when its line is written.
    pub fn start_stdout() -> Result<(Self, DeliveryReports), PublishError> {
        let health = Arc::new(Health::default());
        health.set_reachable(true);
        Self::spawn(health, |commands, reports| {
            stdout::run(&mut std::io::stdout().lock(), &commands, &reports);
        })
    }

    fn spawn(
        health: Arc<Health>,
        run: impl FnOnce(mpsc::Receiver<Command>, Reports) + Send + 'static,
    ) -> Result<(Self, DeliveryReports), PublishError> {
        // Neither channel has a limit of its own: what is in them is outstanding, and the caller's
        // window limits that.
        let (commands, receiver) = mpsc::channel();
        let (sender, reports) = channel::unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("kafka-producer".to_owned())
            .spawn(move || run(receiver, sender))
            .map_err(PublishError::Thread)?;
        Ok((
            Self {
                commands,
                thread: Some(thread),
                health,
            },
            DeliveryReports(reports),
        ))
    }

    /// Hands over records in the order in which Kafka has to get them. Never blocks. Every record
    /// gets exactly one report.
    pub fn send(&self, batch: Resend) {
        if !batch.is_empty() {
            self.command(Command::Send(batch));
        }
    }

    /// After a failure: take records again.
    pub fn resume(&self) {
        self.command(Command::Resume);
    }

    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Waits for what is outstanding, at most until `patience` is over. The reports tell what
    /// became of it.
    pub async fn close(mut self, patience: Duration) {
        self.command(Command::Close(Instant::now() + patience));
        if let Some(thread) = self.thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join());
            if let Ok(Err(_)) = joined.await {
                tracing::error!("the producer's thread panicked");
            }
        }
    }

    fn command(&self, command: Command) {
        // The thread ends only after Close or a panic; its reports channel tells of both.
        if self.commands.send(command).is_err() {
            tracing::debug!("the producer's thread has ended");
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.command(Command::Close(Instant::now()));
        }
    }
}

/// What the producer says of itself, for metrics and the status page.
#[derive(Debug, Default)]
pub struct Health {
    reachable: AtomicBool,
    queue_records: AtomicU64,
    queue_bytes: AtomicU64,
    round_trip_us: AtomicI64,
    retries: AtomicU64,
    notes: Mutex<Option<LastNote>>,
}

#[derive(Debug)]
struct LastNote {
    facility: String,
    said_at: Instant,
    suppressed: u64,
}

/// librdkafka repeats itself for each broker and attempt.
const NOTE_INTERVAL: Duration = Duration::from_secs(30);

impl Health {
    /// False once every broker was lost, until a delivery succeeds.
    pub fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Relaxed)
    }

    pub fn queue_records(&self) -> u64 {
        self.queue_records.load(Ordering::Relaxed)
    }

    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes.load(Ordering::Relaxed)
    }

    /// Average of the busiest broker's round trip in the last interval.
    pub fn round_trip_us(&self) -> i64 {
        self.round_trip_us.load(Ordering::Relaxed)
    }

    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    pub(super) fn set_reachable(&self, reachable: bool) {
        if self.reachable.swap(reachable, Ordering::Relaxed) != reachable && reachable {
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            if notes.take().is_some() {
                tracing::info!("Kafka answers again");
            }
        }
    }

    /// One line of librdkafka's, at most once per interval for each kind.
    pub(super) fn note(&self, facility: &str, message: &str) {
        let mut last = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut suppressed = 0;
        if let Some(last) = last.as_mut() {
            if last.facility == facility && now.duration_since(last.said_at) < NOTE_INTERVAL {
                last.suppressed += 1;
                return;
            }
            suppressed = last.suppressed;
        }
        *last = Some(LastNote {
            facility: facility.to_owned(),
            said_at: now,
            suppressed: 0,
        });
        tracing::warn!(
            facility,
            suppressed,
            "librdkafka: {}",
            message.escape_debug()
        );
    }

    pub(super) fn read_statistics(&self, json: &[u8]) {
        let Ok(statistics) = serde_json::from_slice::<rdkafka::Statistics>(json) else {
            return;
        };
        self.queue_records
            .store(statistics.msg_cnt, Ordering::Relaxed);
        self.queue_bytes
            .store(statistics.msg_size, Ordering::Relaxed);
        let brokers = statistics
            .brokers
            .values()
            .filter(|broker| broker.nodeid >= 0);
        let (mut round_trip_us, mut retries) = (0, 0);
        for broker in brokers {
            round_trip_us = broker
                .rtt
                .as_ref()
                .map_or(0, |rtt| rtt.avg)
                .max(round_trip_us);
            retries += broker.txretries;
        }
        self.round_trip_us.store(round_trip_us, Ordering::Relaxed);
        self.retries.store(retries, Ordering::Relaxed);
    }
}
