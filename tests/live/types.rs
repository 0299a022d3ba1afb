//! Random rows of random types: a snapshot and the stream give the same record for the same row.
//!
//! `OUTBOXD_TYPES_SEED=7 cargo test --test live snapshot_and_stream` runs one seed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::support::{Postgres, Version};

const ROUNDS: u64 = 8;
const ROWS: usize = 40;

/// A column's type, and expressions that give values of it. `{r}` is a random number below 1e9.
const TYPES: &[(&str, &[&str])] = &[
    ("smallint", &["{r} % 32768", "-32768"]),
    ("integer", &["{r}", "-2147483648", "2147483647"]),
    (
        "bigint",
        &["{r}::bigint * 1000000007", "-9223372036854775808"],
    ),
    (
        "numeric",
        &["{r} / 7.0", "1e30", "0.000000001", "'NaN'", "-{r}"],
    ),
    ("numeric(12,2)", &["{r} / 100.0", "-0.01", "0"]),
    (
        "real",
        &["{r} / 3.0", "'NaN'", "'Infinity'", "1e-30", "-0.0"],
    ),
    (
        "double precision",
        &["{r} / 7.0", "'-Infinity'", "1e300", "1e22", "0.1"],
    ),
    ("boolean", &["{r} % 2 = 0"]),
    (
        "text",
        &["'é \u{1f600} ' || {r}", "''", "E'line\\nbreak \\\\ \"'"],
    ),
    ("varchar(20)", &["'v' || {r}"]),
    ("char(12)", &["'c' || {r}"]),
    (
        "date",
        &[
            "date '1970-01-01' + ({r} % 40000)",
            "'0001-01-01'",
            "'9999-12-31'",
            "'1582-10-10'",
        ],
    ),
    (
        "timestamp",
        &[
            "timestamp '1970-01-01' + {r} * interval '1.234567 s'",
            "'1969-12-31 23:59:59.999999'",
        ],
    ),
    (
        "timestamp(3)",
        &["timestamp '2000-01-01' + {r} * interval '1 ms'"],
    ),
    (
        "timestamptz",
        &[
            "timestamptz '2001-02-03 04:05:06+07' + {r} * interval '1 s'",
            "'1900-01-01 00:00:00.5+00'",
        ],
    ),
    (
        "time",
        &["time '00:00' + {r} * interval '0.1 s'", "'23:59:59.999999'"],
    ),
    ("timetz", &["'12:34:56.7+09'"]),
    (
        "interval",
        &[
            "{r} * interval '1 s'",
            "'1 year -2 months 3 days -04:05:06.5'",
        ],
    ),
    ("uuid", &["md5({r}::text)::uuid"]),
    ("bytea", &["decode(md5({r}::text), 'hex')", "''"]),
    (
        "json",
        &[
            "json_build_object('n', {r}, 'a', json_build_array(1, null))",
            "'{\"b\":  1}'",
        ],
    ),
    (
        "jsonb",
        &[
            "jsonb_build_object('n', {r})",
            "'[]'",
            "'\"text\"'",
            "'1.50'",
        ],
    ),
    ("text[]", &["array['a', null, 'b \"c\" ' || {r}]", "'{}'"]),
    ("integer[]", &["array[{r}, null, -1]"]),
    ("mood", &["(array['sad','happy'])[1 + {r} % 2]::mood"]),
    ("positive", &["1 + {r}"]),
    ("money", &["({r} / 100.0)::numeric::money", "'-1.5'"]),
    ("inet", &["'10.0.0.1/8'", "'::1'"]),
    ("macaddr", &["'08:00:2b:01:02:03'"]),
    ("bit(1)", &["'1'"]),
    ("bit(11)", &["({r} % 2048)::bit(11)"]),
    ("varbit(9)", &["'101'"]),
    ("point", &["point({r} / 3.0, -1)"]),
    (
        "int4range",
        &["int4range({r} % 100, {r} % 100 + 5)", "'empty'"],
    ),
    ("xml", &["'<a/>'"]),
    ("oid", &["{r}"]),
];

/// Defaults matter where a value is null.
const COLUMN_DEFAULTS: &[(&str, &str)] = &[
    ("integer", " DEFAULT 7"),
    ("text", " DEFAULT 'none'"),
    ("boolean", " NOT NULL DEFAULT true"),
    ("numeric(12,2)", " DEFAULT 1.5"),
];

struct Schema {
    columns: Vec<(String, &'static str, &'static [&'static str])>,
}

impl Schema {
    fn random(random: &mut StdRng) -> Self {
        let count = random.random_range(4..14);
        let columns = (0..count)
            .map(|index| {
                let (kind, values) = TYPES.choose(random).unwrap();
                (format!("c{index}"), *kind, *values)
            })
            .collect();
        Self { columns }
    }

    fn create(&self, random: &mut StdRng) -> String {
        let columns: String = self
            .columns
            .iter()
            .map(|(name, kind, _)| {
                let default = COLUMN_DEFAULTS.iter().find(|(of, _)| of == kind);
                let default = default.filter(|_| random.random_bool(0.5));
                format!(", {name} {kind}{}", default.map_or("", |(_, sql)| sql))
            })
            .collect();
        format!(
            "DROP TABLE IF EXISTS outbox;
             CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text,
                                  type text, payload jsonb{columns})"
        )
    }

    fn insert(&self, random: &mut StdRng) -> String {
        let mut names = String::from("id, aggregatetype, aggregateid, type, payload");
        let number = random.random_range(0..1_000_000_000);
        let mut values = format!(
            "gen_random_uuid(), 'order', 'k' || {number}, 'T', jsonb_build_object('n', {number})"
        );
        for (name, kind, choices) in &self.columns {
            // A column that is left out has its default; one that is null has not.
            match random.random_range(0..8) {
                0 => continue,
                1 if *kind != "boolean" => values += ", NULL",
                _ => {
                    let value = choices.choose(random).unwrap();
                    let number = random.random_range(0..1_000_000_000).to_string();
                    values += &format!(", ({})", value.replace("{r}", &number));
                }
            }
            names += &format!(", {name}");
        }
        format!("INSERT INTO outbox ({names}) VALUES ({values})")
    }

    fn connector(&self, random: &mut StdRng) -> Value {
        let placement: Vec<String> = self
            .columns
            .iter()
            .map(|(name, _, _)| {
                format!("{name}:{}", ["envelope", "header"].choose(random).unwrap())
            })
            .collect();
        let mut pick = |values: &[&str]| values.choose(random).copied().unwrap().to_owned();
        json!({
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "topic.prefix": "shop",
            "table.include.list": "public.outbox",
            "snapshot.mode": "initial",
            "time.precision.mode": pick(&["adaptive", "adaptive_time_microseconds", "connect", "microseconds", "nanoseconds", "isostring"]),
            "decimal.handling.mode": pick(&["precise", "double", "string"]),
            "binary.handling.mode": pick(&["bytes", "base64", "hex", "base64-url-safe"]),
            "interval.handling.mode": pick(&["numeric", "string"]),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": pick(&["true", "false"]),
            "transforms": "outbox",
            "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.table.expand.json.payload": pick(&["true", "false"]),
            "transforms.outbox.table.fields.additional.placement": placement.join(","),
        })
    }
}

/// What `run --sink stdout --until current` printed, by event id, without the time.
fn records(postgres: &Postgres, connector: &Path) -> BTreeMap<String, Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .args([
            "run",
            "--sink",
            "stdout",
            "--until",
            "current",
            "--connector",
        ])
        .arg(connector)
        .arg(format!("--set=postgres.url={}", postgres.url()))
        .args([
            "--set=slot.name=types",
            "--set=publication.name=types",
            "--set=http.listen=",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        record.as_object_mut().unwrap().remove("timestamp_ms");
        let id = record["headers"][0][1].as_str().unwrap().to_owned();
        (id, record)
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_and_stream_give_the_same_record_for_the_same_row() {
    let seeds: Vec<u64> = match std::env::var("OUTBOXD_TYPES_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=ROUNDS).collect(),
    };
    let postgres = Postgres::start(Version::V18, &[]);
    let client = postgres.client().await;
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN positive AS integer CHECK (value > 0)",
        )
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    for seed in seeds {
        let mut random = StdRng::seed_from_u64(seed);
        let schema = Schema::random(&mut random);
        client
            .batch_execute(&schema.create(&mut random))
            .await
            .unwrap();
        for _ in 0..ROWS {
            let insert = schema.insert(&mut random);
            client
                .batch_execute(&insert)
                .await
                .unwrap_or_else(|error| panic!("seed {seed}: {insert}: {error:?}"));
        }
        let connector = folder.path().join("connector.json");
        std::fs::write(&connector, schema.connector(&mut random).to_string()).unwrap();

        let from_snapshot = records(&postgres, &connector);
        client
            .batch_execute(
                "CREATE TEMPORARY TABLE kept AS TABLE outbox;
                 DELETE FROM outbox; INSERT INTO outbox TABLE kept; DROP TABLE kept",
            )
            .await
            .unwrap();
        let from_stream = records(&postgres, &connector);
        assert_eq!(from_snapshot.len(), ROWS, "seed {seed}");
        for (id, snapshot) in &from_snapshot {
            assert_eq!(
                from_stream.get(id),
                Some(snapshot),
                "seed {seed}, right the snapshot: {}",
                schema.connector(&mut StdRng::seed_from_u64(seed))
            );
        }
        client
            .batch_execute("SELECT pg_drop_replication_slot('types'); DROP PUBLICATION types")
            .await
            .unwrap();
    }
}
