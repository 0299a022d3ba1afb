//! What Kafka, its readers and the relay's own tasks say.

use std::io::Error;
use std::time::Duration;

use outboxd::connect::Testimony;
use outboxd::journal::Gap;
use outboxd::kafka::{
    DeliveryError, DeliveryErrorKind as Delivery, PublishError, ReadError, SizeLimit,
};
use outboxd::lsn::Lsn;
use outboxd::observe::Problem;
use outboxd::postgres::ObjectError;
use outboxd::relay::{
    MovedSlot, OnStandby, RelayError, SeenOffset, Undelivered, brokers_away, journal,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::samples::{DELIVERY, ENDED, JOURNAL_UNWRITTEN, MIGRATING, SOURCE, sample};
use super::{Sample, variant};

const BROKERS: &str = "blocked-by-brokers";

pub(super) fn deliveries() -> Vec<Sample> {
    let kinds = vec![
        Delivery::TopicMissing,
        Delivery::TopicInvalid,
        Delivery::TopicCollision {
            existing: Some("outbox.event_order".into()),
        },
        Delivery::TopicNotCreated("Policy violation".into()),
        Delivery::TopicAuthorization,
        Delivery::ClusterAuthorization,
        Delivery::Authentication,
        Delivery::RecordTooLarge {
            size_bytes: 1_200_000,
            limit: SizeLimit::Topic(Some(1_048_588)),
        },
        Delivery::RecordTooLarge {
            size_bytes: 1_200_000,
            limit: SizeLimit::Relay(1_000_000),
        },
        Delivery::InvalidPartition {
            partition: 7,
            count: 3,
        },
        Delivery::InvalidTimestamp {
            timestamp_ms: 32_503_680_000_000,
        },
        Delivery::RecordInvalid,
        Delivery::BatchRefused("the batch or a record in it is too large".into()),
        Delivery::RefusedByBroker("Broker: Request illegally referred to itself".into()),
        Delivery::Purged,
        Delivery::ProducerFatal("Local: Fatal error".into()),
        Delivery::Sink("Broken pipe".into()),
        Delivery::Other("Local: Unknown error".into()),
    ];
    kinds
        .into_iter()
        .map(|kind| {
            let variant = variant(&kind);
            let error = DeliveryError {
                topic: "outbox.event.order".into(),
                kind,
            };
            let mut undelivered = Undelivered::new(error, None);
            undelivered.event_id = undelivered
                .error
                .concerns_the_record()
                .then(|| "5f0c1c7e".to_owned());
            sample(variant, DELIVERY, RelayError::Undeliverable(undelivered))
        })
        .collect()
}

pub(super) fn producer() -> Vec<Sample> {
    let unknown = || KafkaError::ClientCreation("No provider for SASL mechanism GSSAPI".into());
    let errors = vec![
        PublishError::Client(unknown()),
        PublishError::Thread(Error::other("Resource temporarily unavailable")),
        PublishError::Unreachable {
            servers: "kafka-1:9092".into(),
            reasons: vec!["Connect to kafka-1:9092 failed: Connection refused".into()],
            source: KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure),
        },
    ];
    errors
        .into_iter()
        .map(|error| sample(variant(&error), ENDED, error))
        .collect()
}

const POSITIONS: &str = "outboxd.positions";

pub(super) fn waiting() -> Vec<Sample> {
    let problems = [
        (BROKERS, brokers_away(Some(REFUSED.to_owned()))),
        (BROKERS, brokers_away(Some(UNVERIFIED.to_owned()))),
        (
            JOURNAL_UNWRITTEN,
            journal::unwritten(POSITIONS, false, "no answer from Kafka", None),
        ),
        (
            JOURNAL_UNWRITTEN,
            journal::unwritten(
                POSITIONS,
                true,
                &not_authorized().to_string(),
                Some(not_authorized().hint()),
            ),
        ),
    ];
    problems
        .into_iter()
        .map(|(section, problem)| Sample {
            variant: String::new(),
            section,
            problem,
        })
        .collect()
}

const REFUSED: &str =
    "kafka-1:9092/bootstrap: Connect to ipv4#10.0.0.9:9092 failed: Connection refused";
const UNVERIFIED: &str =
    "ssl://kafka-1:9093/bootstrap: SSL handshake failed: broker certificate could not be verified";

fn not_authorized() -> DeliveryError {
    DeliveryError {
        topic: POSITIONS.into(),
        kind: Delivery::TopicAuthorization,
    }
}

fn silent(topic: &str) -> ReadError {
    ReadError::Silent {
        topic: topic.into(),
        after: Duration::from_secs(30),
        reasons: vec![REFUSED.into()],
    }
}

pub(super) fn reading() -> Vec<Sample> {
    let errors = vec![
        ReadError::Client(KafkaError::ClientCreation(
            "No provider for SASL mechanism GSSAPI".into(),
        )),
        ReadError::TopicMissing {
            topic: "dead".into(),
        },
        ReadError::BeyondEnd {
            topic: "dead".into(),
            partition: 0,
            offset: 4711,
            end: 12,
        },
        ReadError::TopicAuthorization {
            topic: "dead".into(),
        },
        silent("dead"),
    ];
    errors
        .into_iter()
        .map(|error| Sample {
            variant: variant(&error),
            section: "redrive",
            problem: Problem {
                message: error.to_string(),
                detail: std::error::Error::source(&error).map(ToString::to_string),
                hint: Some(error.hint()),
            },
        })
        .collect()
}

pub(super) fn relay() -> Vec<Sample> {
    let mut dead_letter = Undelivered::new(
        DeliveryError {
            topic: "dead".into(),
            kind: Delivery::TopicMissing,
        },
        None,
    );
    dead_letter.is_dead_letter = true;
    let samples = vec![
        ("dead-letters", RelayError::Undeliverable(dead_letter)),
        (
            JOURNAL_UNWRITTEN,
            RelayError::JournalUnread(ReadError::TopicAuthorization {
                topic: POSITIONS.into(),
            }),
        ),
        (
            JOURNAL_UNWRITTEN,
            RelayError::JournalUnwritten {
                topic: POSITIONS.into(),
                after: Duration::from_secs(30),
                reason: Some(REFUSED.into()),
            },
        ),
        (
            MIGRATING,
            RelayError::OffsetsUnread(silent("connect-offsets")),
        ),
        (
            MIGRATING,
            RelayError::MovedSlot(Box::new(MovedSlot {
                gap: Gap::Moved {
                    slot: "outbox".into(),
                    from: Lsn::new(0x178_BF40),
                    to: Lsn::new(0xA00_00F8),
                },
                connector: "shop".into(),
                store: "topic connect-offsets".into(),
                offset: SeenOffset::Read(Testimony::MayHaveMoved {
                    reached: Lsn::new(0xA00_0200),
                }),
            })),
        ),
        (ENDED, RelayError::ProducerGone),
        (
            SOURCE,
            RelayError::SnapshotCut {
                rows: 1200,
                source: ObjectError::NotUtf8 {
                    table: "public.outbox".into(),
                    column: "payload".into(),
                },
            },
        ),
    ];
    let (confirmed, replayed) = (Lsn::new(0xA00_00F8), Lsn::new(0x178_BF40));
    let stands = Lsn::new(0xA00_0200);
    let standbys = [
        OnStandby::NoSlot,
        OnStandby::Invalidated {
            reason: "wal_removed".into(),
        },
        OnStandby::Behind {
            confirmed,
            replayed,
        },
        OnStandby::OtherSlot { confirmed, stands },
    ];
    let standby = |seen| {
        let slot = "outbox".to_owned();
        (SOURCE, RelayError::Standby { slot, seen })
    };
    samples
        .into_iter()
        .chain(standbys.map(standby))
        .map(|(section, error)| sample(variant(&error), section, error))
        .collect()
}
