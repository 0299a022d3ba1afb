//! Retained rows once more, beside a relay that streams: the same router, window and resend rule, with
//! a producer of its own, and without slot or lead.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::outbound::Outbound;
use super::{Interrupted, OnBlocked, Options, RelayError, Sink, Stop, View, shutdown};
use crate::ack::{Outcome, Ticket};
use crate::lsn::Lsn;
use crate::outbox::TypeCatalog;
use crate::pipeline::{Pipeline, PipelineError, Unroutable};
use crate::postgres::snapshot::SnapshotRow;
use crate::router::{EventRouter, Record};
use crate::timestamp::Timestamp;

pub struct Replay {
    way: Way,
    stop: Stop,
    /// As it was after the last turn, for whoever watches.
    told: Arc<AtomicU64>,
}

#[expect(clippy::large_enum_variant, reason = "one value per process")]
enum Way {
    Kafka(Outbound),
    /// Only to see what would go out.
    Nowhere(Pipeline),
}

/// What became of a row.
#[derive(Debug)]
pub enum Taken {
    Sent(Arc<Record>),
    /// By the router's rules there is no event.
    Nothing,
    Unroutable(Box<Unroutable>),
}

impl Replay {
    /// Without a sink nothing is sent. What Kafka refuses for good ends the replay, whatever the
    /// options say of a relay: nothing is lost by that.
    pub fn new(
        router: EventRouter,
        options: &Options,
        sink: Option<Sink>,
        view: View,
        stop: Stop,
    ) -> Result<Self, RelayError> {
        let pipeline = Pipeline::new(router, options.window());
        let options = Options {
            on_blocked: OnBlocked::Exit,
            ..options.clone()
        };
        let way = match sink {
            Some(sink) => Way::Kafka(Outbound::start(pipeline, sink, &options, view)?),
            None => Way::Nowhere(pipeline),
        };
        let told = Arc::default();
        Ok(Self { way, stop, told })
    }

    /// What the catalog says of types and columns.
    pub fn learn_types(&mut self, catalog: TypeCatalog) {
        self.pipeline().learn_types(catalog);
    }

    /// Waits for room, then sends the row's record. It was read at `point`, at that time.
    pub async fn take(
        &mut self,
        row: &SnapshotRow,
        (point, at): (Lsn, Timestamp),
    ) -> Result<Taken, Interrupted> {
        self.turn_until(Outbound::can_accept).await?;
        let pipeline = self.pipeline();
        let ticket = pipeline.window().next_ticket();
        match pipeline.handle_snapshot_row(&row.relation, &row.tuple(), point, at) {
            Ok(()) => {}
            Err(PipelineError::Route(unroutable)) => return Ok(Taken::Unroutable(unroutable)),
            Err(error) => return Err(RelayError::Pipeline(error).into()),
        }
        let record = pipeline.window().record(ticket).map(Arc::clone);
        match &mut self.way {
            Way::Kafka(outbound) => outbound.send(),
            Way::Nowhere(pipeline) => acknowledge_all(pipeline),
        }
        self.tell();
        Ok(record.map_or(Taken::Nothing, Taken::Sent))
    }

    /// How many records Kafka has acknowledged, counted up to the first that it has not.
    pub fn acknowledged(&self) -> u64 {
        let pipeline = match &self.way {
            Way::Kafka(outbound) => &outbound.pipeline,
            Way::Nowhere(pipeline) => pipeline,
        };
        pipeline.window().released().0
    }

    /// The same, kept up to date also while a call waits.
    pub fn watch_acknowledged(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.told)
    }

    fn tell(&self) {
        self.told.store(self.acknowledged(), Ordering::Relaxed);
    }

    /// Waits for `work` and deals with deliveries meanwhile.
    pub async fn drive<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interrupted> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                turned = self.turn() => turned?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits until nothing is outstanding.
    pub async fn drain(&mut self) -> Result<(), Interrupted> {
        self.turn_until(Outbound::is_empty).await
    }

    /// The same after the end: for so long, and whoever asks for a stop.
    pub async fn settle(&mut self, patience: Duration) {
        let settled = async {
            while matches!(&self.way, Way::Kafka(outbound) if !outbound.is_empty()) {
                if turn(&mut self.way).await.is_err() {
                    return;
                }
                self.tell();
            }
        };
        // What is left is told by what was acknowledged.
        drop(tokio::time::timeout(patience, settled).await);
    }

    pub async fn close(self) {
        if let Way::Kafka(outbound) = self.way {
            outbound.close(Duration::from_secs(1)).await;
        }
    }

    async fn turn_until(&mut self, done: impl Fn(&Outbound) -> bool) -> Result<(), Interrupted> {
        while matches!(&self.way, Way::Kafka(outbound) if !done(outbound)) {
            self.turn().await?;
        }
        Ok(())
    }

    /// One, unless a stop is asked for.
    async fn turn(&mut self) -> Result<(), Interrupted> {
        tokio::select! {
            biased;
            () = shutdown::stop_requested(&mut self.stop) => return Err(Interrupted::Stop),
            turned = turn(&mut self.way) => turned?,
        }
        self.tell();
        Ok(())
    }

    fn pipeline(&mut self) -> &mut Pipeline {
        match &mut self.way {
            Way::Kafka(outbound) => &mut outbound.pipeline,
            Way::Nowhere(pipeline) => pipeline,
        }
    }
}

async fn turn(way: &mut Way) -> Result<(), RelayError> {
    match way {
        Way::Kafka(outbound) => outbound.turn().await,
        Way::Nowhere(_) => std::future::pending().await,
    }
}

fn acknowledge_all(pipeline: &mut Pipeline) {
    let tickets: Vec<Ticket> = pipeline.take_outgoing().iter().map(|sent| sent.0).collect();
    for ticket in tickets {
        pipeline.handle_delivery(ticket, Outcome::Acknowledged { partition: 0 });
    }
}
