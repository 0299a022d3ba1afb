//! Every key of outboxd's own: name, default, meaning. `docs/configuration.md` is made of this.

use super::Fault;
use super::limits::{Limits, Unit};
use super::nearest::nearest;
use crate::kafka;

#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    /// Empty where there is none.
    pub default: &'static str,
    pub help: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Masked wherever settings are shown.
    Secret,
    /// A path: in a file, relative to that file.
    Path,
    /// The beginning of keys whose rest the user names.
    Prefix,
    /// A duration, a size or a number.
    Limited(Limits),
    /// What somebody or something is called: without control characters.
    Name,
    /// The same, several of them.
    Names,
}

pub(super) const POSTGRES_URL: &str = "postgres.url";
pub(super) const CONNECT_TIMEOUT: &str = "postgres.connect_timeout";

const fn key(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key {
        name,
        default,
        help,
        kind: Kind::Plain,
    }
}

const fn secret(name: &'static str, help: &'static str) -> Key {
    Key {
        name,
        default: "",
        help,
        kind: Kind::Secret,
    }
}

const fn path(name: &'static str, help: &'static str) -> Key {
    Key {
        name,
        default: "",
        help,
        kind: Kind::Path,
    }
}

const fn name(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key {
        kind: Kind::Name,
        ..key(name, default, help)
    }
}

const fn names(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key {
        kind: Kind::Names,
        ..key(name, default, help)
    }
}

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1024;
const GIB: u64 = 1 << 30;

/// A duration between two numbers of milliseconds.
const fn duration(
    name: &'static str,
    default: &'static str,
    (least, most): (u64, u64),
    help: &'static str,
) -> Key {
    let unit = Unit::Milliseconds;
    limited(name, default, Limits { least, most, unit }, help)
}

const fn size(
    name: &'static str,
    default: &'static str,
    (least, most): (u64, u64),
    help: &'static str,
) -> Key {
    let unit = Unit::Bytes;
    limited(name, default, Limits { least, most, unit }, help)
}

const fn number(
    name: &'static str,
    default: &'static str,
    (least, most): (u64, u64),
    help: &'static str,
) -> Key {
    let unit = Unit::One;
    limited(name, default, Limits { least, most, unit }, help)
}

const fn limited(
    name: &'static str,
    default: &'static str,
    limits: Limits,
    help: &'static str,
) -> Key {
    Key {
        kind: Kind::Limited(limits),
        ..key(name, default, help)
    }
}

const fn prefix(name: &'static str, help: &'static str) -> Key {
    Key {
        name,
        default: "",
        help,
        kind: Kind::Prefix,
    }
}

#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    name("name", "outboxd",
        "Name of this relay in logs and on the status page, and its application_name in PostgreSQL."),
    secret(POSTGRES_URL,
        "`postgresql://user@host:port/database?sslmode=…`, with several hosts separated by commas, or libpq's keywords (`host=… user=…`). The keys below count more."),
    names("postgres.host", "localhost",
        "Host name, address, or the folder of a Unix socket. Several, separated by commas, are tried in order."),
    key("postgres.port", "5432", "One port for all hosts, or one for each, separated by commas."),
    name("postgres.user", "",
        "Role to log in as. It needs LOGIN and REPLICATION, and SELECT on the outbox table for a snapshot."),
    secret("postgres.password",
        "Better kept in `postgres.password_file`, in the environment or in libpq's password file."),
    path("postgres.password_file", "File whose first line is the password."),
    path("postgres.passfile",
        "libpq's password file, used where no password is set. Without it: `PGPASSFILE`, then `~/.pgpass`."),
    name("postgres.database", "", "Database with the outbox table. Without it: the role's name."),
    key("postgres.sslmode", "prefer",
        "`disable`, `allow`, `prefer`, `require`, `verify-ca` or `verify-full`, as in libpq."),
    path("postgres.sslrootcert", "PEM file with the certificates to trust."),
    path("postgres.sslcert", "PEM file with the client's certificate."),
    path("postgres.sslkey", "PEM file with the client's key."),
    secret("postgres.sslpassword", "Passphrase of the client's key."),
    key("postgres.target_session_attrs", "any",
        "`any`, `read-write` or `primary`: which of several hosts to take."),
    duration(CONNECT_TIMEOUT, "10s", (10, HOUR),
        "For each host: name resolution, connection, TLS and authentication together."),
    duration("postgres.wal_sender_timeout", "10s", (100, HOUR),
        "The replication session's own `wal_sender_timeout`: how soon the server gives slot and lead free when the relay's machine vanishes. Shorter: faster takeover; too short for the network: reconnects."),
    name("slot.name", "outboxd", "Replication slot. One relay streams from it; a second one waits."),
    key("slot.create", "missing", "`missing`: make the slot where it does not exist. `never`: stop instead."),
    key("slot.failover", "false", "Let standbys keep a copy of the slot (PostgreSQL 17 and later)."),
    key("slot.drop_on_stop", "false",
        "Drop the slot at a clean stop. **Dangerous**: what is committed while the relay is down is not streamed, and is lost where the outbox does not keep its rows; the next start publishes what the table holds once more (`snapshot.mode`). A stop with something outstanding, or with a row that blocks, keeps the slot."),
    name("publication.name", "outboxd", "Publication to read through."),
    key("publication.create", "missing",
        "`missing`: make it for the outbox table where it does not exist. `never`: stop instead, with the SQL that makes it. Debezium's ways: `filtered` also corrects the tables of one that exists, `all_tables` makes it FOR ALL TABLES, `no_tables` makes it empty."),
    key("publication.via_partition_root", "true",
        "A publication that the relay makes sends rows of partitions as rows of the partitioned table."),
    key("snapshot.mode", "initial",
        "`initial`: with a new slot, the rows that are in the table are published first. `no_data`: they are not. `initial_only`: they are, then the relay ends. `always`: at each start. `when_needed`: as initial, and a slot that the server has invalidated is replaced."),
    size("snapshot.fetch_bytes", "1MiB", (1, GIB), "Bytes of rows that one fetch of the snapshot may hold."),
    prefix("snapshot.select.",
        "`snapshot.select.\"schema.table\"`: a SELECT that gives the rows to publish instead of all."),
    name("outbox.table", "public.outbox",
        "The outbox table as schema.table, with exact case; a part with a dot in it in double quotes."),
    key("outbox.tables_include", "",
        "Instead of `outbox.table`: regular expressions over schema.table, matched whole and without regard to case, as Debezium's `table.include.list`."),
    key("outbox.tables_exclude", "", "Likewise Debezium's `table.exclude.list`."),
    key("outbox.schemas_include", "", "Likewise Debezium's `schema.include.list`."),
    key("outbox.schemas_exclude", "", "Likewise Debezium's `schema.exclude.list`."),
    name("outbox.id", "id", "Column that becomes the header `id`."),
    name("outbox.key", "aggregateid",
        "Column that becomes the record's key: events of one key stay in order."),
    name("outbox.payload", "payload", "Column that becomes the record's value."),
    name("outbox.route_by", "aggregatetype", "Column that decides the topic."),
    key("outbox.topic_regex", "(?<routedByValue>.*)",
        "Java regular expression that the routed value has to match whole; else the value itself is the topic."),
    name("outbox.topic", "outbox.event.${routedByValue}",
        "Topic, with `${name}` and `$1` for the regular expression's groups."),
    names("outbox.headers", "",
        "Further columns as headers: `column` or `column:header`. A list, or separated by commas."),
    names("outbox.envelope", "",
        "Columns beside the payload in a JSON envelope: `column` or `column:field`."),
    name("outbox.partition", "", "Column (int4) with the number of the partition."),
    key("outbox.missing_column", "error",
        "`error` or `ignore`: a column of `outbox.headers`, `outbox.envelope` or `outbox.partition` that the table lacks."),
    name("outbox.timestamp", "",
        "Column with the record's timestamp (timestamp or timestamptz). Without it the transaction's commit time."),
    key("outbox.on_update", "warn",
        "`warn` or `error`: an updated row publishes nothing and is counted. `fatal`: the relay stops before it."),
    key("outbox.expand_json", "false",
        "Write the payload as a JSON document instead of a JSON string (with `outbox.value_format = \"json\"`)."),
    key("outbox.tombstone_on_empty", "false", "A null or blank payload becomes a null value."),
    key("outbox.json_nulls", "drop",
        "With `outbox.expand_json`: `drop` or `keep` members of objects that are null."),
    key("outbox.json_empty_arrays", "drop",
        "With `outbox.expand_json`: `drop` or `keep` members of objects that are empty arrays."),
    key("outbox.key_format", "raw",
        "`raw`: text or bytes as they are. As Kafka Connect's converters write it: `string`, `json`, `json_with_schemas`, `bytes`, `short`, `integer`, `long`, `float`, `double`, `boolean`. Both JSON formats take `numeric_decimals` behind them. `binary`: bytes alone, as Debezium's BinaryDataConverter; `binary else json` also says how other values are written."),
    key("outbox.value_format", "raw", "The same for the value."),
    key("outbox.header_format", "raw", "The same for headers, and `simple`: Kafka Connect's SimpleHeaderConverter."),
    key("outbox.context_headers", "false",
        "Debezium's headers `__debezium.context.*` on every record: the prefix, task, connector and a new id for each run."),
    name("outbox.schema_prefix", "",
        "Debezium's `topic.prefix`: the first part of the name of an envelope's schema, which `json_with_schemas` shows, and in the context headers."),
    name("outbox.schema_version", "",
        "Column with the version of an envelope's schema, which `json_with_schemas` shows."),
    key("outbox.columns_include", "",
        "Columns to have at all: regular expressions over schema.table.column, matched whole and without regard to case, as Debezium's `column.include.list`."),
    key("outbox.columns_exclude", "", "Columns to treat as not there, likewise."),
    key("types.time", "adaptive",
        "How dates and times become values in every format but `raw`: Debezium's `time.precision.mode`. `adaptive`, `adaptive_time_microseconds`, `connect`, `microseconds`, `nanoseconds` or `isostring`."),
    key("types.decimal", "precise",
        "numeric and money: `decimal.handling.mode`. `precise`, `double` or `string`."),
    key("types.binary", "bytes",
        "bytea: `binary.handling.mode`. `bytes`, `base64`, `base64-url-safe` or `hex`."),
    key("types.interval", "numeric",
        "interval: `interval.handling.mode`. `numeric` (microseconds) or `string`."),
    key("types.hstore", "json", "hstore: `hstore.handling.mode`. `json` or `map`."),
    number("types.money_fraction_digits", "2", (0, 30), "money: digits behind the point."),
    key("types.include_unknown", "false",
        "Types that Debezium does not know as bytes of their text, else as if the column were not there."),
    names("kafka.bootstrap.servers", "",
        "Brokers to start from, host:port separated by commas. Any other key of this section goes to librdkafka as it is (`compression.type`, `security.protocol`, `ssl.ca.location` …), save what carries the guarantees."),
    path("kafka.sasl_password_file", "File whose first line is `sasl.password`."),
    duration("kafka.topic_timeout", "10s", (1, HOUR),
        "How long a first record waits for its topic to be there before the relay reports it as blocked."),
    key("topics.create", "brokers",
        "A topic that is missing. `brokers`: they make it, where their `auto.create.topics.enable` says so. `missing`: the relay makes it, as the keys below say. `never`: the relay waits until it is there. As long as it is missing the relay is blocked and goes on by itself."),
    key("topics.partitions", "-1", "Partitions of a topic that the relay makes; -1 is the brokers' default."),
    key("topics.replication_factor", "-1", "Replicas of each partition; -1 is the brokers' default."),
    prefix("topics.config.",
        "`topics.config.\"retention.ms\"`: a topic's own setting, under Kafka's name."),
    names("topics.groups", "",
        "Names of groups of topics that are made in another way, separated by commas. The first group that takes a topic's name counts; without one the keys above do. As `topic.creation.groups` of Kafka Connect."),
    prefix("topics.group.",
        "`topics.group.NAME.include` and `.exclude`: regular expressions, matched whole; `.partitions` and `.replication_factor`, without which those above count; `.config.\"retention.ms\"`, of which none is inherited."),
    size("relay.max_in_flight_bytes", "16MiB", (KIB, 64 * GIB),
        "Memory of the records that Kafka has not acknowledged; librdkafka holds a copy of each. Beyond it nothing is read from PostgreSQL."),
    number("relay.max_in_flight_records", "50000", (1, 10_000_000),
        "The same as a number of records: the most that can be repeated after a crash."),
    duration("relay.status_interval", "10s", (1, HOUR), "A status update goes to PostgreSQL at least this often."),
    duration("relay.confirm_interval", "100ms", (1, HOUR),
        "A moved position is confirmed at most this often. Longer: more repeats after a crash."),
    duration("relay.shutdown_timeout", "30s", (1, DAY),
        "How long a stop waits for Kafka. What is not acknowledged then is sent again at the next start."),
    duration("relay.backoff_min", "100ms", (1, HOUR), "First pause after a failure; doubled each time."),
    duration("relay.backoff_max", "10s", (1, HOUR), "Longest pause between two attempts."),
    duration("relay.health_interval", "5s", (10, HOUR), "How often the slot is looked at on the server."),
    key("errors.on_blocked", "wait",
        "A row that cannot be routed or delivered. `wait`: keep the connection and try again what can heal. `exit`: end with status 1. Nothing is confirmed either way. `dead-letter`: the event goes to `errors.dead_letter.topic`, and later ones go on before it; what heals by itself or by somebody's hand is waited for all the same."),
    name("errors.dead_letter.topic", "",
        "With `errors.on_blocked = \"dead-letter\"`: the topic. Without it the relay's name and `.dead-letter`. `outboxd redrive` publishes from there again."),
    duration("heartbeat.interval", "", (1, DAY),
        "How often a heartbeat is published and `heartbeat.query` is run; empty or `0s`: never. An idle outbox confirms its position without either."),
    name("heartbeat.topic", "", "Topic of the heartbeats. Without it none are published."),
    name("heartbeat.name", "", "What a heartbeat's key says: Debezium's `topic.prefix`. Without it the relay's name."),
    key("heartbeat.query", "",
        "Statement to run in the database at each heartbeat. That it fails is told, and stops nothing."),
    duration("housekeeping.retain", "", (SECOND, 3650 * DAY),
        "How long rows stay in the outbox table, by the time in `housekeeping.column`, such as `7d`. The instance that streams then deletes those of which everything committed so far is confirmed, so that no row goes that was not delivered. It needs DELETE on the table. Empty or `0s`: never."),
    name("housekeeping.column", "",
        "Column with the time of the insert: timestamptz, or timestamp or date in UTC. Without it `outbox.timestamp`."),
    number("housekeeping.batch_rows", "1000", (1, 100_000), "Rows that are deleted in one transaction."),
    duration("housekeeping.interval", "1m", (10, DAY),
        "How often it looks for such rows. Each look reads the table until it has found a batch: an index on the column helps where it is large."),
    key("position.topic", "outboxd.positions",
        "Compacted topic of the position journal: what is about to be confirmed is written there first, and read at each start, so that a slot that was dropped, advanced or swapped meanwhile is noticed. Made with one partition where it is missing, whatever `topics.create` says. Empty: no journal."),
    key("position.key", "",
        "Key of this relay's entry. Without it `name`, where that is set, else DATABASE/SLOT. Two relays must not share one, save instances of which one waits for the other."),
    name("connect.offset_topic", "",
        "Topic in which Kafka Connect keeps the offsets of the connector that used the slot before. With it and the position journal the first start begins after what the connector has delivered; once the relay has confirmed something itself it does not matter any more. Empty: at the slot's position."),
    path("connect.offset_file", "The same of a standalone worker: its file of offsets."),
    name("connect.connector", "",
        "The connector's name in Kafka Connect."),
    name("connect.server", "",
        "The connector's `topic.prefix`."),
    name("connect.slot", "",
        "The slot that the connector streams from. Its offset is of no use for another `slot.name`."),
    key("http.listen", "127.0.0.1:9464",
        "Address for /metrics, /livez, /readyz and /status; empty switches it off."),
    key("log.format", "auto", "`auto` (text on a terminal, JSON otherwise), `text` or `json`."),
    key("log.level", "info", "`error`, `warn`, `info`, `debug` or `trace`."),
];

/// Paths among librdkafka's properties.
const KAFKA_PATHS: &[&str] = &[
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
];

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| match key.kind {
        Kind::Prefix => name.len() > key.name.len() && name.starts_with(key.name),
        _ => key.name == name,
    })
}

/// One of ours, or a property for librdkafka.
pub(super) fn is_known(name: &str) -> bool {
    find(name).is_some() || kafka_property(name).is_some()
}

/// librdkafka's name of a key that goes there. A name without a dot has to be one that it has.
pub(super) fn kafka_property(name: &str) -> Option<&str> {
    name.strip_prefix("kafka.")
        .filter(|name| name.contains('.') || kafka::is_property(name))
}

pub(super) fn limits(name: &str) -> Option<Limits> {
    match find(name)?.kind {
        Kind::Limited(limits) => Some(limits),
        _ => None,
    }
}

/// Keys whose value is a name, or a list of names.
pub(super) fn of_names() -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
        .filter(|key| matches!(key.kind, Kind::Name | Kind::Names))
}

impl Key {
    /// Its value is a list.
    pub(super) fn is_list(&self) -> bool {
        self.kind == Kind::Names
    }
}

pub(super) fn is_path(name: &str) -> bool {
    find(name).is_some_and(|key| key.kind == Kind::Path)
        || kafka_property(name).is_some_and(|property| KAFKA_PATHS.contains(&property))
}

pub(super) fn is_secret(name: &str) -> bool {
    find(name).is_some_and(|key| key.kind == Kind::Secret)
        || kafka_property(name).is_some_and(kafka::is_secret)
}

pub(super) fn masked(name: &str, value: &str) -> String {
    if is_secret(name) {
        "***".to_owned()
    } else {
        value.to_owned()
    }
}

pub(super) fn unknown(place: &str, name: &str) -> Fault {
    let fault = Fault::new(place, format!("unknown key \"{name}\""));
    match nearest(name, KEYS.iter().map(|key| key.name)) {
        Some(nearest) => fault.hint(format!("The nearest known key is \"{nearest}\".")),
        None => fault.hint("docs/configuration.md lists all keys."),
    }
}
