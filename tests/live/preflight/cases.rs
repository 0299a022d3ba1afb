//! The broken set-ups, each with what `check` has to say of it.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{Case, NO_START, OUTBOX, PUBLICATION, World};
use crate::support::{Operation, PASSWORD, Resource, USER, free_port};

const UPDATED: &str = "
        CREATE TABLE customers (id uuid PRIMARY KEY);
        ALTER TABLE outbox ADD customer uuid REFERENCES customers ON DELETE SET NULL;
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN UPDATE public.outbox SET seq = seq + 1 WHERE id = NEW.id; RETURN NEW; END $$;
        CREATE TRIGGER touch AFTER INSERT ON customers FOR EACH ROW EXECUTE FUNCTION touch();";

pub(super) fn database_faults() -> Vec<Case> {
    vec![
        Case::of("good", &[]),
        Case::of(
            "updated",
            &[
                [
                    "warning updates: trigger \"touch\" of public.customers (function touch) updates \"public.outbox\": an UPDATE publishes nothing",
                    "let it insert an event of its own, or write another table.",
                ],
                [
                    "warning updates: foreign key \"outbox_customer_fkey\" updates \"public.outbox\" when a row of customers changes",
                    "ALTER TABLE \"public\".\"outbox\" DROP CONSTRAINT \"outbox_customer_fkey\";",
                ],
            ],
        )
        .sql(&[OUTBOX, PUBLICATION, UPDATED]),
        Case::of(
            "all_tables",
            &[[
                "warning publication: \"outbox\": it is FOR ALL TABLES | Make one for the outbox alone",
                "CREATE PUBLICATION \"outbox_only\" FOR TABLE \"public\".\"outbox\" WITH (publish = 'insert, update', publish_via_partition_root = true);",
            ]],
        )
        .sql(&[OUTBOX, "CREATE PUBLICATION outbox FOR ALL TABLES WITH (publish = 'insert, update');"]),
        Case::of(
            "narrow",
            &[
                [
                    "warning publication: \"outbox\": it leaves updates out",
                    "ALTER PUBLICATION \"outbox\" SET (publish = 'insert, update');",
                ],
                [
                    "warning publication: \"outbox\": it sends only some rows of \"public.outbox\": (seq > 10)",
                    "ALTER PUBLICATION \"outbox\" SET TABLE \"public\".\"outbox\";",
                ],
                [
                    "error publication: \"outbox\": it sends only some columns of \"public.outbox\": id, aggregatetype, seq; it lacks payload, aggregateid",
                    "ALTER PUBLICATION \"outbox\" SET TABLE \"public\".\"outbox\";",
                ],
                NO_START,
            ],
        )
        .sql(&[
            OUTBOX,
            "ALTER TABLE outbox REPLICA IDENTITY DEFAULT;
             CREATE PUBLICATION outbox FOR TABLE outbox (id, aggregatetype, seq) WHERE (seq > 10) WITH (publish = 'insert');
             ALTER PUBLICATION outbox SET (publish_via_partition_root = true);",
        ]),
        Case::of(
            "wide",
            &[
                [
                    "warning replica identity: \"public.outbox\" has FULL: each DELETE writes the whole row to the log once more",
                    "ALTER TABLE \"public\".\"outbox\" REPLICA IDENTITY DEFAULT;",
                ],
                [
                    "warning publication: \"outbox\": it has other tables too: public.orders",
                    "give the outbox a publication of its own, made before the slot that reads it.",
                ],
                [
                    "warning publication: \"outbox\": it sends deletes too",
                    "It would change for the other tables too: see there.",
                ],
            ],
        )
        .sql(&[
            OUTBOX,
            "CREATE TABLE orders (id bigint PRIMARY KEY);
             ALTER TABLE outbox REPLICA IDENTITY FULL;
             CREATE PUBLICATION outbox FOR TABLE outbox, orders;",
        ]),
        Case::of(
            "younger",
            &[
                [
                    "error publication: publication \"outbox\" does not exist. Replication slot \"younger\" exists. What was committed while there was no publication",
                    "events that were already deleted are lost.",
                ],
                NO_START,
            ],
        )
        .sql(&[
            OUTBOX,
            "ALTER TABLE outbox OWNER TO relay;",
            "GRANT CREATE ON DATABASE younger TO relay;",
            "SELECT pg_create_logical_replication_slot('younger', 'pgoutput');",
        ]),
        Case::of(
            "keyless",
            &[[
                "warning replica identity: \"public.outbox\" has none: PostgreSQL refuses an UPDATE or DELETE",
                "ALTER TABLE \"public\".\"outbox\" ADD PRIMARY KEY (\"id\");",
            ]],
        )
        .sql(&[OUTBOX, PUBLICATION, "ALTER TABLE outbox DROP CONSTRAINT outbox_pkey;"]),
        Case {
            user: "poor",
            ..Case::of(
                "rightless",
                &[
                    ["error role: \"poor\" may not replicate", "ALTER ROLE \"poor\" REPLICATION;"],
                    [
                        "error SELECT: role \"poor\" cannot read \"public.outbox\"",
                        "GRANT SELECT ON \"public\".\"outbox\" TO \"poor\";",
                    ],
                    NO_START,
                ],
            )
        },
    ]
}

/// Each with topics of its own.
pub(super) async fn topic_faults(world: &World) -> Vec<Case> {
    let kafka = &world.kafka;
    kafka.create_topic("positions.deleted", 1, &[]).await;
    kafka
        .create_topic("positions.other", 1, &[("cleanup.policy", "compact")])
        .await;
    let entry = r#"{"version":1,"generation":2,"system_id":"77","timeline":1,"database":"gap","slot":"gap","slot_lsn":"0/10","confirmed_lsn":"1/2","state":"kept","written_at_ms":5}"#;
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kafka.servers())
        .create()
        .unwrap();
    let record = BaseRecord::to("positions.other")
        .key("gap/gap")
        .payload(entry);
    producer.send(record).unwrap();
    producer.flush(Duration::from_secs(20)).unwrap();
    kafka
        .create_topic("letters", 1, &[("cleanup.policy", "compact")])
        .await;
    kafka
        .create_topic("doubled.order", 1, &[("min.insync.replicas", "2")])
        .await;
    let compacted = [
        ("cleanup.policy", "compact"),
        ("message.timestamp.before.max.ms", "60000"),
    ];
    kafka.create_topic("compacted.order", 1, &compacted).await;
    vec![
        Case::of(
            "forgetful",
            &[
                [
                    "error cleanup: \"positions.deleted\" has cleanup.policy = delete",
                    "--alter --entity-type topics --entity-name positions.deleted --add-config cleanup.policy=compact",
                ],
                NO_START,
            ],
        )
        .set(&["position.topic=positions.deleted"]),
        Case::of(
            "gap",
            &[
                [
                    "error position: the server is another one than the one that was streamed from. The position journal has system identifier 77, confirmed up to 1/2",
                    "compare the outbox with Kafka.",
                ],
                NO_START,
            ],
        )
        .set(&["position.topic=positions.other"]),
        Case::of(
            "buried",
            &[
                [
                    "error cleanup: \"letters\" is compacted: a dead letter takes away the one before it",
                    "--entity-name letters --add-config cleanup.policy=delete,retention.ms=-1",
                ],
                [
                    "warning message size: \"letters\" takes 1.0 MiB: an event that is too large for its own topic is too large here too",
                    "--entity-name letters --add-config max.message.bytes=16777216",
                ],
                NO_START,
            ],
        )
        .set(&["errors.on_blocked=dead-letter", "errors.dead_letter.topic=letters"]),
        Case::of(
            "doubled",
            &[
                [
                    "error replicas: \"doubled.order\" has 1, and min.insync.replicas = 2: no record is ever acknowledged",
                    "--entity-name doubled.order --add-config min.insync.replicas=1",
                ],
                [
                    "warning message size: \"doubled.order\" takes 1.0 MiB, and the relay's producer 97.7 KiB",
                    "the topic's own limit counts then.",
                ],
                NO_START,
            ],
        )
        .set(&["outbox.topic=doubled.${routedByValue}", "kafka.message.max.bytes=100000", "kafka.batch.size=100000"]),
        Case::of(
            "compacted",
            &[
                [
                    "warning cleanup: \"compacted.order\" is compacted: of each key the last event alone is kept",
                    "--entity-name compacted.order --add-config cleanup.policy=delete",
                ],
                [
                    "warning timestamps: \"compacted.order\" refuses records older than 60 s",
                    "message.timestamp.before.max.ms=9223372036854775807",
                ],
            ],
        )
        .set(&["outbox.topic=compacted.${routedByValue}"]),
        Case {
            flags: &["--topic", "absent.too"],
            ..Case::of(
                "absent",
                &[
                    [
                        "error topic: \"absent.order\" is not there, and the brokers make none by themselves",
                        "--create --topic absent.order --partitions 12 --replication-factor 1",
                    ],
                    ["error topic: \"absent.too\" is not there", "--topic absent.too --partitions 12 --replication-factor 1"],
                    NO_START,
                ],
            )
            .set(&["outbox.topic=absent.${routedByValue}"])
        },
        Case::of(
            "replicated",
            &[
                [
                    "error topic: \"new.order\" is not there, and the brokers would not make it: ",
                    "--create --topic new.order --partitions 12 --replication-factor 1",
                ],
                NO_START,
            ],
        )
        .set(&["outbox.topic=new.${routedByValue}", "topics.create=missing", "topics.replication_factor=3"]),
    ]
}

/// What the relay's principal may not, and brokers that are not there.
pub(super) async fn access_faults(world: &World) -> Vec<Case> {
    let kafka = &world.kafka;
    kafka.create_topic("seen.order", 1, &[]).await;
    kafka.allow(Operation::Describe, Resource::Topic("seen.order"));
    let guarded = [
        format!("kafka.bootstrap.servers={}", kafka.guarded_servers()),
        "kafka.security.protocol=SASL_PLAINTEXT".to_owned(),
        "kafka.sasl.mechanism=PLAIN".to_owned(),
        format!("kafka.sasl.username={USER}"),
        format!("kafka.sasl.password={PASSWORD}"),
        "outbox.topic=seen.${routedByValue}".to_owned(),
    ];
    let nobody = format!("kafka.bootstrap.servers=127.0.0.1:{}", free_port());
    vec![
        Case {
            settings: guarded.into(),
            ..Case::of(
                "forbidden",
                &[
                    [
                        "error rights: \"seen.order\" may not be written: not authorized",
                        "--add --allow-principal User:relay --operation Write --operation Describe --operation DescribeConfigs --topic seen.order",
                    ],
                    [
                        "warning rights: the settings of \"seen.order\" may not be seen",
                        "--add --allow-principal User:relay --operation DescribeConfigs --topic seen.order",
                    ],
                    [
                        "error journal topic: \"outboxd.positions\" may not be seen: not authorized",
                        "--operation DescribeConfigs --operation Read --topic outboxd.positions",
                    ],
                    NO_START,
                ],
            )
        },
        Case {
            says: "outboxd: still asking Kafka for the brokers (1 s)\n",
            ..Case::of(
                "deaf",
                &[
                    [
                        "error brokers: no broker of 127.0.0.1:",
                        "Check kafka.bootstrap.servers and the security settings.",
                    ],
                    NO_START,
                ],
            )
            .set(&[&nobody])
        },
    ]
}
