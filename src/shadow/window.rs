//! The time in which both sides were at work, by the offsets of the topics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kafka::Ends;

/// From the first match to a moment that both sides are known to have passed.
#[derive(Debug, Default)]
pub(super) struct Window {
    begins: Option<Ends>,
    /// With how many of theirs had been taken then.
    awaiting: Option<(u64, Ends)>,
    ends: Option<Ends>,
    due: Option<Instant>,
}

const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// The questions may take a twentieth of the time.
const SHARE: u32 = 20;

impl Window {
    /// `matched`: how many of theirs had come when the last of those came that had a match.
    pub(super) fn confirm(&mut self, matched: u64) {
        if self
            .awaiting
            .as_ref()
            .is_some_and(|(taken, _)| *taken < matched)
        {
            self.ends = self.awaiting.take().map(|(_, ends)| ends);
        }
    }

    pub(super) fn wants(&self, now: Instant) -> bool {
        self.awaiting.is_none() && self.due.is_none_or(|due| now >= due)
    }

    /// Asked while nothing of theirs waited to be read: what comes later was published later.
    pub(super) fn take(&mut self, ends: Option<Ends>, taken: u64, asked: Duration) {
        self.due = Some(Instant::now() + LEAST_PAUSE.max(asked * SHARE));
        match (ends, &self.begins) {
            (None, _) => {}
            (ends, None) => self.begins = ends,
            (Some(ends), Some(_)) => self.awaiting = Some((taken, ends)),
        }
    }

    pub(super) fn has(&self, topic: &Arc<str>, partition: i32, offset: i64) -> bool {
        let place = (Arc::clone(topic), partition);
        let (Some(begins), Some(ends)) = (&self.begins, &self.ends) else {
            return false;
        };
        // A partition that was not there then begins within.
        let from = begins.get(&place).copied().unwrap_or(0);
        ends.get(&place)
            .is_some_and(|end| (from..*end).contains(&offset))
    }

    /// How much was written to each topic.
    pub(super) fn written(&self) -> BTreeMap<Arc<str>, u64> {
        let mut all = BTreeMap::new();
        let (Some(begins), Some(ends)) = (&self.begins, &self.ends) else {
            return all;
        };
        for (place, end) in ends {
            let written = end - begins.get(place).copied().unwrap_or(0);
            let written = u64::try_from(written).unwrap_or(0);
            if written > 0 {
                *all.entry(Arc::clone(&place.0)).or_default() += written;
            }
        }
        all
    }
}

#[cfg(test)]
pub(super) fn of(begins: &[(&str, i64)], ends: &[(&str, i64)]) -> Window {
    let all = |list: &[(&str, i64)]| {
        let ends = list.iter().map(|(topic, end)| (((*topic).into(), 1), *end));
        Some(ends.collect::<Ends>())
    };
    Window {
        begins: all(begins),
        ends: all(ends),
        ..Window::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_where_a_later_record_of_theirs_had_a_match() {
        let ends = |end| Ends::from([(("t".into(), 0), end)]);
        let mut window = Window::default();
        let asked = Duration::ZERO;
        assert!(window.wants(Instant::now()));
        window.take(Some(ends(5)), 3, asked);
        assert!(!window.wants(Instant::now()));
        assert!(window.wants(Instant::now() + LEAST_PAUSE));
        window.take(Some(ends(9)), 7, asked);
        window.confirm(7);
        assert_eq!(window.written(), BTreeMap::new());
        window.confirm(8);
        assert_eq!(window.written(), BTreeMap::from([("t".into(), 4)]));
        let has = |offset| window.has(&"t".into(), 0, offset);
        assert_eq!([4, 5, 8, 9].map(has), [false, true, true, false]);
    }
}
