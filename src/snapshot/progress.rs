//! How far it came, for whoever watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::observe::say;
use crate::relay::View;

const TOLD_EVERY: Duration = Duration::from_secs(5);
/// Topics that are told one by one.
const TOPICS: usize = 50;

/// What has become of the rows.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rows: u64,
    pub(super) nothing: u64,
    pub(super) unroutable: u64,
    topics: BTreeMap<Arc<str>, u64>,
}

impl Tally {
    pub(super) fn count(&mut self, topic: &Arc<str>) {
        match self.topics.get_mut(topic) {
            Some(count) => *count += 1,
            None => drop(self.topics.insert(Arc::clone(topic), 1)),
        }
    }

    pub(super) fn sent(&self) -> u64 {
        self.rows - self.nothing - self.unroutable
    }

    pub(super) fn lines(&self, acknowledged: u64, dry_run: bool) -> Vec<String> {
        let sent = self.sent();
        let published = match dry_run {
            true => format!("would publish    {sent} (dry run)"),
            false if acknowledged < sent => {
                format!("published        {acknowledged}, and {sent} were sent")
            }
            false => format!("published        {acknowledged}"),
        };
        let mut lines = vec![format!("rows             {}", self.rows), published];
        let topics = self.topics.iter().take(TOPICS);
        lines.extend(topics.map(|(topic, count)| format!("  {topic}: {count}")));
        if let Some(more) = self.topics.len().checked_sub(TOPICS + 1) {
            lines.push(format!("  and {} more topics", more + 1));
        }
        if self.nothing > 0 {
            lines.push(format!("nothing to do    {}", self.nothing));
        }
        lines.push(format!("left out         {}", self.unroutable));
        lines
    }
}

/// Written by the work, read by the clock.
#[derive(Debug)]
pub(super) struct Progress {
    rows: AtomicU64,
    acknowledged: Arc<AtomicU64>,
}

impl Progress {
    /// Kafka acknowledges also while no row is taken.
    pub(super) fn new(acknowledged: Arc<AtomicU64>) -> Self {
        Self {
            rows: AtomicU64::new(0),
            acknowledged,
        }
    }

    pub(super) fn note(&self, rows: u64) {
        self.rows.store(rows, Ordering::Relaxed);
    }

    /// Rows, and records that are acknowledged.
    fn now(&self) -> (u64, u64) {
        let [rows, acknowledged] =
            [&self.rows, &*self.acknowledged].map(|count| count.load(Ordering::Relaxed));
        (rows, acknowledged)
    }

    /// Until it is aborted.
    pub(super) async fn tell(self: Arc<Self>, estimate: u64, view: View) {
        let mut before = 0;
        loop {
            tokio::time::sleep(TOLD_EVERY).await;
            let (rows, acknowledged) = self.now();
            let per_second = (rows - before) / TOLD_EVERY.as_secs();
            before = rows;
            let waits = view.status.problem().map(|problem| problem.message);
            say(&line(rows, acknowledged, per_second, estimate, waits));
        }
    }
}

fn line(
    rows: u64,
    acknowledged: u64,
    per_second: u64,
    estimate: u64,
    waits: Option<String>,
) -> String {
    let share = match (rows * 100).checked_div(estimate) {
        Some(percent) if percent <= 100 => format!(", {percent} % of about {estimate}"),
        _ => String::new(),
    };
    let waits = waits.map_or_else(String::new, |message| format!("; waiting: {message}"));
    format!("{rows} rows, {acknowledged} acknowledged, {per_second} rows/s{share}{waits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_behind_the_last_row_is_told() {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let progress = Progress::new(Arc::clone(&acknowledged));
        progress.note(5);
        assert_eq!(progress.now(), (5, 0));
        acknowledged.store(5, Ordering::Relaxed);
        assert_eq!(progress.now(), (5, 5));
    }

    #[test]
    fn the_share_is_told_while_the_estimate_holds() {
        assert_eq!(
            line(500, 480, 100, 2000, None),
            "500 rows, 480 acknowledged, 100 rows/s, 25 % of about 2000"
        );
        assert_eq!(
            line(500, 500, 0, 10, Some("no broker".to_owned())),
            "500 rows, 500 acknowledged, 0 rows/s; waiting: no broker"
        );
        assert_eq!(line(1, 0, 0, 0, None), "1 rows, 0 acknowledged, 0 rows/s");
    }

    #[test]
    fn the_last_words_count_rows_topics_and_what_was_left_out() {
        let mut tally = Tally {
            rows: 5,
            nothing: 1,
            unroutable: 1,
            ..Tally::default()
        };
        for topic in ["b", "a", "b"] {
            tally.count(&topic.into());
        }
        let end = [
            "  a: 1",
            "  b: 2",
            "nothing to do    1",
            "left out         1",
        ];
        let lines = tally.lines(3, false);
        assert_eq!(lines[..2], ["rows             5", "published        3"]);
        assert_eq!(lines[2..], end);
        assert_eq!(
            tally.lines(2, false)[1],
            "published        2, and 3 were sent"
        );
        assert_eq!(tally.lines(3, true)[1], "would publish    3 (dry run)");
    }
}
