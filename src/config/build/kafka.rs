//! The producer's options.

use std::collections::BTreeMap;

use super::{Read, topics};
use crate::config::{Fault, Sources, keys};
use crate::kafka::{Options, OptionsError};
use crate::relay;

const SERVERS: &str = "kafka.bootstrap.servers";

pub(super) fn options(
    read: &mut Read<'_>,
    relay: Option<&relay::Options>,
    sources: &Sources,
) -> Option<Options> {
    let mut properties: BTreeMap<String, String> = read
        .settings
        .iter()
        .filter(|(key, _)| *key != SERVERS)
        .filter_map(|(key, setting)| {
            Some((keys::kafka_property(key)?.to_owned(), setting.value.clone()))
        })
        .collect();
    if let Some(password) = read.first_line("kafka.sasl_password_file") {
        properties.insert("sasl.password".to_owned(), password);
    }
    let topic_timeout = read.duration("kafka.topic_timeout");
    let topic_creation = topics::creation(read);
    let mut servers = read.text(SERVERS);
    if servers.is_empty() && !sources.needs_kafka {
        // Never connected to; the options ask for one.
        "localhost:9092".clone_into(&mut servers);
    }
    // Where the relay's own settings are at fault nothing is built; the properties are looked at all
    // the same, so that every fault is told.
    let window = relay.cloned().unwrap_or_default().window();
    match Options::new(&servers, properties, window) {
        Ok(mut options) => {
            relay?;
            options.topic_timeout = topic_timeout?;
            options.topic_creation = topic_creation?;
            Some(options)
        }
        Err(errors) => {
            for error in errors {
                let fault = fault(read, &error, sources);
                read.faults.push(fault);
            }
            None
        }
    }
}

fn fault(read: &Read<'_>, error: &OptionsError, sources: &Sources) -> Fault {
    match error {
        OptionsError::NoBootstrapServers => {
            let fault = Fault::new(SERVERS, "is not set: no broker is known");
            match (&sources.connector, &sources.worker) {
                (Some(_), None) => fault
                    .detail("With Kafka Connect the worker's properties name the brokers.")
                    .hint(
                        "Give the worker's file with --worker, or --set kafka.bootstrap.servers=HOST:PORT, or the environment variable OUTBOXD_KAFKA_BOOTSTRAP_SERVERS.",
                    ),
                _ => fault.hint(
                    "Set kafka.bootstrap.servers in the file or with --set, or the environment variable OUTBOXD_KAFKA_BOOTSTRAP_SERVERS.",
                ),
            }
        }
        OptionsError::Unknown { property, .. }
        | OptionsError::Invalid { property, .. }
        | OptionsError::Forbidden { property, .. }
        | OptionsError::Refused { property, .. } => {
            Fault::new(read.place(&format!("kafka.{property}")), error.to_string())
        }
    }
}
