//! The router's options.

use super::errors::Errors;
use super::{Choices, Read, format};
use crate::router::{
    BinaryHandling, ColumnFilter, Converter, Converters, DecimalHandling, HstoreHandling,
    IntervalHandling, JsonEmptyArrays, JsonNulls, MissingField, OnUpdate, Options, Placement,
    PlacementTarget, RunContext, TimePrecision, TopicRoute, TopicRouteError, TypeOptions,
};

const ON_UPDATE: Choices<OnUpdate> = &[
    ("warn", OnUpdate::Warn),
    ("error", OnUpdate::Error),
    ("fatal", OnUpdate::Fatal),
];
const MISSING: Choices<MissingField> = &[
    ("error", MissingField::Error),
    ("ignore", MissingField::Ignore),
];
const JSON_NULLS: Choices<JsonNulls> = &[("drop", JsonNulls::Ignore), ("keep", JsonNulls::Keep)];
const EMPTY_ARRAYS: Choices<JsonEmptyArrays> = &[
    ("drop", JsonEmptyArrays::Ignore),
    ("keep", JsonEmptyArrays::Keep),
];
const TIME: Choices<TimePrecision> = &[
    ("adaptive", TimePrecision::Adaptive),
    (
        "adaptive_time_microseconds",
        TimePrecision::AdaptiveTimeMicroseconds,
    ),
    ("connect", TimePrecision::Connect),
    ("microseconds", TimePrecision::Microseconds),
    ("nanoseconds", TimePrecision::Nanoseconds),
    ("isostring", TimePrecision::IsoString),
];
const DECIMAL: Choices<DecimalHandling> = &[
    ("precise", DecimalHandling::Precise),
    ("double", DecimalHandling::Double),
    ("string", DecimalHandling::String),
];
const BINARY: Choices<BinaryHandling> = &[
    ("bytes", BinaryHandling::Bytes),
    ("base64", BinaryHandling::Base64),
    ("base64-url-safe", BinaryHandling::Base64UrlSafe),
    ("hex", BinaryHandling::Hex),
];
const INTERVAL: Choices<IntervalHandling> = &[
    ("numeric", IntervalHandling::Numeric),
    ("string", IntervalHandling::String),
];
const HSTORE: Choices<HstoreHandling> =
    &[("json", HstoreHandling::Json), ("map", HstoreHandling::Map)];

pub(super) fn options(read: &mut Read<'_>, errors: Option<&Errors>) -> Option<Options> {
    // All of them before the first `?`: every fault is told in one go.
    let topic = topic(read);
    let placements = placements(read);
    let missing = read.choice("outbox.missing_column", MISSING);
    let on_update = read.choice("outbox.on_update", ON_UPDATE);
    let expand_json = read.boolean("outbox.expand_json");
    let json_nulls = read.choice("outbox.json_nulls", JSON_NULLS);
    let json_empty_arrays = read.choice("outbox.json_empty_arrays", EMPTY_ARRAYS);
    let tombstone_on_empty = read.boolean("outbox.tombstone_on_empty");
    let converters = converters(read);
    let id_field = read.required("outbox.id");
    let key_field = read.required("outbox.key");
    let payload_field = read.required("outbox.payload");
    let route_field = read.required("outbox.route_by");
    let context = read.boolean("outbox.context_headers");
    let columns = columns(read);
    let types = types(read);
    Some(Options {
        id_field: id_field?,
        key_field: key_field?,
        payload_field: payload_field?,
        timestamp_field: read.optional("outbox.timestamp"),
        schema_version_field: read.optional("outbox.schema_version"),
        route_field: route_field?,
        topic: topic?,
        placements: placements?,
        missing: missing?,
        on_update: on_update?,
        expand_json: expand_json?,
        json_nulls: json_nulls?,
        json_empty_arrays: json_empty_arrays?,
        tombstone_on_empty: tombstone_on_empty?,
        topic_prefix: read.text("outbox.schema_prefix"),
        context: context?.then(|| RunContext {
            run_id: random_id(),
        }),
        columns: columns?,
        converters: converters?,
        types: types?,
        dead_letter_topic: errors?.dead_letter_topic.clone(),
        journal_topic: None,
        mark: None,
    })
}

/// A random UUID (version 4).
fn random_id() -> String {
    let id: u128 = rand::random();
    let (version, variant) = (0x4 << 76, 0b10 << 62);
    let id = id & !(0xF << 76) & !(0b11 << 62) | version | variant;
    let hex = format!("{id:032x}");
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

fn converters(read: &mut Read<'_>) -> Option<Converters> {
    let key = converter(read, "outbox.key_format");
    let value = converter(read, "outbox.value_format");
    let header = converter(read, "outbox.header_format");
    Some(Converters {
        key: key?,
        value: value?,
        header: header?,
    })
}

fn converter(read: &mut Read<'_>, key: &str) -> Option<Converter> {
    let parsed = format::parse(&read.text(key));
    parsed.map_err(|message| read.fault(key, message)).ok()
}

fn columns(read: &mut Read<'_>) -> Option<ColumnFilter> {
    let include = "outbox.columns_include";
    let exclude = "outbox.columns_exclude";
    let filter = match (read.optional(include), read.optional(exclude)) {
        (None, None) => return Some(ColumnFilter::default()),
        (Some(_), Some(_)) => {
            let include = read.spell(include);
            read.fault(exclude, format!("cannot be set together with {include}"));
            return None;
        }
        (Some(list), None) => (include, ColumnFilter::including(&list)),
        (None, Some(list)) => (exclude, ColumnFilter::excluding(&list)),
    };
    let (key, filter) = filter;
    filter
        .map_err(|error| read.fault(key, error.to_string()))
        .ok()
}

fn types(read: &mut Read<'_>) -> Option<TypeOptions> {
    let time_precision = read.choice("types.time", TIME);
    let decimal = read.choice("types.decimal", DECIMAL);
    let binary = read.choice("types.binary", BINARY);
    let interval = read.choice("types.interval", INTERVAL);
    let hstore = read.choice("types.hstore", HSTORE);
    let money_fraction_digits = read.number("types.money_fraction_digits");
    let include_unknown = read.boolean("types.include_unknown");
    Some(TypeOptions {
        time_precision: time_precision?,
        decimal: decimal?,
        binary: binary?,
        interval: interval?,
        hstore: hstore?,
        money_fraction_digits: money_fraction_digits?,
        include_unknown: include_unknown?,
    })
}

/// Each name once in the envelope, whose first member is the payload.
fn placements(read: &mut Read<'_>) -> Option<Vec<Placement>> {
    let headers = placed(read, "outbox.headers", PlacementTarget::Header);
    let envelope = placed(read, "outbox.envelope", PlacementTarget::Envelope);
    let partition = read.optional("outbox.partition").map(|field| Placement {
        field,
        target: PlacementTarget::Partition,
    });
    let placements = [headers?, envelope?, partition.into_iter().collect()].concat();
    match Placement::check_names(&placements) {
        Ok(()) => Some(placements),
        Err(error) => {
            read.fault("outbox.envelope", error.to_string());
            None
        }
    }
}

fn topic(read: &mut Read<'_>) -> Option<TopicRoute> {
    let regex = read.required("outbox.topic_regex");
    let topic = read.required("outbox.topic");
    match TopicRoute::new(&regex?, &topic?) {
        Ok(topic) => Some(topic),
        Err(error) => {
            let key = match &error {
                TopicRouteError::Regex { .. } => "outbox.topic_regex",
                TopicRouteError::UnknownGroup { .. }
                | TopicRouteError::Replacement { .. }
                | TopicRouteError::Illegal { .. } => "outbox.topic",
            };
            read.fault(key, error.to_string());
            None
        }
    }
}

/// `column` or `column:name`.
fn placed(
    read: &mut Read<'_>,
    key: &str,
    target: fn(String) -> PlacementTarget,
) -> Option<Vec<Placement>> {
    let mut placements = Vec::new();
    for item in read.list(key) {
        let (field, name) = item.split_once(':').unwrap_or((&item, &item));
        let (field, name) = (field.trim(), name.trim());
        if field.is_empty() || name.is_empty() || name.contains(':') {
            read.fault(key, format!("\"{item}\" is not column or column:name"));
            return None;
        }
        placements.push(Placement {
            field: field.to_owned(),
            target: target(name.to_owned()),
        });
    }
    Some(placements)
}
