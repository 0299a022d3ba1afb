//! What a value of a key may be: said in the documents, and held where the value is read.

use std::fmt;
use std::time::Duration;

/// Both ends are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Bytes,
    One,
}

impl Limits {
    pub(super) fn hold(self, value: u64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// A part of a millisecond counts, at either end.
    pub(super) fn hold_duration(self, value: Duration) -> bool {
        let [least, most] = [self.least, self.most].map(Duration::from_millis);
        (least..=most).contains(&value)
    }

    fn shown(self, value: u64) -> String {
        match self.unit {
            Unit::Milliseconds => {
                humantime::format_duration(Duration::from_millis(value)).to_string()
            }
            Unit::Bytes => bytesize::ByteSize(value).to_string(),
            Unit::One => value.to_string(),
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.shown(self.least), self.shown(self.most))
    }
}
