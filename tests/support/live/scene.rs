use std::time::Duration;

use tokio_postgres::Client;

use super::{Kafka, Postgres, Shop, TcpProxy, Version, wait_until};

/// Servers with the shop's tables and the topic of its events, in three partitions.
pub struct Scene {
    pub postgres: Postgres,
    pub kafka: Kafka,
    pub client: Client,
}

impl Scene {
    pub const TOPIC: &str = "outbox.event.order";

    pub async fn open(version: Version, settings: &[(&str, &str)]) -> Self {
        let kafka = Self::kafka().await;
        let (postgres, client) = Self::source(version, settings).await;
        Self {
            postgres,
            kafka,
            client,
        }
    }

    /// With a line to each server, which a relay takes by [`Lines::settings`].
    pub async fn open_with_lines(version: Version) -> (Self, Lines) {
        let (postgres, client) = Self::source(version, &[]).await;
        let (kafka, kafka_line) = Kafka::start_behind_proxy();
        kafka.create_topic(Self::TOPIC, 3, &[]).await;
        let lines = Lines {
            postgres: TcpProxy::start(postgres.port),
            kafka: kafka_line,
        };
        let scene = Self {
            postgres,
            kafka,
            client,
        };
        (scene, lines)
    }

    /// The halves of a scene, where several have one in common.
    pub async fn source(version: Version, settings: &[(&str, &str)]) -> (Postgres, Client) {
        let postgres = Postgres::start(version, settings);
        let client = postgres.client().await;
        Shop::create_tables(&client).await;
        (postgres, client)
    }

    /// Ends the stream and does what only an idle slot allows, before the relay is back: it has to be
    /// one with a long `relay.backoff_min`.
    pub async fn behind_the_relays_back(client: &Client, sql: &str) {
        let end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active";
        client.batch_execute(end).await.unwrap();
        wait_until(Duration::from_secs(60), sql, async || {
            client.batch_execute(sql).await.is_ok()
        })
        .await;
    }

    pub async fn kafka() -> Kafka {
        let kafka = Kafka::start();
        kafka.create_topic(Self::TOPIC, 3, &[]).await;
        kafka
    }
}

pub struct Lines {
    pub postgres: TcpProxy,
    pub kafka: TcpProxy,
}

impl Lines {
    /// Takes a relay to both servers over the lines.
    pub fn settings(&self) -> [String; 2] {
        [
            format!(
                "postgres.url=postgresql://postgres@127.0.0.1:{}/postgres",
                self.postgres.port()
            ),
            format!("kafka.bootstrap.servers=127.0.0.1:{}", self.kafka.port()),
        ]
    }
}
