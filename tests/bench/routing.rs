//! What it costs to route and render one event, beside copying it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use outboxd::lsn::Lsn;
use outboxd::outbox::{CatalogColumn, Change, Operation, TypeCatalog};
use outboxd::pgoutput::{Column, Datum, Relation, ReplicaIdentity, Tuple};
use outboxd::router::{Converter, EventRouter, Options, Routed};
use outboxd::timestamp::Timestamp;

const EVENTS: u32 = 300_000;

const COLUMNS: [(&str, u32); 6] = [
    ("id", 2950),
    ("aggregatetype", 25),
    ("aggregateid", 25),
    ("seq", 20),
    ("type", 25),
    ("payload", 3802),
];

/// About 300 bytes, as an order's event is: objects, an array, numbers, text.
const PAYLOAD: &str = r#"{"orderId": "ORD-221", "status": "shipped", "customer": {"id": 4711, "name": "A. Customer", "vip": false}, "lines": [{"sku": "A-1", "count": 2, "price": 12.5}, {"sku": "B-7", "count": 1, "price": 99.99}], "note": "left at the door of the neighbour on the second floor, second bell from above"}"#;

pub(crate) fn measure() {
    let floor = nanoseconds(|| {
        black_box(black_box(PAYLOAD.as_bytes()).to_vec());
    });
    println!(
        "| copying a payload of {} bytes | {floor:.0} ns |",
        PAYLOAD.len()
    );
    let plain = Options::default();
    let expanded = Options {
        expand_json: true,
        ..Options::debezium()
    };
    let mut with_json = expanded;
    with_json.converters.value = Converter::JSON;
    for (what, options) in [
        ("routed and rendered, payload as it is", plain),
        (
            "routed and rendered, payload expanded and written by the JsonConverter",
            with_json,
        ),
    ] {
        let cost = route(options);
        println!(
            "| {what} | {cost:.0} ns, {:.0} times the copy |",
            cost / floor
        );
    }
}

fn route(options: Options) -> f64 {
    let relation = Arc::new(Relation {
        oid: 20_000,
        namespace: "public".to_owned(),
        name: "outbox".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: COLUMNS
            .into_iter()
            .map(|(name, type_oid)| Column {
                name: name.to_owned(),
                type_oid,
                type_modifier: -1,
                is_key: name == "id",
            })
            .collect(),
    });
    let mut catalog = TypeCatalog::default();
    for (name, _) in COLUMNS {
        catalog.add_column(relation.oid, name, CatalogColumn::default());
    }
    let mut router = EventRouter::new(options);
    router.learn_types(catalog);
    let row = Tuple {
        datums: [
            "6b86b273-ff34-4ce1-9d6b-804eff5a3f57",
            "order",
            "ORD-221",
            "3",
            "OrderShipped",
            PAYLOAD,
        ]
        .into_iter()
        .map(|text| Datum::Text(text.as_bytes()))
        .collect(),
    };
    nanoseconds(|| {
        let routed = router.route(&Change {
            operation: Operation::Insert,
            relation: &relation,
            new: Some(&row),
            commit_time: Timestamp::from_unix_ms(1_700_000_000_123),
            commit_lsn: Lsn::new(1),
        });
        assert!(matches!(black_box(routed), Ok(Routed::Publish { .. })));
    })
}

/// Of one call, over many.
fn nanoseconds(mut work: impl FnMut()) -> f64 {
    for _ in 0..EVENTS / 10 {
        work();
    }
    let began = Instant::now();
    for _ in 0..EVENTS {
        work();
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(EVENTS)
}
