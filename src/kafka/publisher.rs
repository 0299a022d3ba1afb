//! The handle that the relay holds.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc as channel, oneshot};

use super::delivery::{DeliveryReport, DeliveryReports};
use super::error::PublishError;
use super::health::Health;
use super::options::Options;
use super::producer::Worker;
use super::stdout;
use super::topic::Answer;
use super::watched;
use crate::ack::Resend;
use crate::router::Record;

pub(super) enum Command {
    Send(Resend),
    /// The failure has been understood: take records again.
    Resume,
    /// What the brokers say of a topic that was asked for.
    Topic(Answer),
    /// librdkafka's report of a failure.
    Refused(DeliveryReport),
    /// Nothing is under way any more.
    AllSettled,
    /// librdkafka has no broker to turn to any more, and never will have.
    Deserted,
    /// Finish what is outstanding until the deadline, give the rest up, end.
    Close(Instant),
}

pub(super) type Reports = channel::UnboundedSender<DeliveryReport>;

/// One producer on a thread of its own. Dropping it closes without waiting for Kafka.
#[derive(Debug)]
pub struct Publisher {
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<()>>,
    /// Ends when the thread does.
    running: oneshot::Receiver<()>,
    health: Arc<Health>,
}

/// What a thread that was told to close may take beyond its deadline, to give up in good order.
const CLOSE_MARGIN: Duration = Duration::from_secs(3);

impl Publisher {
    /// Makes a producer; it connects by itself and keeps trying.
    pub fn start(options: &Options) -> Result<(Self, DeliveryReports), PublishError> {
        // Neither channel has a limit of its own: what is in them is outstanding, and the caller's
        // window limits that.
        let (commands, receiver) = mpsc::channel();
        let (reports, delivered) = channel::unbounded_channel();
        let health = Arc::new(Health::new(options.quiet));
        let worker = Worker::new(options, Arc::clone(&health), commands.clone(), reports)?;
        let poller = worker.start_polling()?;
        let this = Self::spawn(health, commands, move || worker.run(&receiver, poller))?;
        Ok((this, DeliveryReports(delivered)))
    }

    /// The same for `--sink stdout`: a record is acknowledged when its line is written.
    pub fn start_stdout() -> Result<(Self, DeliveryReports), PublishError> {
        let (commands, receiver) = mpsc::channel();
        let (reports, delivered) = channel::unbounded_channel();
        let health = Arc::new(Health::default());
        health.answered();
        let this = Self::spawn(health, commands, move || {
            stdout::run(&mut std::io::stdout().lock(), &receiver, &reports);
        })?;
        Ok((this, DeliveryReports(delivered)))
    }

    /// For a look at records that are not published.
    pub fn start_watched(
        out: SyncSender<Arc<Record>>,
    ) -> Result<(Self, DeliveryReports), PublishError> {
        let (commands, receiver) = mpsc::channel();
        let (reports, delivered) = channel::unbounded_channel();
        let health = Arc::new(Health::default());
        health.answered();
        let this = Self::spawn(health, commands, move || {
            watched::run(&out, &receiver, &reports);
        })?;
        Ok((this, DeliveryReports(delivered)))
    }

    fn spawn(
        health: Arc<Health>,
        commands: mpsc::Sender<Command>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Self, PublishError> {
        let (ended, running) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("kafka-producer".to_owned())
            .spawn(move || {
                run();
                drop(ended);
            })
            .map_err(PublishError::Thread)?;
        Ok(Self {
            commands,
            thread: Some(thread),
            running,
            health,
        })
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
    /// became of it. A thread that does not end (an output that nobody reads) is left behind.
    pub async fn close(self, patience: Duration) {
        self.close_within(patience, CLOSE_MARGIN).await;
    }

    async fn close_within(mut self, patience: Duration, margin: Duration) {
        self.command(Command::Close(Instant::now() + patience));
        let Some(thread) = self.thread.take() else {
            return;
        };
        match tokio::time::timeout(patience + margin, &mut self.running).await {
            // The thread has nothing left to do but end.
            Ok(_) if thread.join().is_err() => tracing::error!("the producer's thread panicked"),
            Ok(_) => {}
            Err(_) => tracing::warn!("the producer's thread does not end"),
        }
    }

    pub(super) fn command(&self, command: Command) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_does_not_end_is_left_behind() {
        let (commands, _receiver) = mpsc::channel();
        let (let_go, held) = mpsc::channel::<()>();
        let (reports, mut delivered) = channel::unbounded_channel::<DeliveryReport>();
        let publisher = Publisher::spawn(Arc::new(Health::default()), commands, move || {
            assert!(held.recv().is_err(), "let go");
            drop(reports);
        })
        .unwrap();
        publisher.close_within(Duration::ZERO, Duration::ZERO).await;
        assert!(!delivered.is_closed(), "it still runs");
        drop(let_go);
        assert!(delivered.recv().await.is_none(), "and ends by itself");
    }
}
