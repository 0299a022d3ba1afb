//! The name that was probably meant.

/// The known name that is most like `name`, if any is like it at all.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (likeness(name, known), known))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Names are words between dots: a word that is missing weighs less than one that is another.
fn likeness(name: &str, known: &str) -> f64 {
    let words = |text: &str| {
        text.split(['.', '_', '-'])
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (typed, wanted) = (words(name), words(known));
    let shared = typed
        .iter()
        .filter_map(|word| {
            let best = wanted
                .iter()
                .map(|other| strsim::normalized_damerau_levenshtein(word, other));
            best.max_by(f64::total_cmp)
                .filter(|likeness| *likeness > 0.6)
        })
        .sum::<f64>();
    let by_words = 2.0 * shared / (typed.len() + wanted.len()) as f64;
    let by_letters = strsim::normalized_damerau_levenshtein(name, known);
    by_letters.max((by_words + by_letters) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const KNOWN: &[&str] = &[
        "table.field.event.payload",
        "table.field.event.id",
        "route.topic.replacement",
        "route.topic.regex",
        "slot.name",
    ];

    #[test]
    fn a_slip_of_the_finger_or_a_missing_word_finds_the_name() {
        for (typed, meant) in [
            ("table.field.payload", Some("table.field.event.payload")),
            ("route.topic.replacment", Some("route.topic.replacement")),
            ("slot.nmae", Some("slot.name")),
            ("slotname", Some("slot.name")),
            ("quarkus.log.level", None),
        ] {
            assert_eq!(nearest(typed, KNOWN.iter().copied()), meant, "{typed}");
        }
    }
}
