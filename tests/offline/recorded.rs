//! Random rows and payloads, with what Debezium 3.6.1 made of them: without a server, but with the
//! texts that one printed.

use std::collections::BTreeMap;
use std::sync::Arc;

use outboxd::lsn::Lsn;
use outboxd::outbox::{CatalogColumn, CatalogType, Change, Operation, TypeCatalog, TypeKind};
use outboxd::pgoutput::{Column, Datum, Relation, ReplicaIdentity, Tuple};
use outboxd::router::{
    BinaryHandling, Converter, Converters, DecimalFormat, DecimalHandling, EventRouter,
    HstoreHandling, IntervalHandling, JsonNulls, JsonOptions, Note, Options, Placement, Record,
    Routed, TimePrecision, TypeOptions,
};
use outboxd::timestamp::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::support::pgoutput_builder::{Columns, table};

type Text = Option<String>;

/// Rows of one table with a column of every type, and the headers that they became under each set
/// of options.
#[derive(Deserialize)]
struct Types {
    /// Name, type's oid, modifier.
    columns: Vec<(String, u32, i32)>,
    types: Vec<Type>,
    rows: Vec<Vec<Text>>,
    /// By header format and options; one value for each column behind the payload, after `seq`.
    recorded: BTreeMap<String, Vec<Vec<Text>>>,
}

#[derive(Deserialize)]
struct Type {
    oid: u32,
    name: String,
    kind: String,
    base: u32,
    modifier: i32,
    element: Option<u32>,
    labels: Vec<String>,
}

impl Type {
    fn described(&self) -> CatalogType {
        let kind = match (self.kind.as_str(), self.element) {
            (_, Some(element)) => TypeKind::Array { element },
            ("d", _) => TypeKind::Domain {
                base: self.base,
                type_modifier: self.modifier,
            },
            ("e", _) => TypeKind::Enum {
                labels: self.labels.clone(),
            },
            ("b", _) => TypeKind::Base,
            _ => TypeKind::Other,
        };
        let name = self.name.clone();
        CatalogType { name, kind }
    }
}

/// Everything outside of the header's own columns: id, route, key, seq, payload.
const COLUMNS_BEFORE: usize = 5;

fn types() -> Types {
    read("types.json")
}

fn read<T: for<'a> Deserialize<'a>>(file: &str) -> T {
    let path = format!("tests/data/conformance/random/{file}");
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn relation(types: &Types) -> Arc<Relation> {
    let column = |(name, type_oid, type_modifier): &(String, u32, i32)| Column {
        name: name.clone(),
        type_oid: *type_oid,
        type_modifier: *type_modifier,
        is_key: name == "id",
    };
    Arc::new(Relation {
        oid: 1,
        namespace: "public".to_owned(),
        name: "outbox".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: types.columns.iter().map(column).collect(),
    })
}

fn catalog(types: &Types) -> TypeCatalog {
    let mut catalog = TypeCatalog::default();
    for found in &types.types {
        catalog.add_type(found.oid, found.described());
    }
    for (name, _, _) in &types.columns {
        let column = CatalogColumn {
            not_null: name == "id",
            default: None,
        };
        catalog.add_column(1, name, column);
    }
    catalog
}

fn options_of(types: &str) -> TypeOptions {
    let default = TypeOptions::default();
    match types {
        "adaptive" => default,
        "isostring" => TypeOptions {
            time_precision: TimePrecision::IsoString,
            decimal: DecimalHandling::String,
            binary: BinaryHandling::Hex,
            interval: IntervalHandling::String,
            hstore: HstoreHandling::Map,
            ..default
        },
        "connect" => TypeOptions {
            time_precision: TimePrecision::Connect,
            decimal: DecimalHandling::Double,
            binary: BinaryHandling::Base64,
            hstore: HstoreHandling::Map,
            ..default
        },
        "nanos" => TypeOptions {
            time_precision: TimePrecision::Nanoseconds,
            ..default
        },
        "micros" => TypeOptions {
            time_precision: TimePrecision::Microseconds,
            money_fraction_digits: 4,
            ..default
        },
        "atm" => TypeOptions {
            time_precision: TimePrecision::AdaptiveTimeMicroseconds,
            ..default
        },
        other => panic!("no options \"{other}\""),
    }
}

fn format_of(name: &str) -> Converter {
    let json = |schemas| {
        let decimals = DecimalFormat::Base64;
        Converter::Json(JsonOptions { schemas, decimals })
    };
    match name {
        "simple" => Converter::Simple,
        "string" => Converter::String,
        "json" => json(false),
        "jsons" => json(true),
        other => panic!("no format \"{other}\""),
    }
}

fn record(
    router: &mut EventRouter,
    relation: &Arc<Relation>,
    row: &[Text],
) -> (Record, Option<Note>) {
    let datums = row.iter().map(|text| match text {
        Some(text) => Datum::Text(text.as_bytes()),
        None => Datum::Null,
    });
    let tuple = Tuple {
        datums: datums.collect(),
    };
    let change = Change {
        operation: Operation::Insert,
        relation,
        new: Some(&tuple),
        commit_time: Timestamp::default(),
        commit_lsn: Lsn::new(1),
    };
    match router.route(&change) {
        Ok(Routed::Publish { record, note }) => (record, note),
        other => panic!("expected a record, found {other:?}"),
    }
}

fn text(bytes: Option<&bytes::Bytes>) -> Text {
    bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn values_of_every_type_are_those_of_debezium() {
    let types = types();
    let (relation, catalog) = (relation(&types), catalog(&types));
    let placed = &types.columns[COLUMNS_BEFORE..];
    for (name, recorded) in &types.recorded {
        let (format, modes) = name.split_once('_').unwrap();
        let mut router = EventRouter::new(Options {
            placements: placed
                .iter()
                .map(|(name, _, _)| Placement::header(name, name))
                .collect(),
            types: options_of(modes),
            converters: Converters {
                header: format_of(format),
                ..Converters::default()
            },
            ..Options::debezium()
        });
        router.learn_types(catalog.clone());
        for (row, recorded) in types.rows.iter().zip(recorded) {
            let (record, _) = record(&mut router, &relation, row);
            let values = record.headers[1..]
                .iter()
                .map(|header| text(header.value.as_ref()));
            assert_eq!(
                (record.headers.len(), recorded.len()),
                (placed.len() + 1, placed.len() + 1)
            );
            // Before them stands seq, which the recording was told apart by.
            for (((column, _, _), recorded), value) in placed.iter().zip(&recorded[1..]).zip(values)
            {
                let is_address = recorded.as_deref().is_some_and(|text| text.contains("[B@"));
                if !is_address {
                    assert_eq!(&value, recorded, "{name}: {column} of {:?}", row[3]);
                }
            }
        }
    }
}

/// Objects in one array: Debezium orders their members by hash codes.
fn without_order(text: &str) -> Option<Value> {
    fn sorted(value: Value) -> Value {
        match value {
            Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
            Value::Object(members) => {
                let mut members: Vec<_> =
                    members.into_iter().map(|(k, v)| (k, sorted(v))).collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                if let Some((_, Value::Array(fields))) =
                    members.iter_mut().find(|(name, _)| name == "fields")
                {
                    fields.sort_by_key(ToString::to_string);
                }
                Value::Object(members.into_iter().collect())
            }
            other => other,
        }
    }
    serde_json::from_str(text).ok().map(sorted)
}

#[test]
fn expanded_payloads_are_those_of_debezium() {
    let recorded: BTreeMap<String, Vec<(String, Text)>> = read("payloads.json");
    let relation = Arc::new(
        table(1, "public", "outbox")
            .key("id", 25)
            .column("aggregatetype", 25)
            .column("aggregateid", 25)
            .column("payload", 25),
    );
    for (name, payloads) in recorded {
        let (value, json_nulls) = match name.as_str() {
            "plain" => (format_of("json"), JsonNulls::Ignore),
            "nulls" => (format_of("json"), JsonNulls::Keep),
            "schemas" => (format_of("jsons"), JsonNulls::Ignore),
            "string" => (Converter::String, JsonNulls::Ignore),
            other => panic!("no options \"{other}\""),
        };
        let mut router = EventRouter::new(Options {
            expand_json: true,
            json_nulls,
            converters: Converters {
                value,
                ..Converters::default()
            },
            ..Options::debezium()
        });
        for (payload, recorded) in payloads {
            let row = ["1", "Order", "k", &payload].map(|text| Some(text.to_owned()));
            let (record, note) = record(&mut router, &relation, &row);
            let value = text(record.value.as_ref());
            if value == recorded {
                continue;
            }
            match (note, &recorded) {
                // Debezium's task fails: with errors.tolerance=all it went on without the event.
                (Some(Note::KeptUntyped | Note::KeptMore), None) => {}
                // It lost values of arrays in arrays.
                (Some(Note::KeptUntyped | Note::KeptMore), Some(_)) => {
                    assert!(payload.contains("[["), "{name}: {payload}");
                }
                (None, Some(recorded)) if name == "string" => {
                    let letters = |text: &str| {
                        let mut letters: Vec<char> = text.chars().collect();
                        letters.sort_unstable();
                        letters
                    };
                    assert_eq!(letters(&value.unwrap()), letters(recorded), "{payload}");
                }
                (None, Some(recorded)) => {
                    let (value, recorded) =
                        (without_order(&value.unwrap()), without_order(recorded));
                    assert_eq!(value, recorded, "{name}: {payload}");
                }
                _ => panic!("{name}: {payload}: {value:?}, not {recorded:?} ({note:?})"),
            }
        }
    }
}
