//! Servers of its own, on which cases run one after another.

use std::fs;
use std::time::{Duration, Instant};

use outboxd::lsn::Lsn;
use outboxd::postgres::{self, ReplicationStream};
use outboxd::wire::StartReplication;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use super::case::{Base, Done};
use super::records;
use crate::support::{Kafka, Postgres, Relay, Version, wait_until};

pub(super) const DATABASE: &str = "outboxlab";
pub(super) const SLOT: &str = "outbox_slot";

pub(super) struct Lane {
    pub(super) postgres: Postgres,
    pub(super) kafka: Kafka,
    admin: Client,
    files: TempDir,
}

fn without_lsn(word: &str) -> &str {
    match word.parse::<Lsn>() {
        Ok(_) => "<lsn>",
        Err(_) => word,
    }
}

impl Lane {
    pub(super) async fn start() -> Self {
        let settings = [
            ("max_prepared_transactions", "10"),
            ("autovacuum", "off"),
            ("max_wal_senders", "10"),
        ];
        let postgres = Postgres::start(Version::V18, &settings);
        let kafka = Kafka::start_with(
            "num.partitions=1\nlog.message.timestamp.after.max.ms=9223372036854775807\n",
        );
        // The first topic of a broker takes seconds where the machine is busy.
        kafka.create_topic("first", 1, &[]).await;
        let admin = postgres.client().await;
        Self {
            postgres,
            kafka,
            admin,
            files: TempDir::with_prefix("outboxd-conformance-").unwrap(),
        }
    }

    /// What the case before left is gone: its slot, its database, its topics.
    pub(super) async fn clean(&self) {
        self.drop_slots().await;
        let prepared = format!("SELECT gid FROM pg_prepared_xacts WHERE database = '{DATABASE}'");
        for row in self.admin.query(&prepared, &[]).await.unwrap() {
            let gid: &str = row.get(0);
            let client = self.client().await;
            client
                .batch_execute(&format!("ROLLBACK PREPARED '{gid}'"))
                .await
                .unwrap();
        }
        for sql in [
            format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"),
            format!("CREATE DATABASE {DATABASE}"),
        ] {
            self.admin.batch_execute(&sql).await.unwrap();
        }
        let old: Vec<String> = records::topics(&self.kafka).into_keys().collect();
        if !old.is_empty() {
            let names: Vec<&str> = old.iter().map(String::as_str).collect();
            self.kafka.delete_topics(&names).await;
            wait_until(Duration::from_secs(30), "topics are gone", async || {
                records::topics(&self.kafka).is_empty()
            })
            .await;
        }
    }

    /// A killed relay's backend goes when the server notices; until then its slot is active.
    async fn drop_slots(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            self.admin
                .batch_execute(
                    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL",
                )
                .await
                .unwrap();
            let dropped = self
                .admin
                .batch_execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
                )
                .await;
            match dropped {
                Ok(()) => return,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn client(&self) -> Client {
        let url = format!(
            "postgresql://postgres@127.0.0.1:{}/{DATABASE}",
            self.postgres.port
        );
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Everything that a commit has written so far.
    pub(super) async fn flushed(&self) -> u64 {
        let row = self.admin.query_one(
            "SELECT (pg_current_wal_flush_lsn() - '0/0')::text::bigint",
            &[],
        );
        u64::try_from(row.await.unwrap().get::<_, i64>(0)).unwrap()
    }

    /// How far the slot's consumer has confirmed, while it is being read.
    pub(super) async fn confirmed(&self) -> Option<u64> {
        let row = self
            .admin
            .query_opt(
                "SELECT (confirmed_flush_lsn - '0/0')::text::bigint FROM pg_replication_slots WHERE slot_name = $1 AND NOT temporary AND active",
                &[&SLOT],
            )
            .await
            .unwrap();
        let lsn: Option<i64> = row.and_then(|row| row.get(0));
        lsn.map(|lsn| u64::try_from(lsn).unwrap())
    }

    /// The relay with the case's configuration laid over the base.
    pub(super) fn relay(&self, base: &Base, done: &Done, later: &Map<String, Value>) -> Relay {
        let mut connector = base.connector.clone();
        connector.insert("database.hostname".to_owned(), json!("127.0.0.1"));
        connector.insert(
            "database.port".to_owned(),
            json!(self.postgres.port.to_string()),
        );
        connector.insert("database.user".to_owned(), json!("postgres"));
        connector.insert("database.dbname".to_owned(), json!(DATABASE));
        for (key, value) in done.connector.iter().chain(later) {
            match value {
                Value::Null => connector.shift_remove(key),
                value => connector.insert(key.clone(), value.clone()),
            };
        }
        let file = self.files.path().join("connector.json");
        let text = json!({"name": "outbox", "config": connector}).to_string();
        fs::write(&file, text).unwrap();
        let worker = self.files.path().join("worker.properties");
        let mut text = format!("bootstrap.servers={}\n", self.kafka.servers());
        for (key, value) in &base.worker {
            text += &format!("{key}={}\n", value.as_str().unwrap());
        }
        fs::write(&worker, text).unwrap();
        let args = [
            "run",
            "--connector",
            file.to_str().unwrap(),
            "--worker",
            worker.to_str().unwrap(),
            // Waiting less for what is not going to come, and saying sooner what was confirmed.
            "--set",
            "kafka.topic_timeout=5s",
            "--set",
            "relay.confirm_interval=5ms",
            "--set",
            "relay.shutdown_timeout=3s",
            // Debezium has none, and every topic is compared.
            "--set",
            "position.topic=",
        ];
        Relay::start_with(&args.map(str::to_owned), &[])
    }

    /// The case's files are written differently in every run.
    pub(super) fn without_places(&self, text: &str) -> String {
        text.replace(self.files.path().to_str().unwrap(), "<folder>")
            .replace(&self.kafka.servers(), "<kafka>")
            .replace(&format!("127.0.0.1:{}", self.postgres.port), "<postgres>")
            .split(' ')
            .map(without_lsn)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Somebody else streams from the connector's slot for as long as the value lives.
    pub(super) async fn hold_slot(&self) -> ReplicationStream {
        let client = self.client().await;
        client
            .batch_execute("CREATE PUBLICATION outbox_pub FOR TABLE outbox")
            .await
            .unwrap();
        client
            .batch_execute(&format!(
                "SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')"
            ))
            .await
            .unwrap();
        let options = self.postgres.options(DATABASE);
        let start = StartReplication {
            slot: SLOT,
            publication: "outbox_pub",
            start_lsn: Lsn::default(),
        };
        let session = postgres::connect_replication(&options).await.unwrap();
        session.start(&start).await.unwrap()
    }
}
