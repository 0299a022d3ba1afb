use tokio_postgres::Client;

use super::{Kafka, Postgres, Shop, Version};

/// Servers with the shop's tables and the topic of its events, in three partitions.
pub struct Scene {
    pub postgres: Postgres,
    pub kafka: Kafka,
    pub client: Client,
}

impl Scene {
    pub const TOPIC: &str = "outbox.event.order";

    pub async fn open(version: Version, settings: &[(&str, &str)]) -> Self {
        let (postgres, kafka) = (Postgres::start(version, settings), Kafka::start());
        kafka.create_topic(Self::TOPIC, 3, &[]).await;
        let client = postgres.client().await;
        Shop::create_tables(&client).await;
        Self {
            postgres,
            kafka,
            client,
        }
    }
}
