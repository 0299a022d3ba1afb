//! Where the relay publishes to: librdkafka's in-process cluster, or a broker given by its address.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::error::{DemoError, During};

pub(super) const PARTITIONS: i32 = 4;

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Broker {
    pub(super) bootstrap_servers: String,
    pub(super) topic: String,
    /// `outbox.topic` of the relay: events of type `order` go to `topic`.
    pub(super) topic_rule: String,
    cluster: Cluster,
}

enum Cluster {
    /// Ends when it is dropped. It keeps 100,000 records and 5 MiB of each partition.
    InProcess(#[expect(dead_code, reason = "held, not used")] InProcess),
    Given,
}

type InProcess = MockCluster<'static, DefaultProducerContext>;

impl Broker {
    /// `suffix` makes the topic on a given broker one of its own; it is deleted at the end.
    pub(super) async fn start(given: Option<&str>, suffix: &str) -> Result<Self, DemoError> {
        match given {
            None => Self::in_process().during("the in-process broker"),
            Some(address) => Self::given(address, suffix)
                .await
                .during("creating a topic on the broker"),
        }
    }

    pub(super) const fn is_in_process(&self) -> bool {
        matches!(self.cluster, Cluster::InProcess(_))
    }

    fn in_process() -> Result<Self, KafkaError> {
        let cluster: InProcess = MockCluster::new(1)?;
        let topic = "outbox.event.order".to_owned();
        cluster.create_topic(&topic, PARTITIONS, 1)?;
        Ok(Self {
            bootstrap_servers: cluster.bootstrap_servers(),
            topic,
            topic_rule: "outbox.event.${routedByValue}".to_owned(),
            cluster: Cluster::InProcess(cluster),
        })
    }

    async fn given(address: &str, suffix: &str) -> Result<Self, KafkaError> {
        let broker = Self {
            bootstrap_servers: address.to_owned(),
            topic: format!("{suffix}.order"),
            topic_rule: format!("{suffix}.${{routedByValue}}"),
            cluster: Cluster::Given,
        };
        let topic = NewTopic::new(&broker.topic, PARTITIONS, TopicReplication::Fixed(-1));
        let created = broker.admin()?.create_topics([&topic], &options()).await?;
        for result in created {
            result.map_err(|(_, code)| KafkaError::AdminOp(code))?;
        }
        Ok(broker)
    }

    /// Leaves a given broker as it was.
    pub(super) async fn close(self) {
        if self.is_in_process() {
            return;
        }
        if let Ok(admin) = self.admin() {
            // A topic that stays behind is named after the demo; there is nothing else to do.
            drop(admin.delete_topics(&[&self.topic], &options()).await);
        }
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, KafkaError> {
        ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap_servers)
            .create()
    }
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(PATIENCE))
        .operation_timeout(Some(PATIENCE))
}
