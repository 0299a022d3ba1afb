//! What a shadow says, in lines.

use super::compare::{Comparison, Kind};

pub(super) fn progress(comparison: &Comparison) -> String {
    let tally = comparison.tally();
    format!(
        "{} events compared: {} equal, {} different; {} repeats of the connector's, {} wait for theirs",
        comparison.compared(),
        tally.equal,
        tally.different,
        tally.repeats,
        comparison.waiting()
    )
}

pub(super) fn lines(comparison: &Comparison) -> Vec<String> {
    let tally = comparison.tally();
    let mut lines = vec![format!(
        "{} events compared: {} equal, {} different; {} repeats of the connector's, {} outside of the time",
        comparison.compared(),
        tally.equal,
        tally.different,
        tally.repeats,
        tally.outside
    )];
    if tally.unplaced > 0 {
        lines.push(format!(
            "{} of them have no key: their partition was not compared",
            tally.unplaced
        ));
    }
    if tally.too_far > 0 {
        lines.push(format!(
            "{} events more were not compared: theirs came too long before ours",
            tally.too_far
        ));
    }
    for (topic, count) in comparison.alone() {
        lines.push(format!(
            "topic {topic}: {count} of theirs, none of ours (or another writer's, whose topics begin alike)"
        ));
    }
    for (kind, (count, first)) in comparison.differences() {
        lines.push(format!("{}: {count}; the first: {first}", name(*kind)));
    }
    if comparison.compared() == 0 {
        lines.push("nothing was compared: no event was written, or no connector runs".to_owned());
    }
    lines
}

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Topic => "another topic",
        Kind::Partition => "another partition",
        Kind::Key => "another key",
        Kind::Value => "another value",
        Kind::Headers => "other headers",
        Kind::Timestamp => "another timestamp",
        Kind::Order => "another order within a key",
        Kind::Missing => "not in the topics",
        Kind::Extra => "in the topics alone",
        Kind::SameId => "two events of one id",
        Kind::NoId => "without an id",
    }
}
