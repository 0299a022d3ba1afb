//! The handle that the relay holds.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc as channel;

use super::delivery::{DeliveryReport, DeliveryReports};
use super::error::PublishError;
use super::health::Health;
use super::options::Options;
use super::producer::Worker;
use super::stdout;
use super::topic::Answer;
use crate::ack::Resend;

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
    /// Finish what is outstanding until the deadline, give the rest up, end.
    Close(Instant),
}

pub(super) type Reports = channel::UnboundedSender<DeliveryReport>;

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
        // Neither channel has a limit of its own: what is in them is outstanding, and the caller's
        // window limits that.
        let (commands, receiver) = mpsc::channel();
        let (reports, delivered) = channel::unbounded_channel();
        let health = Arc::new(Health::default());
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

    fn spawn(
        health: Arc<Health>,
        commands: mpsc::Sender<Command>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Self, PublishError> {
        let thread = std::thread::Builder::new()
            .name("kafka-producer".to_owned())
            .spawn(run)
            .map_err(PublishError::Thread)?;
        Ok(Self {
            commands,
            thread: Some(thread),
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
