use super::super::window;
use super::*;

const ROOM: Room = Room {
    records: 3,
    bytes: 1 << 20,
};

fn seen(id: &str, key: &str, value: &str, offset: i64) -> Seen {
    Seen {
        topic: "t".into(),
        partition: Some(1),
        offset,
        key: Some(key.as_bytes().to_vec()),
        value: Some(value.as_bytes().to_vec()),
        headers: vec![("id".to_owned(), Some(id.as_bytes().to_vec()))],
        timestamp_ms: Some(offset),
    }
}

fn comparison() -> Comparison {
    Comparison::new(false, ROOM)
}

fn kinds(comparison: &Comparison) -> Vec<(Kind, u64)> {
    let all = comparison.differences().iter();
    all.map(|(kind, (count, _))| (*kind, *count)).collect()
}

#[test]
fn equal_records_are_equal_whichever_side_comes_first() {
    let mut both = comparison();
    both.take_ours(seen("1", "a", "x", 0));
    both.take_theirs(seen("1", "a", "x", 7));
    both.take_theirs(seen("2", "a", "y", 8));
    both.take_ours(seen("2", "a", "y", 0));
    both.end(&Window::default());
    assert_eq!((both.compared(), both.tally().equal), (2, 2));
    assert!(both.differences().is_empty());
}

#[test]
fn a_difference_is_told_by_its_place_and_without_the_payload() {
    let mut both = comparison();
    both.take_ours(seen("1", "a", "hunter2", 0));
    both.take_theirs(seen("1", "a", "hunter3", 7));
    assert_eq!(kinds(&both), [(Kind::Value, 1)]);
    let (_, first) = &both.differences()[&Kind::Value];
    assert_eq!(
        first,
        "event 1 at t/1 offset 7: ours has 7 bytes, theirs 7, different from byte 7"
    );
    assert_eq!(both.tally().different, 1);
}

#[test]
fn topic_partition_key_headers_and_timestamp_are_compared() {
    let mut both = Comparison::new(true, ROOM);
    let ours = seen("1", "a", "x", 7);
    let mut theirs = ours.clone();
    theirs.topic = "u".into();
    theirs.partition = Some(2);
    theirs.key = None;
    theirs.headers.push(("more".to_owned(), None));
    theirs.timestamp_ms = Some(8);
    both.take_ours(ours);
    both.take_theirs(theirs);
    let all = [
        Kind::Topic,
        Kind::Partition,
        Kind::Key,
        Kind::Headers,
        Kind::Timestamp,
    ];
    assert_eq!(kinds(&both), all.map(|kind| (kind, 1)));
}

#[test]
fn repeats_of_either_side_are_no_differences() {
    let mut both = comparison();
    for _ in 0..2 {
        both.take_ours(seen("1", "a", "x", 0));
        both.take_theirs(seen("1", "a", "x", 7));
    }
    both.end(&Window::default());
    assert_eq!((both.compared(), both.tally().repeats), (1, 1));
    assert!(both.differences().is_empty());
}

#[test]
fn events_of_a_key_in_another_order_are_found_and_those_of_two_keys_are_not() {
    let mut both = comparison();
    both.take_ours(seen("1", "a", "x", 0));
    both.take_ours(seen("2", "b", "x", 0));
    both.take_theirs(seen("2", "b", "x", 7));
    both.take_theirs(seen("1", "a", "x", 8));
    assert!(both.differences().is_empty());
    both.take_theirs(seen("4", "a", "x", 9));
    both.take_theirs(seen("3", "a", "x", 10));
    both.take_ours(seen("3", "a", "x", 0));
    both.take_ours(seen("4", "a", "x", 0));
    assert_eq!(kinds(&both), [(Kind::Order, 1)]);
}

#[test]
fn what_one_side_lacks_is_missing_or_extra_and_the_ends_are_neither() {
    let mut both = comparison();
    both.take_theirs(seen("before", "a", "x", 1));
    both.take_ours(seen("1", "a", "x", 0));
    both.take_theirs(seen("1", "a", "x", 2));
    both.take_theirs(seen("extra", "a", "x", 3));
    both.take_ours(seen("missing", "a", "x", 0));
    both.take_ours(seen("2", "a", "x", 0));
    both.take_theirs(seen("2", "a", "x", 4));
    both.take_theirs(seen("after", "a", "x", 5));
    both.end(&Window::default());
    assert_eq!(kinds(&both), [(Kind::Missing, 1), (Kind::Extra, 1)]);
    assert_eq!(both.tally().outside, 2);
}

#[test]
fn memory_is_bounded_by_what_waits() {
    let mut both = comparison();
    for n in 0..3 {
        assert!(both.wants_ours());
        both.take_ours(seen(&format!("ours {n}"), "a", "x", 0));
    }
    assert!(!both.wants_ours());
    for n in 0..10 {
        both.take_theirs(seen(&format!("theirs {n}"), "a", "x", n));
        assert!(both.theirs.len() <= 3);
    }
    // Its partner is not there any more, and it is no match.
    both.take_ours(seen("theirs 0", "a", "x", 0));
    assert_eq!((both.tally().too_far, both.compared()), (1, 0));
    let large = Room {
        records: 3,
        bytes: 1_000,
    };
    let mut full = Comparison::new(false, large);
    full.take_ours(seen("1", "a", &"x".repeat(1_000), 0));
    assert!(!full.wants_ours());
    let mut nameless = seen("1", "a", "x", 0);
    nameless.headers.clear();
    both.take_ours(nameless);
    assert_eq!(kinds(&both), [(Kind::NoId, 1)]);
}

#[test]
fn what_was_set_aside_is_judged_at_the_end() {
    let mut both = comparison();
    both.take_ours(seen("first", "a", "x", 0));
    both.take_theirs(seen("first", "a", "x", 1));
    for n in 0..3 {
        both.take_ours(seen(&format!("ours {n}"), "a", "x", 0));
    }
    for n in 0..6 {
        both.take_theirs(seen(&format!("theirs {n}"), "a", "x", 2 + n));
    }
    assert!(both.differences().is_empty());
    both.take_theirs(seen("ours 0", "a", "x", 20));
    both.end(&Window::default());
    assert_eq!(kinds(&both), [(Kind::Missing, 2), (Kind::Extra, 6)]);
    assert_eq!(both.tally().outside, 0);
}

#[test]
fn topics_that_ours_never_name_are_told_with_what_was_written_to_them() {
    let mut both = comparison();
    both.take_ours(seen("1", "a", "x", 0));
    both.take_theirs(seen("1", "a", "x", 7));
    let window = window::of(
        &[("t", 8), ("quiet", 3)],
        &[("t", 9), ("quiet", 3), ("lacking", 4)],
    );
    both.end(&window);
    assert_eq!(*both.alone(), BTreeMap::from([("lacking".into(), 4)]));
    assert!(both.differences().is_empty() && !both.is_equal());
}

#[test]
fn a_partition_without_a_match_goes_by_the_time_of_the_others() {
    let mut both = comparison();
    let at = |id: &str, offset| Seen {
        topic: "u".into(),
        ..seen(id, "a", "x", offset)
    };
    both.take_ours(seen("1", "a", "x", 0));
    both.take_theirs(seen("1", "a", "x", 7));
    both.take_theirs(at("before", 3));
    both.take_theirs(at("within", 4));
    both.end(&window::of(&[("t", 8), ("u", 4)], &[("t", 9), ("u", 5)]));
    assert_eq!(kinds(&both), [(Kind::Extra, 1)]);
    assert_eq!(both.tally().outside, 1);
}

#[test]
fn two_events_of_one_id_are_found_where_they_are_unlike() {
    let mut both = comparison();
    both.take_ours(seen("1", "a", "x", 0));
    both.take_ours(seen("1", "a", "y", 0));
    both.take_theirs(seen("1", "a", "x", 7));
    both.take_theirs(seen("1", "a", "y", 8));
    both.end(&Window::default());
    assert_eq!(kinds(&both), [(Kind::SameId, 2)]);
    assert_eq!(both.tally().repeats, 0);
}

#[test]
fn a_partition_that_cannot_be_foretold_is_counted_and_one_that_can_is_compared() {
    let mut both = comparison();
    let ours = |id: &str, key: Option<&str>| Seen {
        partition: None,
        key: key.map(|key| key.as_bytes().to_vec()),
        ..seen(id, "", "x", 0)
    };
    let theirs = |id: &str, key: Option<&str>, partition| Seen {
        partition: Some(partition),
        ..ours(id, key)
    };
    // Ours come before their topic is there.
    assert!(both.take_ours(ours("1", Some("21"))));
    assert!(!both.take_ours(ours("2", Some("21"))));
    both.has_partitions(&"t".into(), 7);
    both.take_theirs(theirs("1", Some("21"), 3));
    both.take_theirs(theirs("2", Some("21"), 4));
    both.take_ours(ours("3", None));
    both.take_theirs(theirs("3", None, 5));
    assert_eq!(kinds(&both), [(Kind::Partition, 1)]);
    assert_eq!((both.tally().equal, both.tally().unplaced), (2, 1));
}
