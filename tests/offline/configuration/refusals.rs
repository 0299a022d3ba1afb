//! Files that must not run, each with the exact message.

use super::Given;

fn refused(file: &str) -> String {
    Given::connector(file)
        .worker("05-worker.properties")
        .faults()
}

#[test]
fn misspelt_options_are_named_with_the_nearest_known_ones() {
    assert_eq!(
        refused("20-refuse-typos.json"),
        "20-refuse-typos.json: transforms.outbox.route.topic.replacment: unknown property\n  \
         HINT:  The nearest known one is \"transforms.outbox.route.topic.replacement\".\n\
         20-refuse-typos.json: transforms.outbox.table.field.payload: unknown property\n  \
         HINT:  The nearest known one is \"transforms.outbox.table.field.event.payload\"."
    );
}

#[test]
fn a_replacement_may_only_name_groups_that_the_regex_has() {
    assert_eq!(
        refused("21-refuse-unknown-group.json"),
        "21-refuse-unknown-group.json: transforms.outbox.route.topic.replacement: \
         \"outbox.${routedBy}\" names group \"routedBy\", which the regex lacks (it names routedByValue)"
    );
}

#[test]
fn a_second_transform_is_named() {
    assert_eq!(
        refused("22-refuse-second-transform.json"),
        "22-refuse-second-transform.json: transforms: transform \"unwrap\" \
         (io.debezium.transforms.ExtractNewRecordState) is not supported\n  \
         HINT:  The Event Router has to be the only transform."
    );
}

#[test]
fn other_connectors_are_refused_without_more_ado() {
    assert_eq!(
        refused("23-refuse-mongodb.json"),
        "23-refuse-mongodb.json: connector.class: connector \
         \"io.debezium.connector.mongodb.MongoDbConnector\" is not supported\n  \
         HINT:  outboxd takes the place of io.debezium.connector.postgresql.PostgresConnector only."
    );
}

#[test]
fn a_schema_registry_is_refused() {
    assert_eq!(
        refused("24-refuse-avro.json"),
        "24-refuse-avro.json: value.converter: converter io.confluent.connect.avro.AvroConverter \
         is not supported: it needs a schema registry\n  \
         HINT:  Use JsonConverter, StringConverter or BinaryDataConverter."
    );
}

#[test]
fn plain_change_capture_is_refused() {
    assert_eq!(
        refused("25-refuse-no-router.json"),
        "25-refuse-no-router.json: no transform is the outbox Event Router\n  \
         DETAIL:  outboxd publishes outbox tables only, not changes of any table.\n  \
         HINT:  Set transforms=outbox and \
         transforms.outbox.type=io.debezium.transforms.outbox.EventRouter, or keep Debezium for \
         this connector."
    );
}

#[test]
fn a_java_key_store_is_refused_with_the_command_that_converts_it() {
    assert_eq!(
        refused("26-refuse-jks.json"),
        "26-refuse-jks.json: producer.override.ssl.truststore.location: \
         \"/etc/kafka/truststore.jks\" is a Java key store, which librdkafka does not read\n  \
         HINT:  Make a PEM file of it: keytool -list -rfc -keystore /etc/kafka/truststore.jks > \
         /etc/kafka/truststore.pem; then set ssl.truststore.type=PEM and ssl.truststore.location \
         to that file."
    );
}

#[test]
fn a_connector_without_brokers_says_where_to_name_them() {
    assert_eq!(
        Given::connector("01-article.json").faults(),
        "kafka.bootstrap.servers: is not set: no broker is known\n  \
         DETAIL:  With Kafka Connect the worker's properties name the brokers.\n  \
         HINT:  Give the worker's file with --worker, or --set \
         kafka.bootstrap.servers=HOST:PORT, or the environment variable \
         OUTBOXD_KAFKA_BOOTSTRAP_SERVERS."
    );
}
