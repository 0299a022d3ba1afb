//! What a connector file says of values: converters, types, placements, columns.

use outboxd::router::{
    BinaryHandling, ColumnFilter, Converter, Converters, DecimalFormat, DecimalHandling,
    HstoreHandling, IntervalHandling, JsonEmptyArrays, JsonNulls, JsonOptions, NumberKind,
    Placement, PlacementTarget, TimePrecision, TypeOptions,
};

use super::{Given, notes, sources};

const BASE: &str = "connector.class=io.debezium.connector.postgresql.PostgresConnector
database.hostname=localhost
database.user=relay
database.dbname=shop
topic.prefix=shop
plugin.name=pgoutput
publication.autocreate.mode=filtered
table.include.list=public.outbox
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
";

const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";
const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";
const BINARY: &str = "io.debezium.converters.BinaryDataConverter";

/// A connector of the base and these lines, and the folder it is in.
fn connector(lines: &str) -> (tempfile::TempDir, Given) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.properties");
    std::fs::write(&path, format!("{BASE}{lines}\n")).unwrap();
    let given = Given::from(outboxd::config::Sources {
        connector: Some(path),
        ..sources()
    });
    (folder, given.broker())
}

fn converters(lines: &str) -> Converters {
    let (_folder, given) = connector(lines);
    given.config().router.converters
}

fn faults(lines: &str) -> String {
    let (folder, given) = connector(lines);
    let file = format!("{}/outbox.properties: ", folder.path().display());
    given.faults().replace(&file, "")
}

const fn json(schemas: bool, decimals: DecimalFormat) -> Converter {
    Converter::Json(JsonOptions { schemas, decimals })
}

#[test]
fn without_a_word_kafka_connects_own_converters_are_taken() {
    let schemas = json(true, DecimalFormat::Base64);
    assert_eq!(
        converters(""),
        Converters {
            key: schemas.clone(),
            value: schemas,
            header: Converter::Simple,
        }
    );
}

#[test]
fn every_converter_and_its_options_reach_the_router() {
    let lines = format!(
        "key.converter={JSON}\nkey.converter.schemas.enable=false\nkey.converter.decimal.format=NUMERIC\n\
         value.converter={BINARY}\nvalue.converter.delegate.converter.type={JSON}\n\
         value.converter.delegate.converter.type.decimal.format=numeric\n\
         header.converter={STRING}"
    );
    let delegate = Some(Box::new(json(true, DecimalFormat::Numeric)));
    assert_eq!(
        converters(&lines),
        Converters {
            key: json(false, DecimalFormat::Numeric),
            value: Converter::BinaryData { delegate },
            header: Converter::String,
        }
    );
    for (class, converter) in [
        (
            "org.apache.kafka.connect.converters.ByteArrayConverter",
            Converter::ByteArray,
        ),
        (
            "org.apache.kafka.connect.converters.LongConverter",
            Converter::Number(NumberKind::Long),
        ),
        (
            "io.debezium.converters.ByteArrayConverter",
            Converter::BinaryData { delegate: None },
        ),
        ("StringConverter", Converter::String),
        ("Json", json(true, DecimalFormat::Base64)),
    ] {
        let lines = format!("value.converter={class}");
        assert_eq!(converters(&lines).value, converter, "{class}");
    }
}

#[test]
fn converters_that_would_write_other_bytes_are_refused() {
    for (lines, message) in [
        (
            "value.converter=com.example.JsonConverter".to_owned(),
            "value.converter: converter com.example.JsonConverter is not supported",
        ),
        (
            "value.converter=org.apache.kafka.connect.storage.SimpleHeaderConverter".to_owned(),
            "value.converter: converter org.apache.kafka.connect.storage.SimpleHeaderConverter is not supported",
        ),
        (
            format!("value.converter={JSON}\nvalue.converter.schemas.enable=no"),
            "value.converter.schemas.enable: \"no\" is not true or false",
        ),
        (
            format!("value.converter={JSON}\nvalue.converter.decimal.format=text"),
            "value.converter.decimal.format: \"text\" is not base64 or numeric",
        ),
        (
            format!(
                "value.converter={BINARY}\nvalue.converter.delegate.converter.type.schemas.enable=false"
            ),
            "value.converter.delegate.converter.type.schemas.enable: has no effect without value.converter.delegate.converter.type",
        ),
        (
            format!("value.converter={STRING}\nvalue.converter.converter.encoding=UTF-16"),
            "value.converter.converter.encoding: \"utf-16\" is not supported, only \"UTF-8\"",
        ),
    ] {
        assert_eq!(faults(&lines).lines().next(), Some(message));
    }
}

#[test]
fn schemas_of_a_converter_without_any_are_noted() {
    let lines = format!("key.converter={STRING}\nkey.converter.schemas.enable=false");
    let (_folder, given) = connector(&lines);
    let config = given.config();
    assert_eq!(config.router.converters.key, Converter::String);
    let wanted = "key.converter.schemas.enable: has no effect: only JsonConverter writes schemas";
    assert!(notes(&config).iter().any(|note| note.ends_with(wanted)));
}

#[test]
fn the_handling_modes_of_types_reach_the_router() {
    let (_folder, given) = connector(
        "time.precision.mode=ISOSTRING\ndecimal.handling.mode=string\nbinary.handling.mode=base64-url-safe\n\
         interval.handling.mode=string\nhstore.handling.mode=map\nmoney.fraction.digits=3\n\
         include.unknown.datatypes=true",
    );
    assert_eq!(
        given.config().router.types,
        TypeOptions {
            time_precision: TimePrecision::IsoString,
            decimal: DecimalHandling::String,
            binary: BinaryHandling::Base64UrlSafe,
            interval: IntervalHandling::String,
            hstore: HstoreHandling::Map,
            money_fraction_digits: 3,
            include_unknown: true,
        }
    );
}

#[test]
fn the_routers_own_options_reach_it() {
    let (_folder, given) = connector(
        "transforms.outbox.table.fields.additional.placement=type:header:eventType, seq:envelope,p:partition\n\
         transforms.outbox.table.field.event.schema.version=version\n\
         transforms.outbox.table.json.payload.null.behavior=optional_bytes\n\
         transforms.outbox.table.json.payload.empty.array.behavior=optional_string\n\
         transforms.outbox.route.tombstone.on.empty.payload=true",
    );
    let router = given.config().router;
    let placed = |field: &str, target| Placement {
        field: field.to_owned(),
        target,
    };
    assert_eq!(
        router.placements,
        [
            Placement::header("type", "eventType"),
            placed("seq", PlacementTarget::Envelope("seq".to_owned())),
            placed("p", PlacementTarget::Partition),
        ]
    );
    assert_eq!(router.schema_version_field.as_deref(), Some("version"));
    assert_eq!(router.json_nulls, JsonNulls::Keep);
    assert_eq!(router.json_empty_arrays, JsonEmptyArrays::Keep);
    assert!(router.tombstone_on_empty);
    assert_eq!(router.topic_prefix, "shop");
}

#[test]
fn the_context_of_a_run_is_told_where_that_is_asked_for() {
    let ids: Vec<_> = (0..2)
        .map(|_| {
            let (_folder, given) = connector("extended.headers.enabled=true");
            given.config().router.context.unwrap().run_id
        })
        .collect();
    assert_ne!(ids[0], ids[1]);
    assert!(
        ids.iter()
            .all(|id| id.len() == 36 && id.as_bytes()[14] == b'4'),
        "{ids:?}"
    );
    let (_folder, given) = connector("");
    assert_eq!(given.config().router.context, None);
}

#[test]
fn lists_of_columns_reach_the_router_one_at_a_time() {
    let (_folder, given) = connector("column.exclude.list=public.outbox.seq");
    let wanted = ColumnFilter::excluding("public.outbox.seq").unwrap();
    assert_eq!(
        format!("{:?}", given.config().router.columns),
        format!("{wanted:?}")
    );
    assert_eq!(
        faults("column.exclude.list=a\ncolumn.include.list=b"),
        "column.exclude.list: cannot be set together with column.include.list"
    );
    assert!(
        faults("column.include.list=a(")
            .starts_with("column.include.list: \"a(\" is not a regular expression")
    );
}

#[test]
fn what_changes_schemas_only_is_refused_where_they_are_written() {
    let setting = "schema.name.adjustment.mode=avro";
    assert_eq!(
        faults(setting),
        "schema.name.adjustment.mode: is not supported where a converter writes schemas"
    );
    let lines = format!("key.converter={STRING}\nvalue.converter={STRING}\n{setting}");
    let (_folder, given) = connector(&lines);
    let wanted = "schema.name.adjustment.mode: has no effect: no converter writes schemas";
    assert!(
        notes(&given.config())
            .iter()
            .any(|note| note.ends_with(wanted))
    );
}

#[test]
fn what_would_change_the_values_of_events_is_refused() {
    for property in ["column.mask.with.5.chars", "column.truncate.to.20.chars"] {
        assert_eq!(
            faults(&format!("{property}=public.outbox.payload")),
            format!("{property}: is not supported: it would change the values of events")
        );
    }
}

#[test]
fn what_has_no_effect_in_a_file_is_noted_at_its_place() {
    let (_folder, given) = connector(
        "transforms.outbox.table.field.event.key=\n\
         skipped.operations=none\n\
         snapshot.select.statement.overrides=public.orders\n\
         snapshot.select.statement.overrides.public.orders=SELECT 1",
    );
    let config = given.config();
    assert_eq!(config.router.key_field, "aggregateid");
    for note in [
        "transforms.outbox.table.field.event.key: is empty: as if it were not set",
        "skipped.operations: a TRUNCATE publishes nothing and stops nothing all the same",
        "snapshot.select.statement.overrides.public.orders: \"public.orders\" is no outbox table: \
         table.include.list=public.outbox is",
    ] {
        let notes = notes(&config);
        assert!(
            notes.iter().any(|found| found.ends_with(note)),
            "{note}: {notes:#?}"
        );
    }
}
