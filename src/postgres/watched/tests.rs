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
        row_version: "700".into(),
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
        schema_listings: Vec::new(),
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
    let remade =
        change(|publication| (publication.oid, publication.row_version) = (101, "9".into()));
    assert_eq!(words(&remade, unchanged()), "");
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
fn a_publication_that_was_altered_may_have_been_without_inserts_meanwhile() {
    let altered = change(|publication| publication.row_version = "701".into());
    let told = "publication \"pub\" was altered, and may have been without inserts for a while";
    assert_eq!(seen(&altered, unchanged()), Ok(vec![told.to_owned()]));
    let (earlier, later) = (watched(publication(&[1])), watched(altered));
    let remarks = later.since(&earlier);
    assert!(remarks[0].may_have_hidden_rows());
    assert_eq!(remarks.len(), 1);
}

#[test]
fn a_table_is_listed_again_where_none_of_its_entries_was_there_all_the_time() {
    let by_schema = |entry| {
        let mut publication = publication(&[]);
        publication.published = vec![published(1)];
        (publication.schemas, publication.schema_listings) = (vec!["app".into()], vec![entry]);
        publication
    };
    let by_both = |table, schema| {
        let mut publication = publication(&[1]);
        publication.listings = vec![table];
        (publication.schemas, publication.schema_listings) = (vec!["app".into()], vec![schema]);
        publication
    };
    let by_leaves = |listings: [u32; 2]| {
        let mut publication = publication(&[2, 3]);
        publication.listings = listings.to_vec();
        publication
    };
    let whole = table(1, None);
    let parts = ["a", "b"].iter().zip([2, 3]);
    let parts = parts.map(|(name, oid)| Partition {
        oid,
        schema: "app".into(),
        name: (*name).to_owned(),
    });
    let parted = table(1, Some(parts.collect()));
    for (before, after, table, again) in [
        (by_schema(5), by_schema(5), &whole, false),
        (by_schema(5), by_schema(6), &whole, true),
        (by_both(4, 5), by_both(4, 6), &whole, false),
        (by_both(4, 5), by_both(7, 6), &whole, true),
        (publication(&[1]), by_schema(5), &whole, true),
        (by_leaves([4, 5]), by_leaves([4, 5]), &parted, false),
        (by_leaves([4, 5]), by_leaves([4, 6]), &parted, true),
    ] {
        let earlier = Watched {
            tables: vec![table.clone()],
            ..watched(before)
        };
        let found = earlier.listed_again(&after, table).is_some();
        assert_eq!(found, again, "{:?}", (earlier.publication, after));
    }
}

fn born(partition: Partition) -> SeenPartition {
    SeenPartition {
        partition,
        link: "700".into(),
        is_born: true,
    }
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
            leaves: leaves.iter().copied().map(|oid| born(leaf(oid))).collect(),
            ..unchanged()
        };
        let found = watched.compare(&publication(listed), &[now]);
        found.map_err(|error| error.to_string())
    };
    assert_eq!(seen(&[3], &[3]), Ok(Vec::new()), "one was dropped");
    let missing = Err("table \"app.outbox\" is not in publication \"pub\"".to_owned());
    assert_eq!(seen(&[3], &[3, 4]), missing, "one came without an entry");
}
