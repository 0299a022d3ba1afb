//! The door through which a configuration came, and how its files name a setting.

use super::connector::{self, Written};

/// Messages name what the user can look for in their own files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// outboxd's own file, or none at all.
    #[default]
    Own,
    /// The files of Kafka Connect or Debezium Server.
    Connect(Written),
}

impl Door {
    /// The name that one of outboxd's keys has in the files of this door. What they have no name
    /// for keeps its own, as a flag takes it.
    pub fn spell(&self, key: &str) -> String {
        match self {
            Self::Own => key.to_owned(),
            Self::Connect(written) => {
                connector::spell(key, written).unwrap_or_else(|| format!("--set {key}"))
            }
        }
    }

    /// A message of a room that knows Debezium's options only, in the words of this door.
    pub fn reword(&self, message: &str) -> String {
        match self {
            Self::Own => connector::in_own_keys(message),
            Self::Connect(_) => message.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_the_name_that_its_own_file_gives_it() {
        let connect = Door::Connect(Written::in_connect("transforms.events."));
        let server = Door::Connect(Written::in_debezium_server("transforms.events."));
        for (key, in_connect, in_server) in [
            (
                "outbox.key",
                "transforms.events.table.field.event.key",
                "debezium.transforms.events.table.field.event.key",
            ),
            (
                "outbox.envelope",
                "transforms.events.table.fields.additional.placement",
                "debezium.transforms.events.table.fields.additional.placement",
            ),
            ("slot.name", "slot.name", "debezium.source.slot.name"),
            (
                "publication.create",
                "publication.autocreate.mode",
                "debezium.source.publication.autocreate.mode",
            ),
            (
                "outbox.value_format",
                "value.converter",
                "debezium.format.value",
            ),
            (
                "outbox.table",
                "table.include.list",
                "debezium.source.table.include.list",
            ),
            (
                "kafka.bootstrap.servers",
                "bootstrap.servers",
                "debezium.sink.kafka.producer.bootstrap.servers",
            ),
            (
                "kafka.linger.ms",
                "producer.override.linger.ms",
                "debezium.sink.kafka.producer.linger.ms",
            ),
            (
                "relay.backoff_max",
                "--set relay.backoff_max",
                "--set relay.backoff_max",
            ),
        ] {
            assert_eq!(Door::Own.spell(key), key);
            assert_eq!(connect.spell(key), in_connect);
            assert_eq!(server.spell(key), in_server);
        }
    }

    #[test]
    fn debeziums_names_become_keys_for_those_who_have_none_of_its_files() {
        let message = "the table has no column \"a\", which table.field.event.key names; see table.field.event.keys";
        assert_eq!(
            Door::Own.reword(message),
            "the table has no column \"a\", which outbox.key names; see table.field.event.keys"
        );
        let connect = Door::Connect(Written::in_connect("transforms.outbox."));
        assert_eq!(connect.reword(message), message);
    }
}
