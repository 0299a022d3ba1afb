//! `transforms.<router>.*`

use super::{As, Property, Word, becomes, honoured, ignored, old, only, word};

const ON_UPDATE: &[Word] = &[
    word("warn", "warn"),
    word("error", "error"),
    word("fatal", "fatal"),
];
const MISSING: &[Word] = &[word("error", "error"), word("ignore", "ignore")];
const JSON_NULLS: &[Word] = &[word("ignore", "drop"), word("optional_bytes", "keep")];
const EMPTY_ARRAYS: &[Word] = &[word("ignore", "drop"), word("optional_string", "keep")];
const TRACING: &str = "no spans are made; place the column as a header to carry a trace on";

#[rustfmt::skip]
pub(in super::super) const ROUTER: &[Property] = &[
    honoured("type", "must be io.debezium.transforms.outbox.EventRouter"),
    honoured("predicate", "the name of a predicate"),
    honoured("negate", "turns the predicate round"),
    becomes("table.op.invalid.behavior", "outbox.on_update", As::Words(ON_UPDATE)),
    becomes("table.field.event.id", "outbox.id", As::Text),
    becomes("table.field.event.key", "outbox.key", As::Text),
    ignored("table.field.event.type", "the Event Router reads it nowhere; place the column as a header instead"),
    becomes("table.field.event.payload", "outbox.payload", As::Text),
    becomes("table.field.event.timestamp", "outbox.timestamp", As::Text),
    honoured("table.fields.additional.placement", "outbox.headers, outbox.envelope, outbox.partition"),
    becomes("table.field.additional.missing", "outbox.missing_column", As::Words(MISSING)),
    honoured("table.fields.additional.error.on.missing", "the older name (2.5 to 3.5) of table.field.additional.missing"),
    becomes("table.field.event.schema.version", "outbox.schema_version", As::Text),
    becomes("table.expand.json.payload", "outbox.expand_json", As::Boolean),
    old("debezium.expand.json.payload", "table.expand.json.payload"),
    becomes("table.json.payload.null.behavior", "outbox.json_nulls", As::Words(JSON_NULLS)),
    becomes("table.json.payload.empty.array.behavior", "outbox.json_empty_arrays", As::Words(EMPTY_ARRAYS)),
    becomes("route.by.field", "outbox.route_by", As::Text),
    becomes("route.topic.regex", "outbox.topic_regex", As::Text),
    becomes("route.topic.replacement", "outbox.topic", As::Text),
    becomes("route.tombstone.on.empty.payload", "outbox.tombstone_on_empty", As::Boolean),
    ignored("tracing.span.context.field", TRACING),
    ignored("tracing.operation.name", TRACING),
    ignored("tracing.with.context.field.only", TRACING),
    only("field.name.adjustment.mode", &["none"], "the names in payloads stay as they are"),
];
