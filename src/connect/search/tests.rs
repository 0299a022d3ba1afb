use super::*;

const TIME: Timestamp = Timestamp::from_postgres_us(1_000);

fn search(place: Place, committed: Option<u64>) -> Search {
    let delivered = Delivered {
        place,
        xid: 7,
        commit_time: TIME,
        committed: committed.map(Lsn::new),
    };
    Search::new(delivered, Lsn::new(1_000))
}

fn at_row(lsn: u64) -> Place {
    Place::Row { lsn: Lsn::new(lsn) }
}

fn begin(xid: u32, final_lsn: u64) -> Begin {
    Begin {
        final_lsn: Lsn::new(final_lsn),
        commit_time: TIME,
        xid,
    }
}

/// Whether each of the rows is delivered, by position.
fn rows(search: &mut Search, positions: &[u64]) -> Vec<(u64, bool)> {
    let mut seen = Vec::new();
    for at in positions {
        let over = search.passed().is_some();
        let delivered = !over && search.row(Lsn::new(*at), true) == Ok(Taken::Delivered);
        seen.push((*at, delivered));
    }
    seen
}

#[test]
fn rows_up_to_the_connectors_are_passed_over_and_all_behind_it_are_published() {
    let mut search = search(at_row(220), Some(200));
    search.begin(&begin(5, 190)).unwrap();
    assert_eq!(rows(&mut search, &[90, 120]), [(90, true), (120, true)]);
    search.commit(Lsn::new(200)).unwrap();
    assert_eq!(search.passed(), None);
    search.begin(&begin(7, 290)).unwrap();
    let expected = [(210, true), (220, true), (230, false), (240, false)];
    assert_eq!(rows(&mut search, &[210, 220, 230, 240]), expected);
    let passed = Passed {
        whose: Whose::Connector,
        rows: 4,
        commit_lsn: Lsn::new(290),
    };
    assert_eq!(search.passed(), Some(passed));
}

#[test]
fn of_rows_at_one_position_only_the_first_counts_as_delivered() {
    let mut search = search(at_row(220), Some(200));
    search.begin(&begin(7, 290)).unwrap();
    let expected = [(210, true), (220, true), (220, false), (220, false)];
    assert_eq!(rows(&mut search, &[210, 220, 220, 220]), expected);
}

#[test]
fn a_row_that_the_stream_does_not_have_ends_the_search_at_the_next_one() {
    let mut search = search(at_row(220), Some(200));
    search.begin(&begin(7, 290)).unwrap();
    assert_eq!(rows(&mut search, &[210, 225]), [(210, true), (225, false)]);
    assert!(search.passed().is_some());
}

/// After a restart of the server: the last transaction of ours that it had been told of.
fn own(xid: u32, end: u64) -> Search {
    Search::after(Lsn::new(end), xid, TIME)
}

#[test]
fn our_own_last_transaction_ends_the_search_at_its_commit_however_old_what_is_before_it() {
    let mut search = own(7, 300);
    search
        .begin(&Begin {
            commit_time: Timestamp::from_postgres_us(-3_600_000_000),
            ..begin(5, 190)
        })
        .unwrap();
    assert_eq!(search.row(Lsn::new(120), true), Ok(Taken::Delivered));
    search.commit(Lsn::new(200)).unwrap();
    search.idle_at(Lsn::new(250)).unwrap();
    search.begin(&begin(7, 290)).unwrap();
    assert_eq!(rows(&mut search, &[210, 220]), [(210, true), (220, true)]);
    search.commit(Lsn::new(300)).unwrap();
    let passed = Passed {
        whose: Whose::Relay,
        rows: 3,
        commit_lsn: Lsn::new(290),
    };
    assert_eq!(search.passed(), Some(passed));
}

#[test]
fn a_history_without_our_own_last_transaction_is_another_one() {
    let mut late = own(7, 300);
    assert!(late.begin(&begin(9, 310)).is_err());
    let mut idle = own(7, 300);
    assert!(idle.idle_at(Lsn::new(300)).is_err());
    let mut other_number = own(7, 300);
    other_number.begin(&begin(9, 290)).unwrap();
    assert!(other_number.commit(Lsn::new(300)).is_err());
    let mut other_time = own(7, 300);
    other_time
        .begin(&Begin {
            commit_time: Timestamp::from_postgres_us(2_000),
            ..begin(7, 290)
        })
        .unwrap();
    assert!(other_time.commit(Lsn::new(300)).is_err());
    let mut other_end = own(7, 300);
    other_end.begin(&begin(7, 280)).unwrap();
    other_end.commit(Lsn::new(290)).unwrap();
    assert_eq!(other_end.passed(), None);
    assert!(other_end.idle_at(Lsn::new(300)).is_err());
}

#[test]
fn a_transaction_that_was_delivered_whole_ends_the_search_at_its_commit() {
    let mut by_row = search(at_row(220), Some(200));
    by_row.begin(&begin(7, 290)).unwrap();
    by_row.row(Lsn::new(210), true).unwrap();
    by_row.commit(Lsn::new(300)).unwrap();
    assert!(by_row.passed().is_some());

    let end = Lsn::new(300);
    let mut by_commit = search(Place::Commit { end }, Some(300));
    by_commit.begin(&begin(5, 190)).unwrap();
    by_commit.commit(Lsn::new(200)).unwrap();
    by_commit.begin(&begin(7, 290)).unwrap();
    assert_eq!(rows(&mut by_commit, &[210]), [(210, true)]);
    by_commit.commit(end).unwrap();
    assert!(by_commit.passed().is_some());
}

#[test]
fn a_begin_delivers_the_transactions_before_it_and_none_of_its_rows() {
    let mut search = search(Place::Begin, Some(200));
    search.begin(&begin(5, 190)).unwrap();
    assert_eq!(rows(&mut search, &[90]), [(90, true)]);
    search.commit(Lsn::new(200)).unwrap();
    search.begin(&begin(7, 290)).unwrap();
    assert!(search.passed().is_some());
}

#[test]
fn another_transaction_where_the_connectors_has_to_be_ends_in_words() {
    let not_found = |found| Err(NotFound::Elsewhere { xid: 7, found });
    let mut after = search(at_row(220), Some(200));
    assert_eq!(after.begin(&begin(8, 290)), not_found(Some(8)));
    // The same number after four thousand million others.
    let mut later = search(at_row(220), Some(200));
    let again = Begin {
        commit_time: Timestamp::from_postgres_us(2_000),
        ..begin(7, 290)
    };
    assert_eq!(later.begin(&again), not_found(Some(7)));
    // The first of its stream.
    let mut first = search(at_row(220), None);
    assert_eq!(first.begin(&begin(5, 90)), not_found(Some(5)));
    let end = Lsn::new(300);
    let mut commit = search(Place::Commit { end }, Some(300));
    commit.begin(&begin(8, 290)).unwrap();
    assert_eq!(commit.commit(end), not_found(None));
    let text = NotFound::Elsewhere {
        xid: 7,
        found: Some(8),
    }
    .to_string();
    assert_eq!(text, "transaction 7 has to be there, and transaction 8 is");
}

#[test]
fn a_stream_that_has_nothing_more_ends_the_search() {
    let mut search = search(at_row(220), Some(200));
    assert_eq!(search.idle_at(Lsn::new(999)), Ok(()));
    let gone = NotFound::Elsewhere {
        xid: 7,
        found: None,
    };
    assert_eq!(search.idle_at(Lsn::new(1_000)), Err(gone));
}

#[test]
fn an_event_that_is_much_older_than_the_offset_is_not_passed_over() {
    const MINUTE_US: i64 = 60_000_000;
    let at = |minutes| Timestamp::from_postgres_us(minutes * MINUTE_US);
    let delivered = Delivered {
        place: at_row(220),
        xid: 7,
        commit_time: at(60),
        committed: Some(Lsn::new(200)),
    };
    let committed_at = |minutes, xid| Begin {
        commit_time: at(minutes),
        ..begin(xid, 190)
    };
    let mut search = Search::new(delivered, Lsn::new(1_000));
    // Of another table, or a deletion.
    search.begin(&committed_at(1, 3)).unwrap();
    let row = Lsn::new(100);
    assert_eq!(search.row(row, false), Ok(Taken::Delivered));
    search.begin(&committed_at(45, 4)).unwrap();
    assert_eq!(search.row(row, true), Ok(Taken::Delivered));
    search.begin(&committed_at(44, 5)).unwrap();
    let too_old = NotFound::TooOld {
        xid: 7,
        passed: 5,
        older_by: Duration::from_secs(16 * 60),
    };
    assert_eq!(search.row(row, true), Err(too_old));
    assert_eq!(search.passed(), None);
}
