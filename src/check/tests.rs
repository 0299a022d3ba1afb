use super::columns::UsedColumn;
use super::report::Show;
use super::*;
use crate::config::{Sources, load};
use crate::router::{ColumnRole, ConnectType};

pub(super) fn config(settings: &[&str]) -> Config {
    let base = ["postgres.user=relay", "kafka.bootstrap.servers=k:9092"];
    let sources = Sources {
        set: base
            .iter()
            .chain(settings)
            .map(|set| (*set).to_owned())
            .collect(),
        needs_kafka: true,
        ..Sources::default()
    };
    load(&sources, std::iter::empty()).unwrap_or_else(|error| panic!("{error}"))
}

fn met_by(settings: &[&str]) -> Vec<&'static str> {
    let config = config(settings);
    let met = Met {
        config: &config,
        tables: None,
        used: &[],
        has_publication: false,
    };
    differences::met(&met)
        .iter()
        .map(|difference| difference.name)
        .collect()
}

#[test]
fn a_configuration_meets_the_differences_that_concern_it() {
    let everywhere = met_by(&[]);
    for (setting, more) in [
        (
            "outbox.expand_json=true",
            &[
                "expanded payload that stops the task",
                "order of fields in arrays of objects",
                "values in arrays of arrays",
            ][..],
        ),
        ("outbox.value_format=json_with_schemas", &[]),
        ("types.time=isostring", &[]),
    ] {
        let mut met = met_by(&[setting]);
        met.retain(|name| !everywhere.contains(name));
        assert_eq!(met, more, "{setting}");
    }
    let with_timestamp = met_by(&["outbox.timestamp=created_at", "types.time=isostring"]);
    assert!(everywhere.contains(&"commit time") && !with_timestamp.contains(&"commit time"));
    assert!(with_timestamp.contains(&"event timestamp from other columns"));
}

#[test]
fn a_line_says_who_chose_a_converter() {
    let config = config(&["outbox.key_format=string", "outbox.value_format=json"]);
    let found: Vec<String> = converters::checks(&config, &[])
        .into_iter()
        .map(|check| format!("{}: {}", check.name, check.found))
        .collect();
    assert_eq!(
        found,
        [
            "key: StringConverter: the text of the column (--set outbox.key_format)",
            "value: JsonConverter without schemas: the column as a JSON value (--set outbox.value_format)",
            "headers: raw: the text of the column as it is (outbox.header_format is not set)",
        ]
    );
}

#[test]
fn a_report_shows_what_somebody_set_and_secrets_never() {
    let config = config(&["slot.name=orders", "postgres.password=hunter2"]);
    let mut report = Report::new(&config);
    report.sections.push(Section {
        title: "Kafka",
        checks: vec![Check::error("brokers", "none answers", "Start one.").sql("SELECT 1;")],
    });
    let text = report.text(Show::default());
    assert_eq!(
        text,
        "Kafka\n  \
         error    brokers: none answers\n           \
         HINT  Start one.\n           \
         SQL   SELECT 1;\n\
         \n\
         Differences from Debezium that this configuration meets\n\
         \n\
         Settings (--all shows the defaults too)\n  \
         kafka.bootstrap.servers = k:9092  (--set)\n  \
         postgres.password = ***  (--set)\n  \
         postgres.user = relay  (--set)\n  \
         slot.name = orders  (--set)\n"
    );
    let all = report.text(Show {
        all: true,
        ..Show::default()
    });
    assert!(all.contains("  outbox.id = id  (default)\n"), "{all}");
    let json = report.json(Show::default());
    assert_eq!(json["outcome"], "error");
    assert_eq!(
        json["checks"][0],
        serde_json::json!({
            "section": "Kafka", "name": "brokers", "outcome": "error", "found": "none answers",
            "remedy": "Start one.", "sql": "SELECT 1;", "command": null,
        })
    );
}

fn used(role: ColumnRole, sql_type: &str, logical: &str, is_array: bool) -> UsedColumn {
    let item = ConnectType {
        kind: "string",
        logical: Some(logical.to_owned()),
        items: None,
    };
    let array = |items| ConnectType {
        kind: "array",
        logical: None,
        items: Some(Box::new(items)),
    };
    UsedColumn {
        name: "column".to_owned(),
        role,
        sql_type: sql_type.to_owned(),
        connect_type: if is_array { array(item) } else { item },
    }
}

#[test]
fn types_of_columns_are_met_where_a_converter_reads_them() {
    let header = || ColumnRole::Header("column".to_owned());
    let simple = config(&["outbox.header_format=simple"]);
    let raw = config(&[]);
    for (column, name) in [
        (
            used(header(), "mood[]", "io.debezium.data.Enum", true),
            "NULL inside an array of an enum",
        ),
        (
            used(header(), "date[]", "io.debezium.time.Date", true),
            "times before 1582-10-15 inside arrays",
        ),
        (
            used(header(), "bit(5)", "io.debezium.data.Bits", false),
            "numerics, bits and points through StringConverter",
        ),
    ] {
        for (config, is_met) in [(&simple, true), (&raw, false)] {
            let met = differences::met(&Met {
                config,
                tables: None,
                used: std::slice::from_ref(&column),
                has_publication: true,
            });
            let found = met.iter().any(|difference| difference.name == name);
            assert_eq!(found, is_met, "{name}");
        }
    }
}

fn connector(lines: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("connector.properties");
    let text = format!(
        "connector.class=io.debezium.connector.postgresql.PostgresConnector\n\
         database.hostname=db\ndatabase.user=relay\nplugin.name=pgoutput\n\
         topic.prefix=shop\ntable.include.list=public.outbox\ntransforms=events\n\
         transforms.events.type=io.debezium.transforms.outbox.EventRouter\n{lines}"
    );
    std::fs::write(&path, text).unwrap();
    let sources = Sources {
        connector: Some(path),
        ..Sources::default()
    };
    load(&sources, std::iter::empty()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_a_connectors_file_says_is_met_and_named_in_its_own_words() {
    let config = connector(
        "errors.tolerance=all\nskipped.operations=none\ntransforms.events.table.field.event.key=\n\
         transforms.events.table.fields.additional.placement=seq:header",
    );
    let met = differences::met(&Met {
        config: &config,
        tables: None,
        used: &[],
        has_publication: true,
    });
    let names: Vec<_> = met.iter().map(|difference| difference.name).collect();
    assert_eq!(
        names,
        [
            "commit time",
            "context headers",
            "empty name of a column",
            "errors.tolerance=all",
            "logical messages",
            "slot of an idle outbox",
            "truncates",
            "update of a primary key",
        ]
    );
    let options: Vec<String> = columns::wanted(&config)
        .into_iter()
        .map(|column| format!("{}: {}", column.name, column.option))
        .collect();
    assert_eq!(
        options,
        [
            "payload: transforms.events.table.field.event.payload",
            "id: transforms.events.table.field.event.id",
            "seq: transforms.events.table.fields.additional.placement",
            "aggregateid: transforms.events.table.field.event.key",
            "aggregatetype: transforms.events.route.by.field",
        ]
    );
}

#[test]
fn a_topic_that_the_relay_keeps_for_itself_is_not_for_events() {
    use super::topics::{Purpose, of_another};
    let config = config(&[
        "errors.on_blocked=dead-letter",
        "errors.dead_letter.topic=dead",
    ]);
    let found = |topic: &str, purpose| {
        let check = of_another(&config, topic, purpose)?;
        Some((check.found, check.remedy.unwrap_or_default()))
    };
    let (told, remedy) = found("outboxd.positions", Purpose::Events).unwrap();
    assert_eq!(
        told,
        "\"outboxd.positions\" is the position journal's topic: it is not for events"
    );
    assert!(!remedy.contains("cleanup.policy"), "{remedy}");
    let (told, _) = found("dead", Purpose::Events).unwrap();
    assert_eq!(
        told,
        "\"dead\" is the dead-letter topic: it is not for events"
    );
    for (topic, purpose) in [
        ("outboxd.positions", Purpose::Journal),
        ("dead", Purpose::DeadLetters),
        ("outbox.event.order", Purpose::Events),
    ] {
        assert_eq!(found(topic, purpose), None, "{topic}");
    }
}
