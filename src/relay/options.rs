//! How much may be outstanding and how long things may take.

use std::time::Duration;

use crate::ack::Limits;

/// Defaults are what a small machine relays several hundred thousand events per second with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory of the records that Kafka has not acknowledged. librdkafka holds a copy of each, so
    /// count twice this. Smaller: less throughput on a far broker; larger: more repeats after a
    /// crash.
    pub max_in_flight_bytes: usize,
    pub max_in_flight_records: usize,
    /// A status update goes out at least this often, whatever else happens.
    pub status_interval: Duration,
    /// A moved position is confirmed at most this often: the repeats after a crash grow with it.
    pub confirm_interval: Duration,
    /// How long a stop waits for Kafka. What is not acknowledged then is sent again at the next
    /// start.
    pub shutdown_timeout: Duration,
    /// Between two attempts after a failure: the first pause, doubled each time.
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    /// How often the slot is looked at over an ordinary connection.
    pub health_interval: Duration,
    pub on_blocked: OnBlocked,
    pub heartbeat: Option<super::HeartbeatOptions>,
    /// None: rows that are in the table stay there.
    pub housekeeping: Option<super::HousekeepingOptions>,
    /// None: a slot that was dropped, moved or swapped while no relay ran is not noticed.
    pub journal: Option<super::JournalOptions>,
    /// Of a connector that streamed from the slot before.
    pub handover: Option<super::HandoverOptions>,
}

/// What to do with a row that cannot be routed or delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnBlocked {
    /// Keep the connection and the row, say so, and try again what can heal by itself. With a
    /// dead-letter topic this is left for what cannot be written there.
    Wait,
    /// End with status 1; nothing is confirmed.
    Exit,
}

impl Options {
    pub fn window(&self) -> Limits {
        Limits {
            records: self.max_in_flight_records,
            bytes: self.max_in_flight_bytes,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_in_flight_bytes: 16 << 20,
            max_in_flight_records: 50_000,
            status_interval: Duration::from_secs(10),
            confirm_interval: Duration::from_millis(100),
            shutdown_timeout: Duration::from_secs(30),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            health_interval: Duration::from_secs(5),
            on_blocked: OnBlocked::Wait,
            heartbeat: None,
            housekeeping: None,
            journal: None,
            handover: None,
        }
    }
}
