//! Every key of outboxd's own: name, default, meaning. `docs/configuration.md` is made of this.

use super::Fault;
use crate::kafka;

pub struct Key {
    pub name: &'static str,
    /// Empty where there is none.
    pub default: &'static str,
    pub help: &'static str,
    /// Masked wherever settings are shown.
    pub secret: bool,
}

const fn key(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key {
        name,
        default,
        help,
        secret: false,
    }
}

const fn secret(name: &'static str, help: &'static str) -> Key {
    Key {
        name,
        default: "",
        help,
        secret: true,
    }
}

pub const KEYS: &[Key] = &[
    key(
        "name",
        "outboxd",
        "Name of this relay in logs and on the status page; also its application_name in PostgreSQL.",
    ),
    secret(
        "postgres.url",
        "postgresql://user@host:port/database?sslmode=…, with several hosts separated by commas, or libpq's keywords (host=… user=…). The keys below override its parts.",
    ),
    key(
        "postgres.host",
        "localhost",
        "Host name, address, or the folder of a Unix socket. Several, separated by commas, are tried in order.",
    ),
    key(
        "postgres.port",
        "5432",
        "Port; one for all hosts, or one per host.",
    ),
    key(
        "postgres.user",
        "",
        "Role to log in as. It needs LOGIN and REPLICATION, and SELECT on the outbox table for a snapshot.",
    ),
    secret(
        "postgres.password",
        "Better kept in password_file, in the environment or in PGPASSFILE.",
    ),
    key(
        "postgres.password_file",
        "",
        "File whose first line is the password.",
    ),
    key(
        "postgres.database",
        "",
        "Database with the outbox table. Without it: the role's name.",
    ),
    key(
        "postgres.sslmode",
        "prefer",
        "disable, allow, prefer, require, verify-ca or verify-full, as in libpq.",
    ),
    key(
        "postgres.sslrootcert",
        "",
        "PEM file with the certificates to trust.",
    ),
    key(
        "postgres.sslcert",
        "",
        "PEM file with the client's certificate.",
    ),
    key("postgres.sslkey", "", "PEM file with the client's key."),
    secret("postgres.sslpassword", "Passphrase of the client's key."),
    key(
        "postgres.target_session_attrs",
        "any",
        "any, read-write or primary: which of several hosts to take.",
    ),
    key(
        "postgres.connect_timeout",
        "10s",
        "For each host: name resolution, connection, TLS and authentication together.",
    ),
    key(
        "postgres.wal_sender_timeout",
        "10s",
        "The replication session's own wal_sender_timeout: how soon the server gives the slot and the lead free when the relay's machine vanishes. Shorter: faster takeover; too short for the network: reconnects.",
    ),
    key(
        "slot.name",
        "outboxd",
        "Replication slot. One relay streams from it at a time; a second one waits.",
    ),
    key(
        "slot.create",
        "missing",
        "missing: make the slot where it does not exist. never: stop instead.",
    ),
    key(
        "slot.failover",
        "false",
        "Let standbys keep a copy of the slot (PostgreSQL 17 and later).",
    ),
    key(
        "publication.name",
        "outboxd",
        "Publication to read through.",
    ),
    key(
        "publication.create",
        "missing",
        "missing: make it where it does not exist, for the outbox table, with insert and update. never: stop instead, with the SQL.",
    ),
    key(
        "snapshot.mode",
        "initial",
        "With a new slot: initial publishes the rows that are in the table, no_data does not. An existing slot is never followed by a snapshot.",
    ),
    key(
        "outbox.table",
        "public.outbox",
        "The outbox table as schema.table.",
    ),
    key(
        "outbox.table_pattern",
        "",
        "Regular expressions over schema.table, separated by commas, matched whole and without regard to case (Debezium's table.include.list). Instead of outbox.table.",
    ),
    key("outbox.id", "id", "Column that becomes the header id."),
    key(
        "outbox.key",
        "aggregateid",
        "Column that becomes the record's key: events of one key stay in order.",
    ),
    key(
        "outbox.payload",
        "payload",
        "Column that becomes the record's value.",
    ),
    key(
        "outbox.route_by",
        "aggregatetype",
        "Column that decides the topic.",
    ),
    key(
        "outbox.topic_regex",
        "(?<routedByValue>.*)",
        "Java regular expression that the routed value has to match whole; else the value itself is the topic.",
    ),
    key(
        "outbox.topic",
        "outbox.event.${routedByValue}",
        "Topic, with ${name} and $1 for the regular expression's groups.",
    ),
    key(
        "outbox.headers",
        "",
        "Further columns as headers: column:header:name, separated by commas; without a name the column's.",
    ),
    key(
        "outbox.missing_column",
        "error",
        "error or ignore: a column of outbox.headers that the table lacks.",
    ),
    key(
        "outbox.timestamp",
        "",
        "Column with the record's timestamp (timestamp or timestamptz). Without it the transaction's commit time.",
    ),
    key(
        "outbox.on_update",
        "warn",
        "warn or error: an updated row publishes nothing and is counted. fatal: the relay stops before it.",
    ),
    key(
        "outbox.expand_json",
        "false",
        "Write the payload as a JSON document instead of a JSON string (with value_format json).",
    ),
    key(
        "outbox.tombstone_on_empty",
        "false",
        "A null or blank payload becomes a null value.",
    ),
    key(
        "outbox.key_format",
        "raw",
        "raw: text or bytes as they are. string, json: as Kafka Connect's StringConverter and JsonConverter without schemas write it.",
    ),
    key("outbox.value_format", "raw", "The same for the value."),
    key(
        "kafka.bootstrap.servers",
        "",
        "Brokers to start from, host:port separated by commas. Any other kafka. key with a dot in its name goes to librdkafka as it is.",
    ),
    key(
        "kafka.topic_timeout",
        "10s",
        "How long a first record waits for its topic to be there before the relay reports it as blocked.",
    ),
    key(
        "relay.max_in_flight_bytes",
        "16MiB",
        "Memory of the records that Kafka has not acknowledged; librdkafka holds a copy of each. Beyond it nothing is read from PostgreSQL.",
    ),
    key(
        "relay.max_in_flight_records",
        "50000",
        "The same as a number of records: the most that can be repeated after a crash.",
    ),
    key(
        "relay.status_interval",
        "10s",
        "A status update goes to PostgreSQL at least this often.",
    ),
    key(
        "relay.confirm_interval",
        "100ms",
        "A moved position is confirmed at most this often. Longer: more repeats after a crash.",
    ),
    key(
        "relay.shutdown_timeout",
        "30s",
        "How long a stop waits for Kafka. What is not acknowledged then is sent again at the next start.",
    ),
    key(
        "relay.backoff_min",
        "100ms",
        "First pause after a failure; doubled each time.",
    ),
    key(
        "relay.backoff_max",
        "10s",
        "Longest pause between two attempts.",
    ),
    key(
        "relay.health_interval",
        "5s",
        "How often the slot is looked at on the server.",
    ),
    key(
        "relay.on_blocked",
        "wait",
        "wait: keep the connection and try again what can heal. exit: end with status 1. Nothing is confirmed either way.",
    ),
    key(
        "http.listen",
        "127.0.0.1:9464",
        "Address for /metrics, /livez, /readyz, /status; empty switches it off.",
    ),
    key(
        "log.format",
        "auto",
        "auto (text on a terminal, JSON otherwise), text or json.",
    ),
    key("log.level", "info", "error, warn, info, debug or trace."),
];

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// One of ours, or a property for librdkafka.
pub(super) fn is_known(name: &str) -> bool {
    find(name).is_some()
        || name
            .strip_prefix("kafka.")
            .is_some_and(|name| name.contains('.'))
}

pub(super) fn unknown(place: &str, name: &str) -> Fault {
    let fault = Fault::new(place, format!("there is no setting \"{name}\""));
    match nearest(name, KEYS.iter().map(|key| key.name)) {
        Some(nearest) => fault.hint(format!("Perhaps \"{nearest}\" is meant.")),
        None => fault.hint("See docs/configuration.md for all of them."),
    }
}

pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(similarity, _)| *similarity > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

pub(super) fn mask(name: &str, value: &str) -> String {
    let secret = find(name).is_some_and(|key| key.secret)
        || name.strip_prefix("kafka.").is_some_and(kafka::is_secret);
    if secret {
        "***".to_owned()
    } else {
        value.to_owned()
    }
}

/// The table of all keys, in Markdown.
pub fn reference() -> String {
    let mut text = String::from("| key | default | meaning |\n|---|---|---|\n");
    for key in KEYS {
        let default = match key.default {
            "" => String::new(),
            default => format!("`{}`", default.replace('|', "\\|")),
        };
        text += &format!(
            "| `{}` | {default} | {} |\n",
            key.name,
            key.help.replace('|', "\\|")
        );
    }
    text
}
