//! Dates and times: PostgreSQL's ISO text in, Java's numbers and ISO 8601 text out.

use std::fmt::Write;

use crate::timestamp::Timestamp;

pub(crate) const DAY_US: i64 = 86_400_000_000;
const SECOND_US: i64 = 1_000_000;

/// What Debezium 3.6.1 makes of PostgreSQL's infinite timestamps, and of infinite dates: fixed
/// numbers of its own.
pub(crate) const INFINITY_US: i64 = 9_223_372_036_825_200_000;
pub(crate) const MINUS_INFINITY_US: i64 = -9_223_372_036_832_400_000;
const INFINITY_DAYS: i64 = -2_147_472_692;
const MINUS_INFINITY_DAYS: i64 = -2_147_472_691;

/// Digits behind the seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fraction {
    /// As many as needed.
    Shortest,
    Fixed(u8),
}

/// `2020-01-02`, `0044-03-15 BC` or an infinity, in days since 1970-01-01.
pub(crate) fn date_days(text: &str) -> Option<i64> {
    match text {
        "infinity" => Some(INFINITY_DAYS),
        "-infinity" => Some(MINUS_INFINITY_DAYS),
        _ => {
            let (text, before_christ) = strip_era(text);
            civil_days(text, before_christ)
        }
    }
}

/// `2020-01-02 03:04:05.678901` or an infinity, in microseconds since 1970, as if it were UTC.
pub(crate) fn timestamp_us(text: &str) -> Option<i64> {
    match text {
        "infinity" => Some(INFINITY_US),
        "-infinity" => Some(MINUS_INFINITY_US),
        _ => {
            let (text, before_christ) = strip_era(text);
            moment_us(text, before_christ)
        }
    }
}

/// The same with an offset behind it, `+02`, `-03:30` or `-04:56:02`.
pub(crate) fn instant_us(text: &str) -> Option<i64> {
    if matches!(text, "infinity" | "-infinity") {
        return timestamp_us(text);
    }
    let (text, before_christ) = strip_era(text);
    let sign = text
        .rfind(['+', '-'])
        .filter(|at| *at > text.find(' ').unwrap_or(0))?;
    let (moment, offset) = text.split_at(sign);
    moment_us(moment, before_christ)?.checked_sub(offset_us(offset)?)
}

/// `03:04:05.678901`, up to 24:00:00, in microseconds since midnight.
pub(crate) fn time_us(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(digits);
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let in_range = parts.next().is_none() && hours <= 24 && minutes < 60 && seconds < 60;
    let fraction_us = match fraction.len() {
        0 => 0,
        length @ 1..=6 => digits(fraction)? * 10_i64.pow(6 - u32::try_from(length).ok()?),
        _ => return None,
    };
    in_range.then_some(((hours * 60 + minutes) * 60 + seconds) * SECOND_US + fraction_us)
}

/// A time of day with an offset, in microseconds since midnight UTC, within a day.
pub(crate) fn offset_time_us(text: &str) -> Option<i64> {
    let (time, offset) = text.split_at(text.rfind(['+', '-'])?);
    Some((time_us(time)? - offset_us(offset)?).rem_euclid(DAY_US))
}

fn offset_us(text: &str) -> Option<i64> {
    let (sign, text) = match text.split_at_checked(1)? {
        ("+", text) => (1, text),
        ("-", text) => (-1, text),
        _ => return None,
    };
    let mut parts = text.split(':').map(digits);
    let hours = parts.next()??;
    let minutes = parts.next().unwrap_or(Some(0))?;
    let seconds = parts.next().unwrap_or(Some(0))?;
    Some(sign * ((hours * 60 + minutes) * 60 + seconds) * SECOND_US)
}

fn strip_era(text: &str) -> (&str, bool) {
    match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    }
}

fn moment_us(text: &str, before_christ: bool) -> Option<i64> {
    let (date, time) = text.split_once(' ')?;
    civil_days(date, before_christ)?
        .checked_mul(DAY_US)?
        .checked_add(time_us(time)?)
}

fn digits(text: &str) -> Option<i64> {
    let all_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| text.parse().ok())?
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar.
fn civil_days(text: &str, before_christ: bool) -> Option<i64> {
    let mut parts = text.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if before_christ { 1 - year } else { year };
    // Years from March on, so that the leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let cycle = year.div_euclid(CYCLE_YEARS);
    let year_of_cycle = year.rem_euclid(CYCLE_YEARS);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    Some(cycle * CYCLE_DAYS + day_of_cycle - MARCH_OF_YEAR_0_TO_EPOCH_DAYS)
}

const CYCLE_YEARS: i64 = 400;
const CYCLE_DAYS: i64 = 146_097;
const MARCH_OF_YEAR_0_TO_EPOCH_DAYS: i64 = 719_468;

/// Year, month, day.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + MARCH_OF_YEAR_0_TO_EPOCH_DAYS;
    let (cycle, day_of_cycle) = (
        shifted.div_euclid(CYCLE_DAYS),
        shifted.rem_euclid(CYCLE_DAYS),
    );
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = cycle * CYCLE_YEARS + year_of_cycle + i64::from(month <= 2);
    (year, month, day)
}

/// A commit's time, to the microsecond: `2020-01-02T03:04:05.600000Z`.
pub(crate) fn iso_microseconds(time: Timestamp) -> String {
    iso_timestamp(time.as_unix_us(), Fraction::Fixed(6))
}

/// `2020-01-02T03:04:05.6Z`, `-0043-03-15T00:00:00Z`, `+20000-01-01T00:00:00Z`.
pub(crate) fn iso_timestamp(us: i64, fraction: Fraction) -> String {
    let mut text = iso_date(us.div_euclid(DAY_US));
    text.push('T');
    write_time(&mut text, us.rem_euclid(DAY_US), fraction);
    text
}

/// `2020-01-02`
pub(crate) fn iso_date(days: i64) -> String {
    let (year, month, day) = civil(days);
    let sign = match year {
        10_000.. => "+",
        ..0 => "-",
        _ => "",
    };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

/// `03:04:05.6Z`, of a time within one day.
pub(crate) fn iso_time(us: i64, fraction: Fraction) -> String {
    let mut text = String::with_capacity(16);
    write_time(&mut text, us.rem_euclid(DAY_US), fraction);
    text
}

fn write_time(text: &mut String, us: i64, fraction: Fraction) {
    let seconds = us / SECOND_US;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    // Writing to a String cannot fail.
    let _ = write!(text, "{hours:02}:{minutes:02}:{:02}", seconds % 60);
    let micros = format!("{:06}", us % SECOND_US);
    let shown = match fraction {
        Fraction::Shortest => micros.trim_end_matches('0'),
        Fraction::Fixed(width) => &micros[..usize::from(width).min(6)],
    };
    if !shown.is_empty() {
        text.push('.');
        text.push_str(shown);
    }
    text.push('Z');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_microseconds_as_if_utc() {
        for (text, expected) in [
            ("1970-01-01 00:00:00", 0),
            ("2020-01-02 01:04:05.678901", 1_577_927_045_678_901),
            ("2000-02-29 00:00:00.5", 951_782_400_500_000),
            ("1969-12-31 23:59:59.999999", -1),
            ("0044-03-15 00:00:00 BC", -63_517_824_000_000_000),
            ("infinity", INFINITY_US),
            ("-infinity", MINUS_INFINITY_US),
        ] {
            assert_eq!(timestamp_us(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn offsets_are_taken_off() {
        for (text, expected) in [
            ("1970-01-01 00:00:01+00", 1_000_000),
            ("1970-01-01 02:00:00+02", 0),
            ("1970-01-01 00:00:00-03:30", 12_600_000_000),
            ("1883-11-18 12:00:00-04:56:02", -2_717_651_038_000_000),
        ] {
            assert_eq!(instant_us(text), Some(expected), "{text}");
        }
        assert_eq!(instant_us("2020-01-02 00:00:00"), None);
        assert_eq!(offset_time_us("23:00:00+05"), Some(18 * 3_600_000_000));
        assert_eq!(offset_time_us("24:00:00+00"), Some(0));
    }

    #[test]
    fn days_go_both_ways() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("0001-12-31 BC", -719_163),
            ("2000-02-29", 11_016),
            ("0001-01-01", -719_162),
        ] {
            assert_eq!(date_days(text), Some(days), "{text}");
        }
        for days in (-800_000..800_000).step_by(137) {
            let text = iso_date(days);
            if !text.starts_with('-') {
                assert_eq!(date_days(&text), Some(days), "{text}");
            }
        }
    }

    #[test]
    fn iso_text_is_that_of_java() {
        let shortest = |text: &str| iso_timestamp(timestamp_us(text).unwrap(), Fraction::Shortest);
        assert_eq!(shortest("2020-01-02 00:00:00"), "2020-01-02T00:00:00Z");
        assert_eq!(shortest("1960-01-01 10:00:00.5"), "1960-01-01T10:00:00.5Z");
        assert_eq!(shortest("0044-03-15 00:00:00 BC"), "-0043-03-15T00:00:00Z");
        assert_eq!(shortest("20000-01-01 00:00:00"), "+20000-01-01T00:00:00Z");
        assert_eq!(
            iso_timestamp(120_000, Fraction::Fixed(6)),
            "1970-01-01T00:00:00.120000Z"
        );
        assert_eq!(iso_time(12_600_500_000, Fraction::Shortest), "03:30:00.5Z");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "2020-01-02",
            "2020-13-01 00:00:00",
            "x-01-02 00:00:00",
            "2020-01-02 25:00:00",
        ] {
            assert_eq!(timestamp_us(text), None, "{text:?}");
        }
        assert_eq!(time_us("1:2"), None);
        assert_eq!(date_days("2020-1"), None);
    }
}
