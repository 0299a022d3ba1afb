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
        let kafka = Self::kafka().await;
        let (postgres, client) = Self::source(version, settings).await;
        Self {
            postgres,
            kafka,
            client,
        }
    }

    /// The halves of a scene, where several have one in common.
    pub async fn source(version: Version, settings: &[(&str, &str)]) -> (Postgres, Client) {
        let postgres = Postgres::start(version, settings);
        let client = postgres.client().await;
        Shop::create_tables(&client).await;
        (postgres, client)
    }

    pub async fn kafka() -> Kafka {
        let kafka = Kafka::start();
        kafka.create_topic(Self::TOPIC, 3, &[]).await;
        kafka
    }
}
