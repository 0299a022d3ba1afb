//! Transactions at a steady rate. What an event says follows from its key and version, and the source's
//! table counts the versions: that is all the ledger that the checker needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

const WRITERS: u64 = 4;
const KEYS_PER_WRITER: u64 = 50;
const LARGEST_TRANSACTION: u64 = 9;
const MEAN_TRANSACTION: f64 = (1 + LARGEST_TRANSACTION) as f64 / 2.0;

/// The outbox rows that are kept are pruned later, as services do.
const PRUNE: &str = "DELETE FROM outbox WHERE aggregateid = $1 AND seq < (SELECT version FROM orders WHERE id = $1) - 20";

/// `"sum"` depends on key and version, the filler's length on the version.
const WRITE: &str =
    "WITH changed AS (UPDATE orders SET version = version + 1 WHERE id = $1 RETURNING id, version)
     INSERT INTO outbox SELECT md5(id || ':' || version)::uuid, 'order', id, version, 'Changed',
            jsonb_build_object('sum', md5('payload:' || id || ':' || version), 'fill', repeat('x', (version * 37 % 400)::int))
       FROM changed";

pub(crate) struct Load {
    ended: Arc<AtomicBool>,
    counts: Arc<Counts>,
    writers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) transactions: AtomicU64,
    pub(crate) rolled_back: AtomicU64,
    pub(crate) deleted_at_once: AtomicU64,
    pub(crate) cuts: AtomicU64,
}

impl Load {
    pub(crate) async fn create_tables(client: &Client) {
        client
            .batch_execute(&format!(
                "CREATE TABLE orders (id text PRIMARY KEY, version bigint NOT NULL);
                 CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL,
                                      seq bigint NOT NULL, type text NOT NULL, payload jsonb NOT NULL);
                 CREATE INDEX ON outbox (aggregateid, seq);
                 INSERT INTO orders SELECT 'k' || n, 0 FROM generate_series(0, {}) n",
                WRITERS * KEYS_PER_WRITER - 1
            ))
            .await
            .unwrap();
    }

    /// The slot exists: what is deleted at once can be seen nowhere else.
    pub(crate) fn start(url: &str, rate: f64, seed: u64) -> Self {
        let (ended, counts) = (Arc::default(), Arc::<Counts>::default());
        let pause = Duration::from_secs_f64(WRITERS as f64 * MEAN_TRANSACTION / rate);
        let writers = (0..WRITERS)
            .map(|number| {
                let writer = Writer {
                    url: url.to_owned(),
                    first_key: number * KEYS_PER_WRITER,
                    random: StdRng::seed_from_u64(seed ^ (number + 1) << 32),
                    pause,
                    ended: Arc::clone(&ended),
                    counts: Arc::clone(&counts),
                };
                tokio::spawn(writer.run())
            })
            .collect();
        Self {
            ended,
            counts,
            writers,
        }
    }

    pub(crate) async fn finish(self) -> Arc<Counts> {
        self.ended.store(true, Ordering::Relaxed);
        for writer in self.writers {
            writer.await.unwrap();
        }
        self.counts
    }
}

struct Writer {
    url: String,
    first_key: u64,
    random: StdRng,
    pause: Duration,
    ended: Arc<AtomicBool>,
    counts: Arc<Counts>,
}

impl Writer {
    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Connects again whenever the server goes away: whether the last commit counted, the table knows.
    async fn run(mut self) {
        while !self.is_over() {
            if let Ok((client, connection)) = tokio_postgres::connect(&self.url, NoTls).await {
                let connection = tokio::spawn(connection);
                let cut = self.write(&client).await.is_err();
                self.counts
                    .cuts
                    .fetch_add(u64::from(cut), Ordering::Relaxed);
                connection.abort();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn write(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let (write, prune) = (client.prepare(WRITE).await?, client.prepare(PRUNE).await?);
        let mut tick = tokio::time::interval(self.pause);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.is_over() {
            tick.tick().await;
            client.batch_execute("BEGIN").await?;
            let mut key = String::new();
            for _ in 0..self.random.random_range(1..=LARGEST_TRANSACTION) {
                let number = self.first_key + self.random.random_range(0..KEYS_PER_WRITER);
                key = format!("k{number}");
                if self.random.random_bool(0.05) {
                    client.batch_execute("SAVEPOINT s").await?;
                    client.execute(&write, &[&key]).await?;
                    client.batch_execute("ROLLBACK TO s").await?;
                }
                client.execute(&write, &[&key]).await?;
            }
            if self.random.random_bool(0.5) {
                // Of this transaction and of earlier ones alike.
                let delete = "DELETE FROM outbox WHERE aggregateid = $1";
                client.execute(delete, &[&key]).await?;
                self.counts.deleted_at_once.fetch_add(1, Ordering::Relaxed);
            } else {
                client.execute(&prune, &[&key]).await?;
            }
            if self.random.random_bool(0.05) {
                client.batch_execute("ROLLBACK").await?;
                self.counts.rolled_back.fetch_add(1, Ordering::Relaxed);
            } else {
                client.batch_execute("COMMIT").await?;
                self.counts.transactions.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
