//! Debezium's outbox Event Router: a change in, a record or the reason for none out.
//!
//! The order of the checks is that of `EventRouterDelegate.apply` (Debezium 3.6).

mod error;
mod json;
mod options;
mod plan;
mod record;
mod topic;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use smallvec::SmallVec;

use crate::outbox::{Change, Operation, Value};
use crate::pgoutput::{Datum, Relation, Tuple};
use plan::Plan;

pub use error::RouteError;
pub use options::{Converter, HeaderPlacement, MissingField, OnUpdate, Options};
pub use record::{Header, Record};
pub use topic::{DEFAULT_REGEX, DEFAULT_REPLACEMENT, TopicRoute, TopicRouteError};

#[derive(Debug)]
pub struct EventRouter {
    options: Options,
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
}

/// Something worth counting about a record that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// The payload could not be expanded and went out as one JSON string.
    NotExpanded,
}

impl DropReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Update => "update",
        }
    }
}

impl Note {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotExpanded => "payload_not_expanded",
        }
    }
}

/// More routed values than this and the cache starts over.
const TOPIC_CACHE_ENTRIES: usize = 10_000;

impl EventRouter {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            id_header: "id".into(),
            plan: None,
            topics: HashMap::new(),
        }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn route(&mut self, change: &Change<'_, '_>) -> Result<Routed, RouteError> {
        match change.operation {
            Operation::Delete => return Ok(Routed::Drop(DropReason::Delete)),
            Operation::Truncate => return Ok(Routed::Drop(DropReason::Truncate)),
            Operation::Update if self.options.on_update == OnUpdate::Fatal => {
                return Err(RouteError::Update);
            }
            Operation::Update => return Ok(Routed::Drop(DropReason::Update)),
            Operation::Insert | Operation::Read => {}
        }
        let row = change.new.ok_or(RouteError::NoRow)?;
        let plan = self.plan_for(change.relation)?;
        let field = |index: usize| datum(row, index);
        let read = |index: usize| read(change.relation, row, index);

        let timestamp_ms = match plan.timestamp {
            Some(index) => timestamp_ms(change, index, read(index)?)?,
            None => change.commit_time.as_unix_ms(),
        };
        let id = plain(&read(plan.id)?);
        let key = convert(&read(plan.key)?, self.options.key_converter);
        let mut headers = SmallVec::new();
        headers.push(Header {
            name: Arc::clone(&self.id_header),
            value: id,
        });
        for (name, index) in &plan.headers {
            headers.push(Header {
                name: Arc::clone(name),
                value: plain(&read(*index)?),
            });
        }
        let (value, note) = self.value(&read(plan.payload)?);
        let Datum::Text(topic) = field(plan.route) else {
            return Err(RouteError::NullRoute {
                column: self.options.route_field.clone(),
            });
        };
        let topic = self.topic(&String::from_utf8_lossy(topic));
        let record = Record {
            topic,
            partition: None,
            key,
            value,
            headers,
            timestamp_ms,
        };
        Ok(Routed::Publish { record, note })
    }

    fn plan_for(&mut self, relation: &Arc<Relation>) -> Result<Plan, RouteError> {
        match &self.plan {
            Some((known, plan)) if Arc::ptr_eq(known, relation) => Ok(plan.clone()),
            _ => {
                let plan = Plan::new(relation, &self.options)?;
                self.plan = Some((Arc::clone(relation), plan.clone()));
                Ok(plan)
            }
        }
    }

    fn value(&self, payload: &Value<'_>) -> (Option<Bytes>, Option<Note>) {
        if self.options.tombstone_on_empty && is_empty(payload) {
            return (None, None);
        }
        if self.options.expand_json
            && self.options.value_converter == Converter::Json
            && let Value::Text(text) = payload
        {
            return match json::expand(text) {
                json::Expanded::Json(bytes) => (Some(Bytes::from(bytes)), None),
                json::Expanded::Text => {
                    (convert(payload, Converter::Json), Some(Note::NotExpanded))
                }
            };
        }
        (convert(payload, self.options.value_converter), None)
    }

    fn topic(&mut self, routed: &str) -> Arc<str> {
        if let Some(topic) = self.topics.get(routed) {
            return Arc::clone(topic);
        }
        if self.topics.len() >= TOPIC_CACHE_ENTRIES {
            self.topics.clear();
        }
        let topic: Arc<str> = self.options.topic.topic(routed).into();
        self.topics.insert(routed.into(), Arc::clone(&topic));
        topic
    }
}

fn datum<'a>(row: &Tuple<'a>, index: usize) -> Datum<'a> {
    row.datums.get(index).copied().unwrap_or(Datum::Null)
}

fn read<'a>(relation: &Relation, row: &Tuple<'a>, index: usize) -> Result<Value<'a>, RouteError> {
    match relation.columns.get(index) {
        Some(column) => Value::read(column, datum(row, index)).map_err(RouteError::Value),
        None => Ok(Value::Null),
    }
}

fn timestamp_ms(
    change: &Change<'_, '_>,
    index: usize,
    value: Value<'_>,
) -> Result<i64, RouteError> {
    match value {
        Value::Null => Ok(change.commit_time.as_unix_ms()),
        Value::TimestampUs(us) | Value::InstantUs(us) => Ok(us / 1000),
        _ => Err(RouteError::NotATimestamp {
            column: change
                .relation
                .columns
                .get(index)
                .map_or_else(String::new, |c| c.name.clone()),
        }),
    }
}

/// Null, or blank text as Java's `trim` sees it. Bytes are never empty: Java looks at the
/// description of a buffer there.
fn is_empty(payload: &Value<'_>) -> bool {
    match payload {
        Value::Null => true,
        Value::Text(text) => text.chars().all(|c| c <= ' '),
        _ => false,
    }
}

fn convert(value: &Value<'_>, converter: Converter) -> Option<Bytes> {
    match converter {
        Converter::Raw | Converter::String => plain(value),
        Converter::Json => Some(json_value(value)),
    }
}

/// As `StringConverter` and `SimpleHeaderConverter` write it; bytea as its bytes.
fn plain(value: &Value<'_>) -> Option<Bytes> {
    Some(match value {
        Value::Null => return None,
        Value::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => Bytes::copy_from_slice(bytes),
        Value::Bool(value) => Bytes::from(value.to_string()),
        Value::Int(value) | Value::TimestampUs(value) | Value::InstantUs(value) => {
            Bytes::from(value.to_string())
        }
        Value::Double(value) => Bytes::from(json::java_double(*value)),
    })
}

fn json_value(value: &Value<'_>) -> Bytes {
    match value {
        Value::Null => Bytes::from_static(b"null"),
        Value::Text(text) => {
            let mut out = Vec::with_capacity(text.len() + 16);
            json::write_string(text, &mut out);
            Bytes::from(out)
        }
        Value::Bytes(bytes) => Bytes::from(format!("\"{}\"", BASE64.encode(bytes))),
        other => plain(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
