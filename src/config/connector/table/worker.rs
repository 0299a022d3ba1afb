//! A worker's own properties, and those of Debezium Server beside its source and sink.

use super::{As, Property, becomes, honoured, ignored, only, refused};

const CLUSTER: &str = "there is no cluster of workers";
const OFFSETS: &str = "the slot is the only memory of the position";
const JVM: &str = "it concerns the Java program";
const NOTHING_CONSUMED: &str = "nothing is consumed";
const RETRIES: &str = "the relay tries again for as long as it takes";

#[rustfmt::skip]
pub(in super::super) const WORKER: &[Property] = &[
    honoured("bootstrap.servers", "kafka.bootstrap.servers"),
    honoured("producer.*", "the producer's properties, below"),
    honoured("security.protocol", "used where producer.security.protocol is not set"),
    honoured("sasl.*", "used where the same under producer. is not set"),
    honoured("ssl.*", "used where the same under producer. is not set"),
    honoured("key.converter*", "used where the connector has none of its own"),
    honoured("value.converter*", "used where the connector has none of its own"),
    honoured("header.converter*", "used where the connector has none of its own"),
    honoured("config.providers*", "names of the providers for placeholders"),
    ignored("connector.client.config.override.policy", "producer.override.* is always taken"),
    honoured("topic.creation.enable", "`false`: topic.creation.* of the connector has no effect"),
    ignored("group.*", CLUSTER),
    ignored("rest.*", CLUSTER),
    ignored("listeners*", CLUSTER),
    ignored("admin.listeners*", CLUSTER),
    ignored("response.http.headers.config", CLUSTER),
    ignored("access.control.*", CLUSTER),
    ignored("inter.worker.*", CLUSTER),
    ignored("worker.*", CLUSTER),
    ignored("connect.protocol", CLUSTER),
    ignored("scheduled.rebalance.max.delay.ms", CLUSTER),
    ignored("rebalance.timeout.ms", CLUSTER),
    ignored("session.timeout.ms", CLUSTER),
    ignored("heartbeat.interval.ms", CLUSTER),
    ignored("config.storage.*", CLUSTER),
    ignored("status.storage.*", CLUSTER),
    becomes("offset.storage.topic", "connect.offset_topic", As::Text),
    becomes("offset.storage.file.filename", "connect.offset_file", As::Path),
    ignored("offset.*", OFFSETS),
    ignored("offset.storage.*", OFFSETS),
    only("exactly.once.source.support", &["disabled", "preparing", "enabled"], "delivery is at least once, with stable ids"),
    ignored("internal.*", JVM),
    ignored("plugin.*", JVM),
    ignored("task.shutdown.graceful.timeout.ms", "relay.shutdown_timeout bounds a stop"),
    ignored("admin.*", "the producer's properties are used for everything"),
    ignored("consumer.*", NOTHING_CONSUMED),
    ignored("client.id", "kafka.client.id names the producer"),
    ignored("client.dns.lookup", "producer.client.dns.lookup is used"),
    ignored("connections.max.idle.ms", "producer.connections.max.idle.ms is used"),
    ignored("metadata.*", "the producer's own is used"),
    ignored("receive.buffer.bytes", "the producer's own is used"),
    ignored("send.buffer.bytes", "the producer's own is used"),
    ignored("reconnect.backoff.*", "the producer's own is used"),
    ignored("retry.backoff.*", "the producer's own is used"),
    ignored("request.timeout.ms", "the producer's own is used"),
    ignored("socket.connection.setup.*", "the producer's own is used"),
    ignored("metric.reporters", JVM),
    ignored("metrics.*", JVM),
    ignored("auto.include.jmx.reporter", JVM),
    ignored("errors.*", RETRIES),
    ignored("header.version", JVM),
    ignored("topic.tracking.*", CLUSTER),
    ignored("log4j.*", "log.level and log.format"),
    refused("security.providers", "it names Java classes"),
];

#[rustfmt::skip]
pub(in super::super) const SERVER: &[Property] = &[
    only("debezium.sink.type", &["kafka"], "outboxd publishes to Kafka"),
    honoured("debezium.sink.kafka.producer.*", "the producer's properties"),
    ignored("debezium.sink.kafka.wait.message.delivery.timeout.ms", "a record never expires"),
    ignored("debezium.source.offset.*", OFFSETS),
    honoured("debezium.source.*", "the connector's properties"),
    honoured("debezium.transforms*", "as the connector's transforms"),
    honoured("debezium.predicates*", "as the connector's predicates"),
    honoured("debezium.format.*", "converters: json, simplestring, binary"),
    ignored("debezium.api.*", JVM),
    ignored("quarkus.*", "it belongs to another library"),
];
