//! The door for the files of Kafka Connect and Debezium: every property goes through the table
//! that decides what becomes of it, and what is honoured becomes a setting under outboxd's own key.

mod converters;
mod file;
mod jaas;
mod names;
mod placement;
mod producer;
mod providers;
mod row;
mod server;
mod table;
mod topics;
mod transforms;
mod worker;

use super::environment::Environment;
use super::settings::{Origin, Settings};
use super::{Fault, Note, Sources};
use file::{Properties, Shape};
use providers::Providers;
use table::{CONNECTOR, ROUTER};

pub use names::Written;
pub(super) use names::{in_own_keys, spell};
pub(super) use table::{Row, tables};
use transforms::Router;

/// Debezium's.
const DEFAULT_SLOT: &str = "debezium";

/// What the parts of this door write to.
struct Out<'a> {
    settings: &'a mut Settings,
    faults: &'a mut Vec<Fault>,
    notes: &'a mut Vec<Note>,
}

/// How the files name things; `None` where they cannot be taken for a connector's at all, and the
/// faults say why.
pub(super) fn read(
    sources: &Sources,
    environment: &Environment,
    settings: &mut Settings,
    faults: &mut Vec<Fault>,
    notes: &mut Vec<Note>,
) -> Option<Written> {
    let mut open = |path: &Option<std::path::PathBuf>| match path.as_deref().map(file::read) {
        None => Some(None),
        Some(Ok(properties)) => Some(Some(properties)),
        Some(Err(fault)) => {
            faults.push(fault);
            None
        }
    };
    let (connector, worker) = (open(&sources.connector), open(&sources.worker));
    let (mut connector, worker) = (connector?.unwrap_or_default(), worker?);
    let mut out = Out {
        settings,
        faults,
        notes,
    };
    let providers = Providers::new(worker.as_ref(), environment);
    let mut worker = worker.unwrap_or_default();
    connector.change_values(|file, text| providers.resolve(text, file), out.faults);
    worker.change_values(|file, text| providers.resolve(text, file), out.faults);
    let is_server = connector.shape == Shape::DebeziumServer;
    if is_server {
        server::split(&mut connector, &mut worker, &mut out);
    }
    worker::overlay(&mut worker, environment);
    check_class(&connector, out.faults)?;
    let router = transforms::find_router(&connector, &mut out);
    apply(&connector, router.as_ref(), &mut out);
    converters::apply(&connector, &worker, &mut out);
    worker::apply(&worker, &mut out);
    producer::apply(&connector, &worker, &mut out);
    topics::apply(&connector, &worker, &mut out);
    if let Some(router) = &router {
        transforms::apply_predicate(&connector, router, &mut out);
        placement::apply(&connector, &router.prefix, &mut out);
    }
    apply_rest(&connector, &mut out);
    let prefix = router.map_or_else(|| "transforms.outbox.".to_owned(), |router| router.prefix);
    Some(if is_server {
        Written::in_debezium_server(&prefix)
    } else {
        Written::in_connect(&prefix)
    })
}

fn check_class(connector: &Properties, faults: &mut Vec<Fault>) -> Option<()> {
    let fault = match connector.get("connector.class") {
        None => Fault::new(
            connector.path.display().to_string(),
            "connector.class is not set",
        )
        .hint("It has to be io.debezium.connector.postgresql.PostgresConnector."),
        Some(class)
            if matches!(
                class.rsplit('.').next(),
                Some("PostgresConnector" | "PostgreSQL")
            ) =>
        {
            return Some(());
        }
        Some(class) => Fault::new(
            connector.place("connector.class"),
            format!("connector \"{class}\" is not supported"),
        )
        .hint(
            "outboxd takes the place of io.debezium.connector.postgresql.PostgresConnector only.",
        ),
    };
    faults.push(fault);
    None
}

/// Every property of the connector and of its router, through the table.
fn apply(connector: &Properties, router: Option<&Router>, out: &mut Out<'_>) {
    for (name, _) in connector.iter() {
        let option = router.and_then(|router| name.strip_prefix(router.prefix.as_str()));
        match option {
            Some(option) => row::apply(ROUTER, option, connector, name, out),
            None => row::apply(CONNECTOR, name, connector, name, out),
        }
    }
}

/// Properties that decide together or need more than a row of the table.
fn apply_rest(connector: &Properties, out: &mut Out<'_>) {
    if let Some(name) = connector.get("name") {
        out.settings.set("name", name, connector.origin("name"));
    }
    tolerance(connector, out);
    warn_of_tolerance(connector, out);
    changes_of_schemas(connector, out);
    skipped_operations(connector, out);
    select_overrides(connector, out);
    heartbeats(connector, out);
    offsets(connector, out);
    // Debezium's defaults, where they are not outboxd's own.
    out.settings
        .set_connector_default("slot.name", DEFAULT_SLOT);
    out.settings
        .set_connector_default("publication.name", "dbz_publication");
    let file = connector.path.display().to_string();
    if connector.get("publication.autocreate.mode").is_none() {
        let message = "publication.autocreate.mode is not set: a missing publication is made for the outbox table alone, not for all tables as Debezium does";
        out.notes.push(Note::info(&file, message));
    }
    if connector.get("plugin.name").is_none() {
        let message =
            "plugin.name is not set: outboxd uses pgoutput, Debezium would use decoderbufs";
        out.notes.push(Note::warning(&file, message));
    }
    let lists = [
        "tables_include",
        "tables_exclude",
        "schemas_include",
        "schemas_exclude",
    ];
    if lists
        .iter()
        .all(|list| out.settings.get(&format!("outbox.{list}")).is_none())
    {
        let fault = Fault::new(file, "table.include.list is not set")
            .hint("Set it to the outbox table, as schema.table.");
        out.faults.push(fault);
    }
}

/// Under which key the connector's offset stands, where the worker says in what.
fn offsets(connector: &Properties, out: &mut Out<'_>) {
    const OWN_TOPIC: &str = "offsets.storage.topic";
    let is_kept = |key| out.settings.get(key).is_some();
    if !is_kept("connect.offset_topic") && !is_kept("connect.offset_file") {
        return;
    }
    if let Some(topic) = connector.get(OWN_TOPIC).filter(|topic| !topic.is_empty()) {
        let origin = connector.origin(OWN_TOPIC);
        out.settings
            .set("connect.offset_topic", topic.trim(), origin);
    }
    let prefix = ["topic.prefix", "database.server.name"];
    let prefix = prefix
        .into_iter()
        .find(|name| connector.get(name).is_some());
    let names = [
        ("connect.connector", Some("name")),
        ("connect.server", prefix),
    ];
    for (key, property) in names {
        match property.and_then(|name| Some((name, connector.get(name)?))) {
            Some((name, value)) => out.settings.set(key, value.trim(), connector.origin(name)),
            None => {
                let file = connector.path.display().to_string();
                let missing = property.unwrap_or("topic.prefix");
                let message = format!(
                    "{missing} is not set: the connector's offset is not looked for, and the first start begins at the slot's position"
                );
                out.notes.push(Note::warning(file, message));
            }
        }
    }
    let (slot, origin) = match connector.get("slot.name") {
        Some(slot) => (slot.trim(), connector.origin("slot.name")),
        None => (DEFAULT_SLOT, Origin::ConnectorDefault),
    };
    out.settings.set("connect.slot", slot, origin);
}

/// The topic is PREFIX.NAME.
fn heartbeats(connector: &Properties, out: &mut Out<'_>) {
    if out.settings.get("heartbeat.interval").is_none() {
        return;
    }
    let either = |new: &str, old: &str| connector.get(new).or_else(|| connector.get(old));
    let prefix = either("topic.heartbeat.prefix", "heartbeat.topics.prefix")
        .unwrap_or("__debezium-heartbeat")
        .trim();
    let name = either("topic.prefix", "database.server.name")
        .unwrap_or("")
        .trim();
    out.settings
        .set_connector_default("heartbeat.topic", format!("{prefix}.{name}"));
    out.settings.set_connector_default("heartbeat.name", name);
}

/// Kafka Connect has dead letter queues for sinks only; here a source has one.
fn tolerance(connector: &Properties, out: &mut Out<'_>) {
    const TOLERANCE: &str = "errors.tolerance";
    const TOPIC: &str = "errors.deadletterqueue.topic.name";
    let tolerance = connector.get(TOLERANCE).unwrap_or("none").trim();
    match tolerance.to_ascii_lowercase().as_str() {
        "all" => {
            let origin = connector.origin(TOLERANCE);
            out.settings.set("errors.on_blocked", "dead-letter", origin);
            let message = "events that fail are not dropped, as Debezium does, but go to the dead-letter topic (errors.dead_letter.topic)";
            out.notes
                .push(Note::warning(connector.place(TOLERANCE), message));
        }
        "none" | "" => {
            if connector.get(TOPIC).is_some_and(|topic| !topic.is_empty()) {
                let message = "has no effect without errors.tolerance=all";
                out.notes.push(Note::info(connector.place(TOPIC), message));
            }
        }
        _ => {
            let message = format!("\"{tolerance}\" is not one of none, all");
            out.faults
                .push(Fault::new(connector.place(TOLERANCE), message));
        }
    }
}

fn warn_of_tolerance(connector: &Properties, out: &mut Out<'_>) {
    let usual = [
        ("event.processing.failure.handling.mode", "fail"),
        ("event.deserialization.failure.handling.mode", "fail"),
    ];
    for (name, harmless) in usual {
        let Some(value) = connector.get(name) else {
            continue;
        };
        if !value.trim().eq_ignore_ascii_case(harmless) {
            let message = format!(
                "\"{value}\" drops events that fail; outboxd drops none, errors.on_blocked says what it does"
            );
            out.notes
                .push(Note::warning(connector.place(name), message));
        }
    }
}

/// What changes schemas alone matters where a converter writes them.
fn changes_of_schemas(connector: &Properties, out: &mut Out<'_>) {
    let writes_schemas = ["key", "value", "header"].iter().any(|role| {
        let format = out.settings.get(&format!("outbox.{role}_format"));
        format.is_some_and(|format| format.value.contains("json_with_schemas"))
    });
    for (name, harmless) in [
        ("schema.name.adjustment.mode", "none"),
        ("include.schema.comments", "false"),
        ("column.propagate.source.type", ""),
        ("datatype.propagate.source.type", ""),
    ] {
        match connector.get(name).map(str::trim) {
            None => {}
            Some(value) if value.eq_ignore_ascii_case(harmless) => {}
            Some(_) if writes_schemas => {
                let message = "is not supported where a converter writes schemas";
                out.faults.push(Fault::new(connector.place(name), message));
            }
            Some(_) => {
                let message = "has no effect: no converter writes schemas";
                out.notes.push(Note::info(connector.place(name), message));
            }
        }
    }
}

fn skipped_operations(connector: &Properties, out: &mut Out<'_>) {
    const NAME: &str = "skipped.operations";
    let Some(value) = connector.get(NAME) else {
        return;
    };
    if !value
        .split(',')
        .any(|operation| operation.trim().eq_ignore_ascii_case("t"))
    {
        let message = "a TRUNCATE publishes nothing and stops nothing all the same";
        out.notes.push(Note::info(connector.place(NAME), message));
    }
    for operation in value.split(',').map(str::trim) {
        match operation.to_ascii_lowercase().as_str() {
            "c" => {
                let fault = Fault::new(
                    connector.place(NAME),
                    "inserts cannot be skipped: they are the events",
                );
                out.faults.push(fault);
            }
            "u" => {
                let key = "outbox.on_update";
                out.settings.set(key, "warn", connector.origin(NAME));
            }
            "d" | "t" | "none" | "" => {}
            other => {
                let message = format!("\"{other}\" is not one of c, u, d, t, none");
                out.faults.push(Fault::new(connector.place(NAME), message));
            }
        }
    }
}

fn select_overrides(connector: &Properties, out: &mut Out<'_>) {
    const NAME: &str = "snapshot.select.statement.overrides";
    let tables = connector.get(NAME).unwrap_or("");
    for table in tables
        .split(',')
        .map(str::trim)
        .filter(|table| !table.is_empty())
    {
        let name = format!("{NAME}.{table}");
        match connector.get(&name) {
            Some(statement) => {
                let key = format!("snapshot.select.{table}");
                out.settings.set(&key, statement, connector.origin(&name));
            }
            None => {
                let message = format!("\"{table}\" has no statement");
                let fault = Fault::new(connector.place(NAME), message).hint(format!("Set {name}."));
                out.faults.push(fault);
            }
        }
    }
}
