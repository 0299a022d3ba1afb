//! How PostgreSQL's types become Kafka Connect's: the PostgreSQL connector's handling modes.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeOptions {
    /// `time.precision.mode`
    pub time_precision: TimePrecision,
    /// `decimal.handling.mode`
    pub decimal: DecimalHandling,
    /// `binary.handling.mode`
    pub binary: BinaryHandling,
    /// `interval.handling.mode`
    pub interval: IntervalHandling,
    /// `hstore.handling.mode`
    pub hstore: HstoreHandling,
    /// `money.fraction.digits`
    pub money_fraction_digits: u16,
    /// `include.unknown.datatypes`: types without a rule as bytes of their text, else as if the
    /// column were not there.
    pub include_unknown: bool,
}

impl Default for TypeOptions {
    fn default() -> Self {
        Self {
            time_precision: TimePrecision::default(),
            decimal: DecimalHandling::default(),
            binary: BinaryHandling::default(),
            interval: IntervalHandling::default(),
            hstore: HstoreHandling::default(),
            money_fraction_digits: 2,
            include_unknown: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimePrecision {
    /// Milliseconds or microseconds, by the column's own precision.
    #[default]
    Adaptive,
    /// The same for timestamps; times always in microseconds.
    AdaptiveTimeMicroseconds,
    /// Connect's own date, time and timestamp, in milliseconds.
    Connect,
    Microseconds,
    Nanoseconds,
    /// Text in ISO 8601.
    IsoString,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecimalHandling {
    /// Connect's Decimal: bytes and a scale.
    #[default]
    Precise,
    Double,
    String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BinaryHandling {
    #[default]
    Bytes,
    Base64,
    Base64UrlSafe,
    Hex,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalHandling {
    /// Microseconds, a month being 30.4375 days.
    #[default]
    Numeric,
    /// `P1Y2M3DT4H5M6.789S`
    String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HstoreHandling {
    #[default]
    Json,
    Map,
}
