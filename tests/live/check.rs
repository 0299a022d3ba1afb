//! `outboxd check` against real servers: a good set-up, broken ones, and one beside a relay.

use std::process::Command;

use serde_json::Value;

use crate::support::{Checked, Relay, Scene, Shop, Version};

/// What no test server has, and what this table is meant to be like.
const WARNED: &str = "warning max_slot_wal_keep_size";
const NO_START: &str = "error start: not before the errors above are mended";

fn checked(scene: &Scene, user: &str, settings: &[&str], flags: &[&str]) -> Checked {
    let servers = [scene.postgres.url_of(user), scene.kafka.servers()];
    Checked::by(servers, settings, flags)
}

async fn scene() -> Scene {
    let scene = Scene::open(Version::V18, &[]).await;
    scene
        .client
        .batch_execute(
            "CREATE ROLE relay LOGIN REPLICATION; GRANT SELECT ON outbox TO relay;
             CREATE ROLE poor LOGIN;
             CREATE PUBLICATION outbox FOR TABLE outbox
                 WITH (publish = 'insert, update', publish_via_partition_root = true);
             INSERT INTO outbox VALUES ('7f9c5c1e-0000-4000-8000-000000000001', 'order', 'ORD-1',
                                        1, 'OrderShipped', '{\"note\": \"secret\"}');",
        )
        .await
        .unwrap();
    scene
}

#[tokio::test(flavor = "multi_thread")]
async fn check_shows_a_good_set_up_and_names_what_is_wrong_with_a_bad_one() {
    let scene = scene().await;
    a_good_set_up_shows_a_row_on_the_wire(&scene);
    each_fault_comes_with_its_remedy(&scene);
    without_rows_one_is_made_up(&scene).await;
    beside_a_relay_another_one_would_stand_by(&scene).await;
    a_relay_that_blocks_names_the_key_of_its_own_file(&scene).await;
}

fn a_good_set_up_shows_a_row_on_the_wire(scene: &Scene) {
    let good = checked(scene, "relay", &[], &["--format", "json"]);
    assert_eq!(good.status, 0, "{}", good.text);
    let faults = good.faults();
    assert!(
        matches!(faults.as_slice(), [fault] if fault.starts_with(WARNED)),
        "{faults:#?}"
    );
    assert_eq!(
        good.found("columns"),
        ["ok columns: payload jsonb, id uuid, seq bigint, aggregateid text, aggregatetype text"]
    );
    assert_eq!(
        good.found("value"),
        [
            "ok value: raw: the text of \"payload\" (jsonb) as it is (outbox.value_format is not set)"
        ]
    );
    assert_eq!(
        good.found("topic"),
        ["ok topic: \"outbox.event.order\" has 3 partitions"]
    );
    let sample = &good.report["sample"];
    assert_eq!(sample["topic"], "outbox.event.order");
    assert_eq!(sample["made_up"], Value::Null);
    assert_eq!(sample["key"], serde_json::json!({"bytes": 5}));
    assert_eq!(sample["value"], serde_json::json!({"bytes": 18}));
    assert!(!good.text.contains("secret"), "{}", good.text);

    let shown = checked(scene, "relay", &[], &["--show-payload"]);
    for part in [
        "topic        outbox.event.order",
        "key          ORD-1",
        "header       seq: 1",
        "value        {\"note\": \"secret\"}",
    ] {
        assert!(
            shown.text.contains(part),
            "{part} is missing in\n{}",
            shown.text
        );
    }
}

fn each_fault_comes_with_its_remedy(scene: &Scene) {
    for (user, settings, expected) in [
        (
            "relay",
            &["outbox.route_by=aggregate_type"][..],
            &[
                "error columns: column \"aggregate_type\" of \"public.outbox\" does not exist | Did you mean \"aggregatetype\"? Set outbox.route_by to it.",
            ][..],
        ),
        (
            "relay",
            &[
                "outbox.timestamp=type",
                "outbox.partition=aggregateid",
                "outbox.key_format=long",
            ],
            &[
                "error columns: \"public.outbox\": column \"type\" is not a timestamp; the column's type is text, and outbox.timestamp names it | Use a timestamp, timestamptz or date column, or leave the option out.",
                "error columns: \"public.outbox\": column \"aggregateid\": expected an integer column, found string; the column's type is text, and outbox.partition names it | Use a smallint, integer or bigint column, or leave the option out.",
                "error columns: \"public.outbox\": LongConverter on column \"aggregateid\": expected int64, found string; the column's type is text, and outbox.key names it | Use another converter than LongConverter, or give it a delegate.converter.type.",
            ],
        ),
        (
            "relay",
            &["outbox.columns_exclude=public.outbx.seq"],
            &[
                "warning columns: \"public.outbx.seq\" names no column of the outbox | Write schema.table.column in outbox.columns_exclude, as a regular expression.",
            ],
        ),
        (
            "relay",
            &["outbox.table=public.outbx", "publication.name=other"],
            &[
                "error table: no table matches \"public.outbx\". The database has public.outbox, public.orders. | Name the outbox as schema.table, with the case it has in the catalog, and see that the connection goes to the right database.",
                "error publication: \"other\" does not exist | First the table: the publication is made for \"public.outbx\".",
            ],
        ),
        (
            "relay",
            &["publication.name=other"],
            &[
                "error publication: \"other\" does not exist and role \"relay\" may not create it | Make it as the table's owner or a superuser. | CREATE PUBLICATION \"other\" FOR TABLE \"public\".\"outbox\" WITH (publish = 'insert, update', publish_via_partition_root = true);",
            ],
        ),
        (
            "poor",
            &[],
            &[
                "error role: \"poor\" may not replicate | Give it the right as a superuser. | ALTER ROLE \"poor\" REPLICATION;",
                "error SELECT: role \"poor\" cannot read \"public.outbox\", and a snapshot is wanted | Grant it as the table's owner, or choose the snapshot mode no_data. | GRANT USAGE ON SCHEMA \"public\" TO \"poor\"; GRANT SELECT ON \"public\".\"outbox\" TO \"poor\";",
            ],
        ),
    ] {
        let checked = checked(scene, user, settings, &["--format", "json"]);
        let mut faults = checked.faults();
        faults.retain(|fault| !fault.starts_with(WARNED));
        let mut expected: Vec<&str> = expected.to_vec();
        let is_error = expected.iter().any(|fault| fault.starts_with("error"));
        if is_error {
            expected.push(NO_START);
        }
        assert_eq!(faults, expected, "{settings:?}");
        assert_eq!(checked.status, i32::from(is_error), "{settings:?}");
    }
}

async fn without_rows_one_is_made_up(scene: &Scene) {
    scene
        .client
        .batch_execute("DELETE FROM outbox")
        .await
        .unwrap();
    let checked = checked(scene, "relay", &[], &["--format", "json", "--show-payload"]);
    let sample = &checked.report["sample"];
    assert_eq!(sample["made_up"], "the table holds none");
    assert_eq!(
        sample["key"],
        serde_json::json!({"bytes": 5, "text": "ORD-1"})
    );
    assert_eq!(sample["topic"], "outbox.event.order");
    assert_eq!(checked.found("topic"), Vec::<String>::new());
}

async fn beside_a_relay_another_one_would_stand_by(scene: &Scene) {
    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("streaming").await;
    let beside = checked(scene, "relay", &[], &["--format", "json"]);
    assert_eq!(beside.status, 0, "{}", beside.text);
    let slot = beside.found("slot");
    assert!(
        slot.len() == 1
            && slot[0].starts_with("ok slot: \"outbox\" is read by a relay that runs, process ")
            && !slot[0].contains(" | "),
        "{slot:?}"
    );
    assert_eq!(
        beside.found("start"),
        ["ok start: stands by, and takes over when the relay that runs ends"]
    );
    // The journal moves on while the server is looked at: that is no older server.
    let shop = Shop::open(&scene.postgres, 500, u64::MAX).await;
    for _ in 0..4 {
        let busy = checked(scene, "relay", &[], &["--format", "json"]);
        assert_eq!(busy.status, 0, "{}", busy.text);
        let position = busy.found("position");
        assert!(position[0].starts_with("ok position: "), "{position:?}");
    }
    shop.finish().await;
    let listen = format!("http.listen={}", relay.http_address());
    let (code, said) = status(scene, &listen);
    assert_eq!(code, 0, "{said}");
    for told in [
        "Slot outbox, as the server sees it\n  lead                 process ",
        "\n  WAL status           reserved\n",
        "\nRelay\n  state                streaming since ",
    ] {
        assert!(said.contains(told), "{told} in {said}");
    }
    assert!(relay.stop().success());
    let (code, said) = status(scene, &listen);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("  lead                 nobody has it: no relay runs\n"),
        "{said}"
    );
    assert!(
        said.contains("Relay\n  no answer from 127.0.0.1:"),
        "{said}"
    );
}

/// `outboxd status`: its exit status and what it prints.
fn status(scene: &Scene, listen: &str) -> (i32, String) {
    let url = format!("postgres.url={}", scene.postgres.url_of("relay"));
    let settings = [url.as_str(), "slot.name=outbox", listen];
    let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .arg("status")
        .args(settings.map(|setting| format!("--set={setting}")))
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), said)
}

async fn a_relay_that_blocks_names_the_key_of_its_own_file(scene: &Scene) {
    let settings = [
        "slot.name=other",
        "snapshot.mode=no_data",
        "outbox.key=aggregate_id",
    ];
    let relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
    relay.wait_for_state("streaming").await;
    scene
        .client
        .batch_execute(
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'ORD-1', 1, 'OrderShipped', '{}')",
        )
        .await
        .unwrap();
    relay.wait_for_state("blocked").await;
    let error = &relay.status().unwrap()["error"];
    assert_eq!(
        error["detail"],
        "the table has no column \"aggregate_id\", which outbox.key names"
    );
    assert_eq!(
        error["hint"],
        "Set outbox.key to an existing column, perhaps \"aggregateid\"."
    );
    relay.kill();
}
