//! A worker's properties, and the environment variables that Debezium's image makes them from.

use super::file::Properties;
use super::row;
use super::table::WORKER;
use super::{Out, table};
use crate::config::Origin;
use crate::config::environment::Environment;

/// Variables of the image that are not `CONNECT_*`.
const IMAGE: &[(&str, &str)] = &[
    ("BOOTSTRAP_SERVERS", "bootstrap.servers"),
    ("KEY_CONVERTER", "key.converter"),
    ("VALUE_CONVERTER", "value.converter"),
    ("HEADER_CONVERTER", "header.converter"),
    ("OFFSET_STORAGE_TOPIC", "offset.storage.topic"),
];

/// `CONNECT_PRODUCER_LINGER_MS` is `producer.linger.ms`. What no worker knows under that name is
/// some other program's variable.
pub(super) fn overlay(worker: &mut Properties, environment: &Environment) {
    for (variable, value) in environment.iter() {
        let name = match IMAGE.iter().find(|(image, _)| *image == variable) {
            Some((_, name)) => (*name).to_owned(),
            None => match variable.strip_prefix("CONNECT_") {
                Some(rest) => rest.to_ascii_lowercase().replace('_', "."),
                None => continue,
            },
        };
        if table::find(WORKER, &name).is_some() {
            worker.set(&name, value, Origin::Environment(variable.to_owned()));
        }
    }
}

pub(super) fn apply(worker: &Properties, out: &mut Out<'_>) {
    for (name, _) in worker.iter() {
        row::apply(WORKER, name, worker, name, out);
    }
}
