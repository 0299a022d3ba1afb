//! A position in PostgreSQL's write-ahead log.

use std::fmt;
use std::str::FromStr;

/// A log sequence number: a byte offset in the write-ahead log, printed as PostgreSQL prints
/// `pg_lsn` (two halves in hexadecimal, `16/B374D848`).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// The position before all others; PostgreSQL uses it for "none".
    pub const ZERO: Self = Self(0);

    pub const fn new(position: u64) -> Self {
        Self(position)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Bytes of log from `earlier` to `self`; zero where `earlier` is not earlier.
    pub const fn bytes_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not two hexadecimal halves of at most eight digits with a slash between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLsnError(String);

impl fmt::Display for ParseLsnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not an LSN: expected a form like 16/B374D848",
            self.0
        )
    }
}

impl std::error::Error for ParseLsnError {}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let half = |digits: &str| {
            (1..=8)
                .contains(&digits.len())
                .then(|| u32::from_str_radix(digits, 16).ok())
                .flatten()
                .filter(|_| !digits.starts_with('+'))
        };
        let parsed = text
            .split_once('/')
            .and_then(|(high, low)| Some((u64::from(half(high)?) << 32) | u64::from(half(low)?)));
        parsed
            .map(Self)
            .ok_or_else(|| ParseLsnError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_as_postgresql_does() {
        for text in ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF", "0/1A2B3C8"] {
            assert_eq!(text.parse::<Lsn>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_not_two_halves() {
        for text in [
            "",
            "/",
            "0",
            "0/",
            "/0",
            "0/0/0",
            "x/0",
            "0/123456789",
            "+1/0",
            "0/-1",
            " 0/0",
        ] {
            assert_eq!(
                text.parse::<Lsn>(),
                Err(ParseLsnError(text.to_owned())),
                "{text:?}"
            );
        }
    }

    #[test]
    fn distance_to_a_later_position_is_zero() {
        assert_eq!(Lsn::new(5).bytes_since(Lsn::new(9)), 0);
        assert_eq!(Lsn::new(9).bytes_since(Lsn::new(5)), 4);
    }
}
