//! Debezium's outbox Event Router: a change in, a record or the reason for none out.
//!
//! The order of the checks is that of `EventRouterDelegate.apply` (Debezium 3.6).

mod columns;
mod converter;
pub mod dead_letter;
mod error;
mod expand;
mod heartbeat;
mod inspect;
mod json;
mod options;
mod payload;
mod placement;
mod plan;
mod record;
mod text;
mod topic;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::outbox::{Change, Operation, Source, TypeCatalog, Value};
use crate::pgoutput::{Relation, Tuple};
use plan::{Plan, PlannedColumn};

pub use crate::outbox::{
    BinaryHandling, DecimalHandling, HstoreHandling, IntervalHandling, TimePrecision, TypeOptions,
};
pub use columns::{ColumnFilter, ColumnFilterError};
pub use converter::{Converter, Converters, DecimalFormat, JsonOptions, NumberKind};
pub use error::RouteError;
pub use heartbeat::{Heartbeat, NoHeartbeat};
pub use inspect::{ColumnRole, ConnectType, InspectedColumn};
pub use options::{JsonEmptyArrays, JsonNulls, MissingField, OnUpdate, Options, RunContext};
pub use placement::{Placement, PlacementError, PlacementTarget};
pub use record::{Header, Record};
pub use topic::illegal as illegal_topic;
pub use topic::{DEFAULT_REGEX, DEFAULT_REPLACEMENT, TopicRoute, TopicRouteError};

#[derive(Debug)]
pub struct EventRouter {
    options: Options,
    catalog: TypeCatalog,
    id_header: Arc<str>,
    plan: Option<(Arc<Relation>, Plan)>,
    /// Topics by routed value: few in practice, and bounded where they are not.
    topics: HashMap<Box<str>, Arc<str>>,
}

#[derive(Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one per row, taken apart at once; a box would allocate"
)]
pub enum Routed {
    Publish { record: Record, note: Option<Note> },
    Drop(DropReason),
}

/// Why a change is not published, by the router's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    Delete,
    Truncate,
    Update,
    /// Of a table that the publication sends and the configuration does not name.
    OtherTable,
}

/// Something worth counting about a record that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// The payload could not be expanded and went out as one JSON string, as in Debezium.
    NotExpanded,
    /// Debezium's task would have died: the payload went out as the JSON that was written.
    KeptUntyped,
    /// Debezium would have lost values of the payload.
    KeptMore,
}

impl DropReason {
    pub const ALL: [Self; 4] = [Self::Delete, Self::Truncate, Self::Update, Self::OtherTable];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Update => "update",
            Self::OtherTable => "other_table",
        }
    }
}

impl Note {
    pub const ALL: [Self; 3] = [Self::NotExpanded, Self::KeptUntyped, Self::KeptMore];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotExpanded => "payload_not_expanded",
            Self::KeptUntyped => "payload_kept_untyped",
            Self::KeptMore => "payload_kept_more",
        }
    }
}

/// More routed values than this and the cache starts over.
const TOPIC_CACHE_ENTRIES: usize = 10_000;

impl EventRouter {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            catalog: TypeCatalog::default(),
            id_header: "id".into(),
            plan: None,
            topics: HashMap::new(),
        }
    }

    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// What the catalog says of types and columns, from the next row on.
    pub fn learn_types(&mut self, catalog: TypeCatalog) {
        self.catalog.extend(catalog);
        self.plan = None;
    }

    /// Each table that is none of the outbox is asked about again.
    pub fn forget_other_tables(&mut self) {
        self.catalog.forget_other_tables();
    }

    /// It has the columns without which no row is an event.
    pub fn could_route(&self, relation: &Relation) -> bool {
        let options = &self.options;
        [
            &options.id_field,
            &options.key_field,
            &options.route_field,
            &options.payload_field,
        ]
        .into_iter()
        .all(|wanted| relation.columns.iter().any(|column| column.name == *wanted))
    }

    /// The catalog has nothing to add to what the stream says of the table.
    pub fn knows_types(&self, relation: &Relation) -> bool {
        self.catalog.describes(relation)
    }

    pub fn route(&mut self, change: &Change<'_, '_>) -> Result<Routed, RouteError> {
        if self.catalog.is_other_table(change.relation.oid) {
            return Ok(Routed::Drop(DropReason::OtherTable));
        }
        let source = match change.operation {
            Operation::Delete => return Ok(Routed::Drop(DropReason::Delete)),
            Operation::Truncate => return Ok(Routed::Drop(DropReason::Truncate)),
            Operation::Update if self.options.on_update == OnUpdate::Fatal => {
                return Err(RouteError::Update);
            }
            Operation::Update => return Ok(Routed::Drop(DropReason::Update)),
            Operation::Insert => Source::Stream,
            Operation::Read => Source::Snapshot,
        };
        let row = change.new.ok_or(RouteError::NoRow)?;
        self.prepare(change.relation)?;
        let Self {
            options,
            plan: Some((_, plan)),
            topics,
            ..
        } = self
        else {
            return Err(RouteError::NoRow);
        };
        let timestamp_ms = timestamp_ms(change, row, plan)?;
        let headers = headers(&self.id_header, row, source, plan, options)?;
        let partition = match &plan.partition {
            Some(column) => payload::integer(column, row, source)?,
            None => None,
        };
        let key = convert(&plan.key, row, source, &options.converters.key)?;
        let routed = plan.route.read(row, source)?;
        let Value::Text(routed) = &routed else {
            return Err(RouteError::NullRoute {
                column: plan.route.name.clone(),
            });
        };
        let (value, note) = payload::value(row, source, routed, plan, options)?;
        let topic = topic(topics, routed, options)?;
        let partition = match partition.map(|wanted| (wanted, i32::try_from(wanted))) {
            None => None,
            Some((_, Ok(partition @ 0..))) => Some(partition),
            Some((wanted, _)) => {
                return Err(RouteError::Partition {
                    column: plan
                        .partition
                        .as_ref()
                        .map_or_else(String::new, |c| c.name.clone()),
                    partition: wanted,
                    event_id: event_id(row, plan),
                    topic: topic.to_string(),
                });
            }
        };
        let record = Record {
            topic,
            partition,
            key,
            value,
            headers,
            timestamp_ms,
        };
        Ok(Routed::Publish { record, note })
    }

    fn prepare(&mut self, relation: &Arc<Relation>) -> Result<(), RouteError> {
        match &self.plan {
            Some((known, _)) if Arc::ptr_eq(known, relation) => Ok(()),
            _ => {
                let plan = Plan::new(relation, &self.options, &self.catalog)?;
                self.plan = Some((Arc::clone(relation), plan));
                Ok(())
            }
        }
    }
}

fn timestamp_ms(change: &Change<'_, '_>, row: &Tuple<'_>, plan: &Plan) -> Result<i64, RouteError> {
    let Some(column) = &plan.timestamp else {
        return Ok(change.commit_time.as_unix_ms());
    };
    let Some(text) = column.text(row)? else {
        return Ok(change.commit_time.as_unix_ms());
    };
    let moment = column
        .column
        .read_moment(text)
        .ok_or_else(|| RouteError::NotATimestamp {
            column: column.name.clone(),
        })?;
    let us = moment.map_err(|expected| column.expected(expected))?;
    if us < 0 {
        return Err(RouteError::TimestampBefore1970 {
            column: column.name.clone(),
            event_id: event_id(row, plan),
        });
    }
    Ok(us / 1000)
}

/// The event's id as errors show it.
fn event_id(row: &Tuple<'_>, plan: &Plan) -> String {
    match plan.id.text(row) {
        Ok(Some(id)) => id.to_owned(),
        Ok(None) | Err(_) => "without an id".to_owned(),
    }
}

fn headers(
    id_header: &Arc<str>,
    row: &Tuple<'_>,
    source: Source,
    plan: &Plan,
    options: &Options,
) -> Result<SmallVec<[Header; 4]>, RouteError> {
    let converter = &options.converters.header;
    let count = plan.context.len() + 1 + plan.headers.len() + usize::from(options.mark.is_some());
    let mut headers = SmallVec::with_capacity(count);
    headers.extend(plan.context.iter().cloned());
    headers.push(Header {
        name: Arc::clone(id_header),
        value: convert(&plan.id, row, source, converter)?,
    });
    for (name, column) in &plan.headers {
        headers.push(Header {
            name: Arc::clone(name),
            value: convert(column, row, source, converter)?,
        });
    }
    headers.extend(options.mark.clone());
    Ok(headers)
}

fn convert(
    column: &PlannedColumn,
    row: &Tuple<'_>,
    source: Source,
    converter: &Converter,
) -> Result<Option<Bytes>, RouteError> {
    if *converter == Converter::Raw {
        return payload::raw_bytes(row, column);
    }
    let value = column.read_or_default(row, source)?;
    converter
        .convert(&value, &column.column.schema, &column.prefix)
        .map_err(|mismatch| column.mismatch(mismatch, column.column.type_name()))
}

fn topic(
    topics: &mut HashMap<Box<str>, Arc<str>>,
    routed: &str,
    options: &Options,
) -> Result<Arc<str>, RouteError> {
    if let Some(topic) = topics.get(routed) {
        return Ok(Arc::clone(topic));
    }
    let topic = options.topic.topic(routed);
    let column = || options.route_field.clone();
    if let Some(reason) = topic::illegal(&topic) {
        let column = column();
        return Err(RouteError::IllegalTopic {
            topic,
            column,
            reason,
        });
    }
    if let Some((holds, setting)) = of_the_relay(&topic, options) {
        let column = column();
        return Err(RouteError::OwnTopic {
            topic,
            column,
            holds,
            setting,
        });
    }
    if topics.len() >= TOPIC_CACHE_ENTRIES {
        topics.clear();
    }
    let topic: Arc<str> = topic.into();
    topics.insert(routed.into(), Arc::clone(&topic));
    Ok(topic)
}

/// What the relay keeps in a topic, and the setting that names it.
fn of_the_relay(topic: &str, options: &Options) -> Option<(&'static str, &'static str)> {
    let is = |own: &Option<Arc<str>>| own.as_deref() == Some(topic);
    if is(&options.dead_letter_topic) {
        return Some(("dead letters", "errors.dead_letter.topic"));
    }
    is(&options.journal_topic).then_some(("the relay's positions", "position.topic"))
}

#[cfg(test)]
mod tests;
