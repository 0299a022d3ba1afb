//! Questions and orders that go through the admin protocol, from a thread that may block.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// The context of a client for questions: what it has to say of its connections, the producer has
/// said.
pub(super) struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "librdkafka: {}", message.escape_debug());
    }

    fn error(&self, _: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {}", reason.escape_debug());
    }
}

/// librdkafka's own cluster, for demonstrations and tests, names a controller that is not there: a
/// question to it would take until its timeout.
const IN_PROCESS_CLUSTER: &str = "mockCluster";

pub(super) fn is_in_process<C: ClientContext>(client: &Client<C>, timeout: Duration) -> bool {
    let cluster = client.fetch_cluster_id(timeout);
    cluster.is_some_and(|id| id.starts_with(IN_PROCESS_CLUSTER))
}

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The topic's `max.message.bytes`; `None` where the brokers do not let us see it.
pub(super) fn max_message_bytes<C: ClientContext>(
    admin: &AdminClient<C>,
    topic: &str,
) -> Option<usize> {
    let request = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT));
    let wanted = ResourceSpecifier::Topic(topic);
    let described = wait_for(admin.describe_configs([&wanted], &request)).ok()?;
    let config = described.into_iter().next()?.ok()?;
    let limit = config.get("max.message.bytes")?.value.as_ref()?;
    limit.parse().ok()
}

/// The futures are completed by a thread of the client's, within the request's own timeout.
pub(super) fn wait_for<T>(
    question: impl Future<Output = Result<T, KafkaError>>,
) -> Result<T, RDKafkaErrorCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|_| RDKafkaErrorCode::Fail)?;
    runtime
        .block_on(question)
        .map_err(|error| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))
}
