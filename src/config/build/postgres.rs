//! The options of everything that concerns the server.

use std::path::PathBuf;

use super::{Choices, Read};
use crate::config::environment::Environment;
use crate::config::{Door, Note, passfile};
use crate::postgres::publication::{PublicationMode, PublicationOptions};
use crate::postgres::slot::{CreateMode, SlotOptions};
use crate::postgres::snapshot::{SelectOverride, SnapshotMode, SnapshotOptions};
use crate::postgres::table::{TableFilter, TableFilterError, TableLists};
use crate::postgres::{Host, Options, Sessions, SslMode, TargetSessionAttrs};
use crate::secret::Secret;

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

pub(super) fn options(
    read: &mut Read<'_>,
    name: &str,
    environment: &Environment,
) -> Option<Options> {
    let hosts = hosts(read);
    let user = read.required("postgres.user");
    let ssl_mode = read.choice("postgres.sslmode", SSL_MODES);
    let target_session_attrs = read.choice("postgres.target_session_attrs", TARGETS);
    let connect_timeout = read.duration("postgres.connect_timeout");
    let wal_sender_timeout = read.duration("postgres.wal_sender_timeout");
    let (hosts, user) = (hosts?, user?);
    let database = read
        .optional("postgres.database")
        .unwrap_or_else(|| user.clone());
    let password = password(read, environment, &hosts, &database, &user);
    let path = |key: &str| read.optional(key).map(PathBuf::from);
    Some(Options {
        password,
        ssl_mode: ssl_mode?,
        ssl_root_cert: path("postgres.sslrootcert"),
        ssl_cert: path("postgres.sslcert"),
        ssl_key: path("postgres.sslkey"),
        ssl_key_password: secret(read, "postgres.sslpassword"),
        target_session_attrs: target_session_attrs?,
        application_name: name.to_owned(),
        connect_timeout: connect_timeout?,
        wal_sender_timeout: wal_sender_timeout?,
        sessions: Sessions::default(),
        hosts,
        user,
        database,
    })
}

/// As it is, blanks included.
fn secret(read: &Read<'_>, key: &str) -> Option<Secret> {
    let setting = read.settings.get(key)?;
    Some(Secret::new(&setting.value)).filter(|secret| !secret.is_empty())
}

fn password(
    read: &mut Read<'_>,
    environment: &Environment,
    hosts: &[Host],
    database: &str,
    user: &str,
) -> Option<Secret> {
    // Both may be set, in different layers: then the later layer counts.
    let origin = |key: &str| read.settings.get(key).map(|setting| setting.origin.clone());
    let from_file = origin("postgres.password_file") > origin("postgres.password");
    if !from_file && let Some(password) = secret(read, "postgres.password") {
        return Some(password);
    }
    if read.optional("postgres.password_file").is_some() {
        return read.first_line("postgres.password_file").map(Secret::new);
    }
    let named = read.optional("postgres.passfile").map(PathBuf::from);
    let path = named
        .clone()
        .or_else(|| passfile::default_path(environment))?;
    match std::fs::read_to_string(&path) {
        Ok(text) => passfile::find(&text, hosts, database, user),
        // A password file is there for those who have one.
        Err(_) if named.is_none() => None,
        Err(error) => {
            let message = format!("\"{}\" cannot be read: {error}", path.display());
            read.fault("postgres.passfile", message);
            None
        }
    }
}

fn hosts(read: &mut Read<'_>) -> Option<Vec<Host>> {
    let names = read.list("postgres.host");
    let ports = read.list("postgres.port");
    if names.is_empty() {
        read.fault("postgres.host", "is not set");
        return None;
    }
    if ports.len() != 1 && ports.len() != names.len() {
        let message = format!("expected 1 or {} ports, found {}", names.len(), ports.len());
        read.fault("postgres.port", message);
        return None;
    }
    let mut hosts = Vec::new();
    for (name, port) in names.iter().zip(ports.iter().cycle()) {
        // pgjdbc takes "host:port" items in one property; an IPv6 address has more colons.
        let (name, port) = match name.split_once(':') {
            Some((host, own)) if !own.contains(':') && !name.starts_with('/') => (host, own),
            _ => (name.trim_matches(['[', ']']), port.as_str()),
        };
        let Some(port) = port.parse::<u16>().ok().filter(|port| *port > 0) else {
            read.fault("postgres.port", format!("\"{port}\" is not a port"));
            return None;
        };
        hosts.push(if name.starts_with('/') {
            Host::Unix {
                directory: PathBuf::from(name),
                port,
            }
        } else {
            Host::Tcp {
                host: name.to_owned(),
                port,
            }
        });
    }
    Some(hosts)
}

pub(super) fn slot(read: &mut Read<'_>) -> Option<SlotOptions> {
    let create = read.choice("slot.create", CREATE);
    let failover = read.boolean("slot.failover");
    let drop_on_stop = read.boolean("slot.drop_on_stop");
    let name = match read.text("slot.name").parse() {
        Ok(name) => name,
        Err(error) => {
            let error: crate::postgres::slot::SlotNameError = error;
            read.fault("slot.name", error.to_string());
            return None;
        }
    };
    Some(SlotOptions {
        name,
        create: create?,
        failover: failover?,
        drop_on_stop: drop_on_stop?,
    })
}

pub(super) fn publication(read: &mut Read<'_>) -> Option<PublicationOptions> {
    let mode = read.choice("publication.create", PUBLICATION_MODES);
    let via_partition_root = read.boolean("publication.via_partition_root");
    let name = match read.text("publication.name").parse() {
        Ok(name) => name,
        Err(error) => {
            let error: crate::postgres::publication::PublicationNameError = error;
            read.fault("publication.name", error.to_string());
            return None;
        }
    };
    Some(PublicationOptions {
        mode: mode?,
        via_partition_root: via_partition_root?,
        ..PublicationOptions::new(name)
    })
}

pub(super) fn tables(read: &mut Read<'_>) -> Option<TableFilter> {
    let lists = TableLists {
        schema_include: read.optional("outbox.schemas_include"),
        schema_exclude: read.optional("outbox.schemas_exclude"),
        table_include: read.optional("outbox.tables_include"),
        table_exclude: read.optional("outbox.tables_exclude"),
    };
    let (key, filter) = if lists == TableLists::default() {
        (
            "outbox.table",
            TableFilter::exact(&read.text("outbox.table")),
        )
    } else {
        ("outbox.tables_include", TableFilter::lists(&lists))
    };
    match filter {
        Ok(filter) => Some(filter),
        Err(error) => {
            let key = match &error {
                TableFilterError::Pattern { option, .. } => list_key(option),
                TableFilterError::BothLists { exclude, .. } => list_key(exclude),
                TableFilterError::Name { .. } => key,
            };
            read.fault(key, error.to_string());
            None
        }
    }
}

fn list_key(option: &str) -> &'static str {
    match option {
        "schema.include.list" => "outbox.schemas_include",
        "schema.exclude.list" => "outbox.schemas_exclude",
        "table.exclude.list" => "outbox.tables_exclude",
        _ => "outbox.tables_include",
    }
}

fn unquoted(name: &str) -> &str {
    let inner = name
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(name)
}

pub(super) fn snapshot(read: &mut Read<'_>) -> Option<SnapshotOptions> {
    let mode = read.choice("snapshot.mode", SNAPSHOT_MODES);
    let fetch_bytes = read.bytes("snapshot.fetch_bytes");
    let overrides = read
        .settings
        .under("snapshot.select.")
        .map(|(table, setting)| SelectOverride {
            // A flag writes the name as the file does, and has no TOML to take the quotes off.
            table: unquoted(table).to_owned(),
            statement: setting.value.clone(),
        });
    let overrides = overrides.collect();
    Some(SnapshotOptions {
        mode: mode?,
        fetch_bytes: fetch_bytes?,
        overrides,
    })
}

/// A SELECT for a table that is none of the outbox's is never run: all rows would be published. In
/// files of Debezium it may be one for another connector's table.
pub(super) fn selects_of_other_tables(
    read: &mut Read<'_>,
    tables: &TableFilter,
    snapshot: &SnapshotOptions,
    notes: &mut Vec<Note>,
) {
    for SelectOverride { table, .. } in &snapshot.overrides {
        // Both names may have dots.
        let is_ours = table
            .match_indices('.')
            .any(|(dot, _)| tables.matches(&table[..dot], &table[dot + 1..]));
        if is_ours {
            continue;
        }
        let message = format!("\"{table}\" is no outbox table: {tables} is");
        let quoted = format!("snapshot.select.\"{table}\"");
        let plain = format!("snapshot.select.{table}");
        let key = if read.settings.get(&quoted).is_some() {
            quoted
        } else {
            plain
        };
        match read.door {
            Door::Own => read.fault(&key, message),
            Door::Connect(_) => notes.push(Note::warning(read.place(&key), message)),
        }
    }
}
