//! interval, in PostgreSQL's own style (`IntervalStyle = postgres`).

/// `1 year 2 mons 3 days 04:05:06.789`, each part with its sign.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Interval {
    years: i32,
    months: i32,
    days: i32,
    hours: i32,
    minutes: i32,
    seconds: f64,
}

impl Interval {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut interval = Self::default();
        let mut words = text.split(' ');
        while let Some(word) = words.next() {
            if word.contains(':') {
                interval.set_time(word)?;
                return words.next().is_none().then_some(interval);
            }
            let number: i32 = word.parse().ok()?;
            match words.next()? {
                "year" | "years" => interval.years = number,
                "mon" | "mons" => interval.months = number,
                "day" | "days" => interval.days = number,
                _ => return None,
            }
        }
        Some(interval)
    }

    fn set_time(&mut self, text: &str) -> Option<()> {
        let (sign, text) = match text.strip_prefix('-') {
            Some(text) => (-1, text),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let mut parts = text.split(':');
        let hours: i32 = parts.next()?.parse().ok()?;
        let minutes: i32 = parts.next()?.parse().ok()?;
        let seconds: f64 = parts.next()?.parse().ok()?;
        self.hours = sign * hours;
        self.minutes = sign * minutes;
        // As the JDBC driver holds them: whole ones and millionths, put together again.
        let micros = (seconds * 1e6).round() as i64 * i64::from(sign);
        let (whole, fraction) = (micros / 1_000_000, micros % 1_000_000);
        self.seconds = whole as f64 + fraction as f64 / 1e6;
        Some(())
    }

    /// Debezium's arithmetic, its doubles included: a month has 30.4375 days, and the last
    /// microsecond may be cut off.
    pub(super) fn micros(&self) -> i64 {
        const DAYS_PER_MONTH: f64 = 365.25 / 12.0;
        let months = self.years.wrapping_mul(12).wrapping_add(self.months);
        let days = f64::from(months) * DAYS_PER_MONTH + f64::from(self.days);
        let minutes = (days * 24.0 + f64::from(self.hours)) * 60.0 + f64::from(self.minutes);
        ((minutes * 60.0 + self.seconds) * 1e6) as i64
    }

    /// `P1Y2M3DT4H5M6.789S`, every part with its sign.
    pub(super) fn iso(&self) -> String {
        const MAX_DECIMALS: usize = 9;
        let Self {
            years,
            months,
            days,
            hours,
            minutes,
            ..
        } = self;
        let mut seconds = self.seconds.to_string();
        if let Some(point) = seconds.find('.') {
            seconds.truncate(point + 1 + MAX_DECIMALS);
            let length = seconds.trim_end_matches('0').trim_end_matches('.').len();
            seconds.truncate(length);
        }
        format!("P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds}S")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_counted_as_debezium_does() {
        for (text, micros, iso) in [
            ("00:00:00", 0, "P0Y0M0DT0H0M0S"),
            (
                "1 year 2 mons 3 days 04:05:06.789",
                37_091_106_789_000,
                "P1Y2M3DT4H5M6.789S",
            ),
            ("-1 days -00:00:01", -86_401_000_000, "P0Y0M-1DT0H0M-1S"),
            (
                "-1 years -2 mons +3 days -00:00:01.5",
                -36_558_001_500_000,
                "P-1Y-2M3DT0H0M-1.5S",
            ),
            ("1 mon", 2_629_800_000_000, "P0Y1M0DT0H0M0S"),
            ("00:00:08.013632", 8_013_631, "P0Y0M0DT0H0M8.013632S"),
            ("00:00:01.235", 1_234_999, "P0Y0M0DT0H0M1.234999999S"),
            ("00:00:00.000001", 1, "P0Y0M0DT0H0M0.000001S"),
        ] {
            let interval = Interval::parse(text).unwrap();
            assert_eq!(
                (interval.micros(), interval.iso().as_str()),
                (micros, iso),
                "{text}"
            );
        }
        for text in ["1 week", "P1Y", "1 day 1", "1:2", ""] {
            assert_eq!(Interval::parse(text), None, "{text:?}");
        }
    }
}
