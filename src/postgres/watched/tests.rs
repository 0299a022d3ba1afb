use super::*;
use crate::pgoutput::ReplicaIdentity;

fn table(oid: u32, partitions: Option<Vec<Partition>>) -> OutboxTable {
    OutboxTable {
        oid,
        schema: "app".into(),
        name: "outbox".into(),
        replica_identity: ReplicaIdentity::Default,
        columns: Vec::new(),
        partitions,
        row_security: false,
        estimated_rows: None,
    }
}

fn published(oid: u32) -> PublishedTable {
    PublishedTable {
        oid,
        schema: "app".into(),
        name: format!("t{oid}"),
        row_filter: None,
        columns: None,
    }
}

fn publication(listed: &[u32]) -> Publication {
    Publication {
        oid: 100,
        name: "pub".parse().unwrap(),
        owner: "app".into(),
        all_tables: false,
        inserts: true,
        updates: true,
        deletes: false,
        truncates: false,
        via_partition_root: true,
        listed: listed.to_vec(),
        listings: listed.iter().map(|oid| oid + 1000).collect(),
        schemas: Vec::new(),
        published: listed.iter().copied().map(published).collect(),
    }
}

fn watched(publication: Publication) -> Watched {
    Watched {
        slot: "slot".into(),
        options: PublicationOptions::new("pub".parse().unwrap()),
        tables: vec![table(1, None)],
        publication,
    }
}

fn now(named: Option<u32>, name: Option<&str>) -> TableNow {
    TableNow {
        schema_and_name: name.map(|name| ("app".to_owned(), name.to_owned())),
        named,
        leaves: Vec::new(),
    }
}

/// What the table's state and the publication's make of a look, in words.
fn seen(after: &Publication, now: TableNow) -> Result<Vec<String>, String> {
    match watched(publication(&[1])).compare(after, &[now]) {
        Ok(remarks) => Ok(remarks.iter().map(ToString::to_string).collect()),
        Err(error) => {
            assert!(error.hides_rows());
            let detail = error.detail().unwrap_or_default();
            Err(format!("{error}. {detail}").trim().to_owned())
        }
    }
}

fn unchanged() -> TableNow {
    now(Some(1), Some("outbox"))
}

fn change(change: impl FnOnce(&mut Publication)) -> Publication {
    let mut publication = publication(&[1]);
    change(&mut publication);
    publication
}

#[test]
fn what_is_as_it_was_needs_no_word() {
    assert_eq!(seen(&publication(&[1]), unchanged()), Ok(Vec::new()));
    assert_eq!(seen(&publication(&[1, 2]), unchanged()), Ok(Vec::new()));
}

#[test]
fn rows_that_flow_nowhere_are_told_with_what_became_of_their_table() {
    let without = "table \"app.outbox\" is not in publication \"pub\".";
    let cases = [
        (publication(&[2]), unchanged(), without),
        (
            change(|publication| publication.inserts = false),
            unchanged(),
            "publication \"pub\" does not publish inserts.",
        ),
        (
            publication(&[1]),
            now(Some(9), Some("outbox_old")),
            "table \"app.outbox\" is not in publication \"pub\". The table that was streamed under this name is \"app.outbox_old\" now, and this one is another.",
        ),
        (
            publication(&[]),
            now(Some(9), None),
            "table \"app.outbox\" is not in publication \"pub\". The table that was streamed under this name was dropped, and this one is another.",
        ),
        (
            publication(&[]),
            now(None, None),
            "no table matches \"app.outbox\".",
        ),
        (
            publication(&[]),
            now(None, Some("elsewhere")),
            "table \"app.elsewhere\" is not in publication \"pub\".",
        ),
    ];
    for (after, now, expected) in cases {
        assert_eq!(seen(&after, now), Err(expected.to_owned()));
    }
}

#[test]
fn a_table_in_place_of_another_is_fine_where_the_publication_has_it() {
    let all = change(|publication| publication.all_tables = true);
    assert_eq!(seen(&all, now(Some(9), Some("outbox_old"))), Ok(Vec::new()));
    assert_eq!(seen(&publication(&[9]), now(Some(9), None)), Ok(Vec::new()));
}

#[test]
fn what_takes_no_row_away_for_sure_is_remarked() {
    let words = |after: &Publication, now| seen(after, now).unwrap().join("; ");
    let filtered =
        change(|publication| publication.published[0].row_filter = Some("(seq > 1)".into()));
    assert_eq!(
        words(&filtered, unchanged()),
        "the publication sends only some rows of \"app.outbox\" now: (seq > 1)"
    );
    let narrowed = change(|publication| publication.published[0].columns = Some(vec!["id".into()]));
    assert_eq!(
        words(&narrowed, unchanged()),
        "the publication sends only some columns of \"app.outbox\" now: id"
    );
    assert_eq!(
        words(&publication(&[1]), now(None, Some("outbox_old"))),
        "table \"app.outbox\" is called \"app.outbox_old\" now; its rows still come"
    );
    let again = change(|publication| publication.listings = vec![5]);
    assert_eq!(
        words(&again, unchanged()),
        "table \"app.outbox\" was taken out of the publication and is in it again"
    );
    let remade = change(|publication| (publication.oid, publication.listings) = (101, vec![5]));
    assert_eq!(words(&remade, unchanged()), "");
}

#[test]
fn between_two_streams_only_tables_that_are_the_same_are_compared() {
    let (earlier, mut later) = (watched(publication(&[1])), watched(publication(&[1])));
    later.publication.listings = vec![5];
    let again = Remark::ListedAgain {
        table: "app.outbox".into(),
    };
    assert_eq!(later.since(&earlier), [again]);
    later.tables[0].oid = 2;
    assert_eq!(later.since(&earlier), []);
}

#[test]
fn partitions_are_those_of_now() {
    let leaf = |oid| Partition {
        oid,
        schema: "app".into(),
        name: format!("p{oid}"),
    };
    let mut watched = watched(publication(&[2, 3]));
    watched.tables = vec![table(1, Some(vec![leaf(2), leaf(3)]))];
    let mut seen = |listed: &[u32], leaves: &[u32]| {
        let now = TableNow {
            leaves: leaves.iter().copied().map(leaf).collect(),
            ..unchanged()
        };
        let found = watched.compare(&publication(listed), &[now]);
        found.map_err(|error| error.to_string())
    };
    assert_eq!(seen(&[3], &[3]), Ok(Vec::new()), "one was dropped");
    let missing = Err("table \"app.outbox\" is not in publication \"pub\"".to_owned());
    assert_eq!(seen(&[3], &[3, 4]), missing, "one came without an entry");
}
