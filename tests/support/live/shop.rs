use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::Postgres;

/// A service that changes orders and writes the events, each in one transaction, at a steady rate.
/// The outbox row is inserted and deleted in the same transaction: the log is its only copy.
pub struct Shop {
    stop: oneshot::Sender<()>,
    work: JoinHandle<Result<HashMap<String, i64>, tokio_postgres::Error>>,
}

const KEYS: i64 = 50;

impl Shop {
    pub async fn create_tables(client: &Client) {
        client
            .batch_execute(
                "CREATE TABLE orders (id text PRIMARY KEY, status text NOT NULL, version bigint NOT NULL DEFAULT 1);
                 CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL,
                                      seq bigint NOT NULL, type text NOT NULL, payload jsonb NOT NULL);",
            )
            .await
            .unwrap();
    }

    /// `rate` events per second in transactions of ten, until `finish` or `count` events.
    pub async fn open(postgres: &Postgres, rate: u64, count: u64) -> Self {
        Self::open_with(postgres, rate, count, "DELETE FROM outbox").await
    }

    /// The same, and the rows stay in the outbox.
    pub async fn open_keeping(postgres: &Postgres, rate: u64) -> Self {
        Self::open_with(postgres, rate, u64::MAX, "SELECT 1").await
    }

    async fn open_with(
        postgres: &Postgres,
        rate: u64,
        count: u64,
        afterwards: &'static str,
    ) -> Self {
        let client = postgres.client().await;
        client
            .execute(
                "INSERT INTO orders SELECT 'ORD-' || n, 'created', 0 FROM generate_series(1, $1::bigint) n ON CONFLICT DO NOTHING",
                &[&KEYS],
            )
            .await
            .unwrap();
        let (stop, stopped) = oneshot::channel();
        let work = tokio::spawn(write_events(client, (rate, count), afterwards, stopped));
        Self { stop, work }
    }

    /// Stops writing; the last sequence number of each key that was committed.
    pub async fn finish(self) -> HashMap<String, i64> {
        drop(self.stop);
        self.work.await.unwrap().unwrap()
    }

    /// Waits for the end of a shop whose server went away in the middle of its work.
    pub async fn cut(self) {
        let ended = self.work.await.unwrap();
        ended.expect_err("a shop without a limit ends only with its server");
    }

    /// Waits until `count` events are written.
    pub async fn wait(self) -> HashMap<String, i64> {
        self.work.await.unwrap().unwrap()
    }

    /// The table's word for what was committed, whatever became of the writer.
    pub async fn committed(client: &Client) -> HashMap<String, i64> {
        let rows = client
            .query("SELECT id, version FROM orders WHERE version > 0", &[])
            .await
            .unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

const PER_TRANSACTION: u64 = 10;

async fn write_events(
    client: Client,
    (rate, count): (u64, u64),
    afterwards: &str,
    mut stopped: oneshot::Receiver<()>,
) -> Result<HashMap<String, i64>, tokio_postgres::Error> {
    let write = client
        .prepare(
            "WITH changed AS (UPDATE orders SET status = 'shipped', version = version + 1 WHERE id = $1 RETURNING id, status, version)
             INSERT INTO outbox SELECT gen_random_uuid(), 'order', id, version, 'OrderShipped',
                    jsonb_build_object('status', status, 'note', repeat('x', 200)) FROM changed",
        )
        .await?;
    let clear = client.prepare(afterwards).await?;
    let mut tick = tokio::time::interval(Duration::from_secs_f64(
        PER_TRANSACTION as f64 / rate as f64,
    ));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut written = 0_u64;
    while written < count {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            _ = tick.tick() => {}
        }
        client.batch_execute("BEGIN").await?;
        for index in 0..PER_TRANSACTION {
            let key = format!("ORD-{}", (written + index) as i64 % KEYS + 1);
            client.execute(&write, &[&key]).await?;
        }
        client.execute(&clear, &[]).await?;
        client.batch_execute("COMMIT").await?;
        written += PER_TRANSACTION;
    }
    Ok(Shop::committed(&client).await)
}
