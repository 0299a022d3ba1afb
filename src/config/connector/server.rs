//! Debezium Server's properties as a connector's and a worker's.

use super::Out;
use super::file::Properties;
use super::row;
use super::table::SERVER;
use crate::config::Fault;

const FORMATS: &[(&str, &str)] = &[
    ("json", "org.apache.kafka.connect.json.JsonConverter"),
    (
        "simplestring",
        "org.apache.kafka.connect.storage.StringConverter",
    ),
    ("binary", "io.debezium.converters.BinaryDataConverter"),
    ("avro", "io.confluent.connect.avro.AvroConverter"),
    (
        "protobuf",
        "io.confluent.connect.protobuf.ProtobufConverter",
    ),
];

/// Sorts the properties of `connector` into those of a connector and those of a worker.
pub(super) fn split(connector: &mut Properties, worker: &mut Properties, out: &mut Out<'_>) {
    let mut source = Properties::at(&connector.path);
    if worker.iter().next().is_none() {
        worker.path.clone_from(&connector.path);
    }
    for (name, value) in connector.iter() {
        let origin = connector.origin(name);
        let sorted: &[(&str, &str)] = &[
            ("debezium.source.offset.", ""),
            ("debezium.source.", ""),
            ("debezium.transforms", "transforms"),
            ("debezium.predicates", "predicates"),
        ];
        let lifted = sorted
            .iter()
            .find_map(|(from, to)| Some((from, to, name.strip_prefix(from)?)));
        match lifted {
            Some((from, to, rest)) if !from.contains("offset") => {
                // Quarkus takes ${…} for its own; a backslash keeps it.
                let value = value.replace("\\${", "${");
                source.set(&format!("{to}{rest}"), &value, origin);
            }
            _ if name.starts_with("debezium.sink.kafka.producer.") => {
                let rest = name.trim_start_matches("debezium.sink.kafka.producer.");
                worker.set(&format!("producer.{rest}"), value, origin);
            }
            _ if name.starts_with("debezium.format.") => {}
            _ if name.starts_with("debezium.") => row::apply(SERVER, name, connector, name, out),
            _ => out.notes.push(crate::config::Note::info(
                connector.place(name),
                "has no effect: it belongs to another library",
            )),
        }
    }
    formats(connector, &mut source, out);
    *connector = source;
}

/// `debezium.format.key=json`, `debezium.format.key.schemas.enable`, and
/// `debezium.format.schemas.enable` for all of them.
fn formats(server: &Properties, source: &mut Properties, out: &mut Out<'_>) {
    for part in ["key", "value", "header"] {
        let name = format!("debezium.format.{part}");
        let format = server
            .get(&name)
            .unwrap_or("json")
            .trim()
            .to_ascii_lowercase();
        let Some((_, class)) = FORMATS.iter().find(|(known, _)| *known == format) else {
            let names: Vec<_> = FORMATS.iter().take(3).map(|(known, _)| *known).collect();
            let message = format!("\"{format}\" is not one of {}", names.join(", "));
            out.faults.push(Fault::new(server.place(&name), message));
            continue;
        };
        source.set(&format!("{part}.converter"), class, server.origin(&name));
        for prefix in ["debezium.format.".to_owned(), format!("{name}.")] {
            for (option, value) in server.under(&prefix) {
                let own = prefix != "debezium.format."
                    || !["key", "value", "header"]
                        .iter()
                        .any(|part| option == *part || option.starts_with(&format!("{part}.")));
                if own {
                    let written = server.origin(&format!("{prefix}{option}"));
                    source.set(&format!("{part}.converter.{option}"), value, written);
                }
            }
        }
    }
}
