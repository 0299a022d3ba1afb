//! What the person in front of the demo reads: a line per event at a readable pace, with colour on
//! a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime};

use super::consumer::Delivery;
use super::summary::Summary;

/// Between two lines for ordinary events; those in between are counted.
const PACE: Duration = Duration::from_millis(180);

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";
const MAGENTA: &str = "35";

pub(super) struct Screen {
    out: Box<dyn Write>,
    colour: bool,
    started: Instant,
    last_line: Option<Instant>,
    untold: u64,
}

impl Screen {
    pub(super) fn new() -> Self {
        let out = std::io::stdout();
        let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            out: Box::new(out),
            colour,
            started: Instant::now(),
            last_line: None,
            untold: 0,
        }
    }

    pub(super) fn title(&mut self, text: &str) {
        let text = self.paint(BOLD, text);
        self.line(&format!("\n{text}\n"));
    }

    /// One of the parts on the stage.
    pub(super) fn part(&mut self, name: &str, text: &str) {
        let name = self.paint(CYAN, &format!("{name:<12}"));
        self.line(&format!("  {name}{text}"));
    }

    pub(super) fn remark(&mut self, text: &str) {
        let text = self.paint(DIM, text);
        self.line(&format!("\n  {text}\n"));
    }

    /// Something happens to the relay.
    pub(super) fn event(&mut self, text: &str) {
        let time = self.time();
        let text = self.paint(RED, text);
        self.line(&format!("\n{time}  {text}\n"));
        self.last_line = None;
    }

    pub(super) fn headings(&mut self) {
        let text = format!(
            "{:>7}  {:<9} {:<10} {:>7}  {:<14}  {}",
            "", "order", "status", "version", "partition:offset", "commit to consumer"
        );
        let text = self.paint(DIM, &text);
        self.line(&text);
    }

    /// `applied`: the consumer's table has changed.
    pub(super) fn delivery(&mut self, delivery: &Delivery, first: bool, applied: bool) {
        let now = Instant::now();
        let due = self
            .last_line
            .is_none_or(|last| now.duration_since(last) >= PACE);
        if first && !due {
            self.untold += 1;
            return;
        }
        self.last_line = Some(now);
        let place = format!("{}:{}", delivery.partition, delivery.offset);
        let took = took_ms(delivery, SystemTime::now());
        let mut remarks = Vec::new();
        if !first && !applied {
            remarks.push(self.paint(MAGENTA, "a repeat: not applied again"));
        } else if !first {
            remarks.push(self.paint(RED, "a repeat, and applied again"));
        }
        if self.untold > 0 {
            let untold = format!("+{} more", self.untold);
            remarks.push(self.paint(DIM, &untold));
            self.untold = 0;
        }
        let colour = match delivery.status.as_str() {
            "created" => CYAN,
            "shipped" => YELLOW,
            _ => GREEN,
        };
        let line = format!(
            "{}  {:<9} {} {:>7}  {place:<16}  {took:>5} ms  {}",
            self.time(),
            // Only what the shop wrote comes here, but a given broker could be anybody's.
            delivery.order.escape_debug().to_string(),
            self.paint(
                colour,
                &format!("{:<10}", delivery.status.escape_debug().to_string())
            ),
            delivery.version,
            remarks.join("  ")
        );
        self.line(line.trim_end());
    }

    pub(super) fn summary(&mut self, summary: &Summary) {
        let good = summary.is_good();
        let heading = self.paint(BOLD, "Summary");
        self.line(&format!("\n{heading}\n{summary}\n"));
        let verdict = if good {
            self.paint(
                GREEN,
                "Nothing was lost, nothing came out of order, and the consumer has what the shop has.",
            )
        } else {
            self.paint(
                RED,
                "This is not as it should be: please report it with the lines above.",
            )
        };
        self.line(&format!("  {verdict}\n"));
    }

    fn time(&self) -> String {
        let text = format!("{:>5.1} s", self.started.elapsed().as_secs_f64());
        self.paint(DIM, &text)
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn line(&mut self, text: &str) {
        // Whoever closes the pipe does not want to read on; the demo ends by itself.
        drop(writeln!(self.out, "{text}").and_then(|()| self.out.flush()));
    }
}

fn took_ms(delivery: &Delivery, now: SystemTime) -> i64 {
    let now_ms = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0));
    now_ms.saturating_sub(delivery.committed_ms).max(0)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn screen(colour: bool) -> (Screen, Paper) {
        let paper = Paper::default();
        let screen = Screen {
            out: Box::new(paper.clone()),
            colour,
            started: Instant::now(),
            last_line: None,
            untold: 0,
        };
        (screen, paper)
    }

    fn delivery(order: &str) -> Delivery {
        Delivery {
            partition: 2,
            offset: 7,
            id: String::new(),
            order: order.to_owned(),
            version: 1,
            status: "created".to_owned(),
            committed_ms: 0,
        }
    }

    #[test]
    fn ordinary_events_in_quick_succession_are_counted_and_repeats_always_told() {
        let (mut screen, paper) = screen(false);
        for order in ["A", "B", "C"] {
            screen.delivery(&delivery(order), true, true);
        }
        screen.delivery(&delivery("A"), false, false);
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("A         created"), "{text}");
        assert!(
            lines[1].ends_with("a repeat: not applied again  +2 more"),
            "{text}"
        );
    }

    #[test]
    fn without_colour_there_is_no_escape_sequence_even_from_a_record() {
        let (mut screen, paper) = screen(false);
        screen.title("t");
        screen.event("e");
        screen.delivery(&delivery("\x1b[2J\n"), true, true);
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains('\x1b'), "{text}");
    }
}
