//! From settings to the rooms' own options: each value is parsed here, once, into a type that
//! cannot be wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::settings::Settings;
use super::{Config, Fault, keys};
use crate::observe::{HttpOptions, LogFormat, LogOptions};
use crate::postgres::publication::{PublicationMode, PublicationOptions};
use crate::postgres::slot::{CreateMode, SlotOptions};
use crate::postgres::snapshot::{SnapshotMode, SnapshotOptions};
use crate::postgres::table::{TableFilter, TableLists};
use crate::postgres::{Host, Options as PostgresOptions, SslMode, TargetSessionAttrs};
use crate::router::{Converter, HeaderPlacement, MissingField, OnUpdate, TopicRoute};
use crate::secret::Secret;
use crate::{kafka, relay, router};

/// Names of the values of a setting that is one of a few.
type Choices<T> = &'static [(&'static str, T)];

const SSL_MODES: Choices<SslMode> = &[
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];
const TARGETS: Choices<TargetSessionAttrs> = &[
    ("any", TargetSessionAttrs::Any),
    ("read-write", TargetSessionAttrs::ReadWrite),
    ("primary", TargetSessionAttrs::Primary),
];
const CREATE: Choices<CreateMode> = &[
    ("missing", CreateMode::Missing),
    ("never", CreateMode::Never),
];
const PUBLICATION_MODES: Choices<PublicationMode> = &[
    ("missing", PublicationMode::CreateMissing),
    ("never", PublicationMode::MustExist),
    ("filtered", PublicationMode::Filtered),
    ("all_tables", PublicationMode::AllTables),
    ("no_tables", PublicationMode::NoTables),
];
const SNAPSHOT_MODES: Choices<SnapshotMode> = &[
    ("initial", SnapshotMode::Initial),
    ("no_data", SnapshotMode::NoData),
    ("initial_only", SnapshotMode::InitialOnly),
    ("always", SnapshotMode::Always),
    ("when_needed", SnapshotMode::WhenNeeded),
];
const ON_UPDATE: Choices<OnUpdate> = &[
    ("warn", OnUpdate::Warn),
    ("error", OnUpdate::Error),
    ("fatal", OnUpdate::Fatal),
];
const MISSING: Choices<MissingField> = &[
    ("error", MissingField::Error),
    ("ignore", MissingField::Ignore),
];
const CONVERTERS: Choices<Converter> = &[
    ("raw", Converter::Raw),
    ("string", Converter::String),
    ("json", Converter::Json),
];
const BOOLEANS: Choices<bool> = &[("true", true), ("false", false)];
const LOG_FORMATS: Choices<LogFormat> = &[
    ("auto", LogFormat::Auto),
    ("text", LogFormat::Text),
    ("json", LogFormat::Json),
];
const ON_BLOCKED: Choices<relay::OnBlocked> = &[
    ("wait", relay::OnBlocked::Wait),
    ("exit", relay::OnBlocked::Exit),
];

/// `None` where something is wrong; the faults say what.
pub(super) fn build(
    settings: Settings,
    notes: Vec<String>,
    needs_kafka: bool,
    environment: &[(String, String)],
    faults: &mut Vec<Fault>,
) -> Option<Config> {
    let mut read = Read {
        settings: &settings,
        faults,
    };
    let name = read.text("name");
    let postgres = postgres(&mut read, &name, environment);
    let slot = slot(&mut read);
    let publication = publication(&mut read);
    let tables = tables(&mut read);
    let mode = read.choice("snapshot.mode", SNAPSHOT_MODES);
    let router = router(&mut read);
    let relay = relay(&mut read);
    let kafka = kafka(&mut read, &relay, needs_kafka);
    let http = HttpOptions {
        listen: read.optional_parsed("http.listen", "address:port"),
    };
    let log = LogOptions {
        format: read.choice("log.format", LOG_FORMATS),
        level: read.text("log.level"),
    };
    Some(Config {
        name,
        postgres: postgres?,
        slot: slot?,
        publication: publication?,
        tables: tables?,
        snapshot: SnapshotOptions {
            mode,
            ..SnapshotOptions::default()
        },
        router: router?,
        kafka: kafka?,
        relay,
        http,
        log,
        notes,
        settings,
    })
}

struct Read<'a> {
    settings: &'a Settings,
    faults: &'a mut Vec<Fault>,
}

impl Read<'_> {
    fn text(&self, key: &str) -> String {
        match self.settings.get(key) {
            Some(setting) => setting.value.clone(),
            None => keys::find(key).map_or("", |key| key.default).to_owned(),
        }
    }

    fn optional(&self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|text| !text.is_empty())
    }

    fn fault(&mut self, key: &str, message: impl Into<String>) {
        let place = match self.settings.get(key) {
            Some(setting) => format!("{key} ({})", setting.origin),
            None => key.to_owned(),
        };
        self.faults.push(Fault::new(place, message));
    }

    /// The first choice stands in for a value that is none; the fault keeps it from being used.
    fn choice<T: Clone>(&mut self, key: &str, choices: Choices<T>) -> T {
        let text = self.text(key);
        let found = choices
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.fault(
                key,
                format!("\"{text}\" is not one of {}", names.join(", ")),
            );
        }
        found
            .or(choices.first())
            .expect("each list of choices has entries")
            .1
            .clone()
    }

    fn parsed<T: FromStr>(&mut self, key: &str, expected: &str) -> Option<T> {
        let text = self.text(key);
        let parsed = text.trim().parse().ok();
        if parsed.is_none() {
            self.fault(key, format!("\"{text}\" is not {expected}"));
        }
        parsed
    }

    fn optional_parsed<T: FromStr>(&mut self, key: &str, expected: &str) -> Option<T> {
        self.optional(key)?;
        self.parsed(key, expected)
    }

    fn duration(&mut self, key: &str) -> Duration {
        let text = self.text(key);
        match humantime::parse_duration(&text) {
            Ok(duration) if !duration.is_zero() => duration,
            _ => {
                self.fault(
                    key,
                    format!("\"{text}\" is not a duration such as 500ms, 30s or 5m"),
                );
                Duration::from_secs(1)
            }
        }
    }

    fn file_text(&mut self, key: &str, path: &Path) -> Option<String> {
        match std::fs::read_to_string(path) {
            Ok(text) => text.lines().next().map(str::to_owned),
            Err(error) => {
                self.fault(
                    key,
                    format!("\"{}\" cannot be read: {error}", path.display()),
                );
                None
            }
        }
    }
}

fn postgres(
    read: &mut Read<'_>,
    name: &str,
    environment: &[(String, String)],
) -> Option<PostgresOptions> {
    let url = match read
        .optional("postgres.url")
        .map(|url| super::url::parse(&url))
    {
        None => super::url::Parts::default(),
        Some(Ok(parts)) => parts,
        Some(Err(reason)) => {
            read.fault("postgres.url", reason);
            return None;
        }
    };
    // A key that was set counts before the URL, the URL before a key's default.
    let part = |read: &Read<'_>, key: &str, from_url: Option<String>| {
        if read.settings.get(key).is_some() {
            read.optional(key)
        } else {
            from_url
        }
    };
    let hosts = part(read, "postgres.host", url.hosts).unwrap_or_else(|| "localhost".to_owned());
    let ports = part(read, "postgres.port", url.ports).unwrap_or_else(|| "5432".to_owned());
    let Some(hosts) = pair_hosts(&hosts, &ports) else {
        read.fault(
            "postgres.port",
            format!("\"{ports}\" is not one port, or one for each host"),
        );
        return None;
    };
    let Some(user) = part(read, "postgres.user", url.user) else {
        read.fault("postgres.user", "is not set");
        return None;
    };
    let database = part(read, "postgres.database", url.database).unwrap_or_else(|| user.clone());
    let password = match part(read, "postgres.password", url.password) {
        Some(password) => Some(Secret::new(password)),
        None => match read.optional("postgres.password_file").map(PathBuf::from) {
            Some(path) => read
                .file_text("postgres.password_file", &path)
                .map(Secret::new),
            None => super::url::from_passfile(environment, &hosts, &database, &user),
        },
    };
    let ssl_mode = part(
        read,
        "postgres.sslmode",
        url.options.get("sslmode").cloned(),
    )
    .unwrap_or_else(|| "prefer".to_owned());
    let Some((_, ssl_mode)) = SSL_MODES.iter().find(|(name, _)| *name == ssl_mode) else {
        read.fault(
            "postgres.sslmode",
            format!("\"{ssl_mode}\" is not a mode of libpq"),
        );
        return None;
    };
    let from_url = |name: &str| url.options.get(name).cloned();
    let path =
        |read: &Read<'_>, key: &str, name: &str| part(read, key, from_url(name)).map(PathBuf::from);
    let target = part(
        read,
        "postgres.target_session_attrs",
        from_url("target_session_attrs"),
    );
    let target = target.unwrap_or_else(|| "any".to_owned());
    let Some((_, target)) = TARGETS.iter().find(|(name, _)| *name == target) else {
        read.fault(
            "postgres.target_session_attrs",
            format!("\"{target}\" is not one of any, read-write, primary"),
        );
        return None;
    };
    Some(PostgresOptions {
        hosts,
        user,
        password,
        database,
        ssl_mode: *ssl_mode,
        ssl_root_cert: path(read, "postgres.sslrootcert", "sslrootcert"),
        ssl_cert: path(read, "postgres.sslcert", "sslcert"),
        ssl_key: path(read, "postgres.sslkey", "sslkey"),
        ssl_key_password: part(read, "postgres.sslpassword", from_url("sslpassword"))
            .map(Secret::new),
        target_session_attrs: *target,
        application_name: name.to_owned(),
        connect_timeout: read.duration("postgres.connect_timeout"),
        wal_sender_timeout: read.duration("postgres.wal_sender_timeout"),
    })
}

fn pair_hosts(hosts: &str, ports: &str) -> Option<Vec<Host>> {
    let hosts: Vec<&str> = hosts.split(',').map(str::trim).collect();
    let ports = ports.split(',').map(|port| port.trim().parse::<u16>().ok());
    let ports = ports.collect::<Option<Vec<u16>>>()?;
    if ports.len() != 1 && ports.len() != hosts.len() {
        return None;
    }
    let paired = hosts.iter().zip(ports.iter().cycle()).map(|(host, port)| {
        // "host:port" is how several hosts stand in one property of a connector file.
        let (host, port) = match host.rsplit_once(':') {
            Some((host, own)) if !host.contains(':') => (host, own.parse().ok()?),
            _ => (*host, *port),
        };
        Some(if host.starts_with('/') {
            Host::Unix {
                directory: PathBuf::from(host),
                port,
            }
        } else {
            Host::Tcp {
                host: host.to_owned(),
                port,
            }
        })
    });
    paired.collect()
}

fn slot(read: &mut Read<'_>) -> Option<SlotOptions> {
    let create = read.choice("slot.create", CREATE);
    let failover = read.choice("slot.failover", BOOLEANS);
    match read.text("slot.name").parse() {
        Ok(name) => Some(SlotOptions {
            create,
            failover,
            ..SlotOptions::new(name)
        }),
        Err(error) => {
            read.fault("slot.name", error.to_string());
            None
        }
    }
}

fn publication(read: &mut Read<'_>) -> Option<PublicationOptions> {
    let mode = read.choice("publication.create", PUBLICATION_MODES);
    match read.text("publication.name").parse() {
        Ok(name) => Some(PublicationOptions {
            mode,
            ..PublicationOptions::new(name)
        }),
        Err(error) => {
            let message = format!("{error}");
            read.fault("publication.name", message);
            None
        }
    }
}

fn tables(read: &mut Read<'_>) -> Option<TableFilter> {
    let (key, filter) = match read.optional("outbox.table_pattern") {
        Some(pattern) => {
            let lists = TableLists {
                table_include: Some(pattern),
                ..TableLists::default()
            };
            ("outbox.table_pattern", TableFilter::lists(&lists))
        }
        None => (
            "outbox.table",
            TableFilter::exact(&read.text("outbox.table")),
        ),
    };
    match filter {
        Ok(filter) => Some(filter),
        Err(error) => {
            read.fault(key, error.to_string());
            None
        }
    }
}

fn router(read: &mut Read<'_>) -> Option<router::Options> {
    let (regex, replacement) = (read.text("outbox.topic_regex"), read.text("outbox.topic"));
    let topic = match TopicRoute::new(&regex, &replacement) {
        Ok(topic) => Some(topic),
        Err(error) => {
            read.fault("outbox.topic", error.to_string());
            None
        }
    };
    let headers = match parse_headers(&read.text("outbox.headers")) {
        Ok(headers) => Some(headers),
        Err(message) => {
            read.fault("outbox.headers", message);
            None
        }
    };
    let missing = read.choice("outbox.missing_column", MISSING);
    let on_update = read.choice("outbox.on_update", ON_UPDATE);
    let expand_json = read.choice("outbox.expand_json", BOOLEANS);
    let tombstone_on_empty = read.choice("outbox.tombstone_on_empty", BOOLEANS);
    let key_converter = read.choice("outbox.key_format", CONVERTERS);
    let value_converter = read.choice("outbox.value_format", CONVERTERS);
    Some(router::Options {
        id_field: read.text("outbox.id"),
        key_field: read.text("outbox.key"),
        payload_field: read.text("outbox.payload"),
        timestamp_field: read.optional("outbox.timestamp"),
        route_field: read.text("outbox.route_by"),
        topic: topic?,
        headers: headers?,
        missing,
        on_update,
        expand_json,
        tombstone_on_empty,
        key_converter,
        value_converter,
    })
}

/// `column:header[:name]`, separated by commas; blanks around the parts do not count.
fn parse_headers(text: &str) -> Result<Vec<HeaderPlacement>, String> {
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    items
        .map(|item| {
            let parts: Vec<&str> = item.split(':').map(str::trim).collect();
            match parts.as_slice() {
                [field, placement] if placement.eq_ignore_ascii_case("header") => {
                    Ok(HeaderPlacement {
                        field: (*field).to_owned(),
                        header: (*field).to_owned(),
                    })
                }
                [field, placement, header] if placement.eq_ignore_ascii_case("header") => {
                    Ok(HeaderPlacement {
                        field: (*field).to_owned(),
                        header: (*header).to_owned(),
                    })
                }
                _ => Err(format!(
                    "\"{item}\" is not column:header or column:header:name"
                )),
            }
        })
        .collect()
}

fn relay(read: &mut Read<'_>) -> relay::Options {
    let defaults = relay::Options::default();
    let size =
        read.parsed::<bytesize::ByteSize>("relay.max_in_flight_bytes", "a size such as 16MiB");
    let records = read.parsed::<usize>("relay.max_in_flight_records", "a number");
    if records == Some(0) {
        read.fault("relay.max_in_flight_records", "must be at least 1");
    }
    relay::Options {
        max_in_flight_bytes: size
            .and_then(|size| usize::try_from(size.as_u64()).ok())
            .unwrap_or(defaults.max_in_flight_bytes),
        max_in_flight_records: records.unwrap_or(defaults.max_in_flight_records),
        status_interval: read.duration("relay.status_interval"),
        confirm_interval: read.duration("relay.confirm_interval"),
        shutdown_timeout: read.duration("relay.shutdown_timeout"),
        backoff_min: read.duration("relay.backoff_min"),
        backoff_max: read.duration("relay.backoff_max"),
        health_interval: read.duration("relay.health_interval"),
        on_blocked: read.choice("relay.on_blocked", ON_BLOCKED),
    }
}

fn kafka(read: &mut Read<'_>, relay: &relay::Options, needs_kafka: bool) -> Option<kafka::Options> {
    let mut properties: BTreeMap<String, String> = read
        .settings
        .kafka_properties()
        .map(|(name, setting)| (name.to_owned(), setting.value.clone()))
        .collect();
    let mut servers = properties.remove("bootstrap.servers").unwrap_or_default();
    if servers.is_empty() && !needs_kafka {
        "none:9".clone_into(&mut servers);
    }
    let topic_timeout = read.duration("kafka.topic_timeout");
    match kafka::Options::new(&servers, properties) {
        Ok(mut options) => {
            options.topic_timeout = topic_timeout;
            options.max_in_flight_bytes = relay.max_in_flight_bytes;
            options.max_in_flight_records = relay.max_in_flight_records;
            Some(options)
        }
        Err(errors) => {
            for error in errors {
                let fault = Fault::new("kafka", error.to_string());
                read.faults.push(match error {
                    kafka::OptionsError::NoBootstrapServers => fault.hint(
                        "Set kafka.bootstrap.servers, OUTBOXD_KAFKA_BOOTSTRAP_SERVERS, or give the worker's file with --worker.",
                    ),
                    _ => fault,
                });
            }
            None
        }
    }
}
