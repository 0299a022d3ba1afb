//! Since when no broker can be reached, and when that is worth a word.

use std::time::Duration;

use tokio::time::Instant;

use crate::observe::Problem;

#[derive(Debug, Default)]
pub(super) struct Brokers {
    away_since: Option<Instant>,
    said: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Away,
    Back,
}

/// A broker that restarts in less is no news.
const PATIENCE: Duration = Duration::from_secs(3);

impl Brokers {
    pub(super) fn are_away(&self) -> bool {
        self.said
    }

    pub(super) fn look(&mut self, away: bool, now: Instant) -> Option<News> {
        if !away {
            self.away_since = None;
            return std::mem::take(&mut self.said).then_some(News::Back);
        }
        let since = *self.away_since.get_or_insert(now);
        if self.said || now - since < PATIENCE {
            return None;
        }
        self.said = true;
        Some(News::Away)
    }
}

/// `reason`: librdkafka's last words, where it had any.
pub fn away(reason: Option<String>) -> Problem {
    let detail = reason.filter(|reason| !reason.is_empty());
    Problem {
        message: "no Kafka broker can be reached".to_owned(),
        hint: Some(hint(detail.as_deref()).to_owned()),
        detail,
    }
}

/// librdkafka has one sentence for every certificate that it refuses.
fn hint(reason: Option<&str>) -> &'static str {
    if reason.is_some_and(|reason| reason.contains("certificate could not be verified")) {
        "Either the brokers' certificate is not signed by an authority in kafka.ssl.ca.location, or it is out of date, or it does not name the host as kafka.bootstrap.servers and the brokers' advertised.listeners do. It is tried again by itself."
    } else {
        "Check that the brokers run, kafka.bootstrap.servers and the security settings. It is tried again by itself."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_when_it_lasts_and_once_when_it_is_over() {
        let mut brokers = Brokers::default();
        let start = Instant::now();
        let looks = [
            (true, Duration::ZERO, None),
            (false, PATIENCE, None),
            (true, PATIENCE, None),
            (true, PATIENCE * 2, Some(News::Away)),
            (true, PATIENCE * 3, None),
            (false, PATIENCE * 4, Some(News::Back)),
            (false, PATIENCE * 5, None),
        ];
        for (away, after, news) in looks {
            assert_eq!(brokers.look(away, start + after), news, "{after:?}");
        }
    }
}
