//! What is done to the world, and how it is undone.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::time::Duration;

use crate::support::{Direction, Shutdown};
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    LeaderKilled,
    BothRelaysKilled,
    LeaderStopped,
    BothRelaysStopped,
    LeaderFrozen,
    PostgresFast,
    PostgresImmediate,
    PostgresKilled,
    WalsenderTerminated,
    BrokerKilled,
    BrokerStopped,
    Line(Side, Cut),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Postgres,
    Kafka,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cut {
    /// Reset, and refused until it is over.
    Down,
    ResetInAMessage,
    /// Silent, then everything goes on.
    Silent,
    /// Silent for ever on the connections that are open.
    HalfOpen,
    SilentToServer,
    SilentToClient,
    Drip,
}

const CUTS: [Cut; 7] = [
    Cut::Down,
    Cut::ResetInAMessage,
    Cut::Silent,
    Cut::HalfOpen,
    Cut::SilentToServer,
    Cut::SilentToClient,
    Cut::Drip,
];

const OTHERS: [Fault; 11] = [
    Fault::LeaderKilled,
    Fault::BothRelaysKilled,
    Fault::LeaderStopped,
    Fault::BothRelaysStopped,
    Fault::LeaderFrozen,
    Fault::PostgresFast,
    Fault::PostgresImmediate,
    Fault::PostgresKilled,
    Fault::WalsenderTerminated,
    Fault::BrokerKilled,
    Fault::BrokerStopped,
];

/// Half of the faults are on the lines.
pub(crate) fn draw(random: &mut StdRng) -> Fault {
    if random.random_bool(0.5) {
        let side = if random.random() {
            Side::Postgres
        } else {
            Side::Kafka
        };
        Fault::Line(side, *CUTS.choose(random).unwrap())
    } else {
        *OTHERS.choose(random).unwrap()
    }
}

impl Fault {
    /// What it is done to: two faults at a time are done to different things.
    fn subject(self) -> u8 {
        match self {
            Self::LeaderKilled
            | Self::BothRelaysKilled
            | Self::LeaderStopped
            | Self::BothRelaysStopped
            | Self::LeaderFrozen => 0,
            Self::PostgresFast
            | Self::PostgresImmediate
            | Self::PostgresKilled
            | Self::WalsenderTerminated => 1,
            Self::BrokerKilled | Self::BrokerStopped => 2,
            Self::Line(Side::Postgres, _) => 3,
            Self::Line(Side::Kafka, _) => 4,
        }
    }

    /// A leader that thaws sends what it still had: when, has to be known.
    pub(crate) fn fits(self, other: Self) -> bool {
        self.subject() != other.subject()
            && self != Self::LeaderFrozen
            && other != Self::LeaderFrozen
    }

    pub(crate) fn hold(self, random: &mut StdRng) -> Duration {
        let most_ms = match self {
            Self::LeaderFrozen | Self::Line(..) => 12_000,
            _ => 4_000,
        };
        Duration::from_millis(random.random_range(200..most_ms))
    }

    pub(crate) async fn begin(self, world: &mut World, random: &mut StdRng) {
        match self {
            Self::LeaderKilled => world.kill_leader(),
            Self::BothRelaysKilled => world.kill_all(),
            Self::LeaderStopped => world.stop_leader(),
            Self::BothRelaysStopped => world.stop_all(),
            Self::LeaderFrozen => world.freeze_leader(),
            Self::PostgresFast => world.postgres.stop(Shutdown::Fast),
            Self::PostgresImmediate => world.postgres.stop(Shutdown::Immediate),
            Self::PostgresKilled => world.postgres.kill(),
            Self::WalsenderTerminated => world.terminate_walsenders().await,
            Self::BrokerKilled => world.kafka.kill(),
            Self::BrokerStopped => world.kafka.stop(),
            Self::Line(side, cut) => {
                let line = world.line(side);
                match cut {
                    Cut::Down => line.cut(),
                    Cut::ResetInAMessage => line.reset_within(random.random_range(1..5000)),
                    Cut::Silent | Cut::HalfOpen => line.hold(Direction::Both),
                    Cut::SilentToServer => line.hold(Direction::ToServer),
                    Cut::SilentToClient => line.hold(Direction::ToClient),
                    Cut::Drip => line.drip(200, Duration::from_millis(10)),
                }
            }
        }
    }

    pub(crate) async fn end(self, world: &mut World) {
        match self {
            Self::LeaderKilled
            | Self::BothRelaysKilled
            | Self::LeaderStopped
            | Self::BothRelaysStopped => world.start_relays(),
            Self::LeaderFrozen => world.thaw().await,
            Self::PostgresFast | Self::PostgresImmediate | Self::PostgresKilled => {
                world.postgres.start_again();
            }
            Self::WalsenderTerminated => {}
            Self::BrokerKilled | Self::BrokerStopped => world.kafka.start_again(),
            Self::Line(side, Cut::HalfOpen) => world.line(side).heal_for_new_ones(),
            Self::Line(side, _) => world.line(side).heal(),
        }
    }

    pub(crate) fn name(self) -> String {
        let text = match self {
            Self::LeaderKilled => "leader killed (-9)",
            Self::BothRelaysKilled => "both relays killed (-9)",
            Self::LeaderStopped => "leader stopped (SIGTERM)",
            Self::BothRelaysStopped => "both relays stopped (SIGTERM)",
            Self::LeaderFrozen => "leader frozen and thawed",
            Self::PostgresFast => "PostgreSQL restarted, fast",
            Self::PostgresImmediate => "PostgreSQL restarted, immediate",
            Self::PostgresKilled => "PostgreSQL killed (-9)",
            Self::WalsenderTerminated => "pg_terminate_backend of the walsender",
            Self::BrokerKilled => "broker killed (-9)",
            Self::BrokerStopped => "broker stopped",
            Self::Line(side, cut) => {
                let cut = match cut {
                    Cut::Down => "cut and refused",
                    Cut::ResetInAMessage => "reset in a message",
                    Cut::Silent => "silent, then goes on",
                    Cut::HalfOpen => "half-open",
                    Cut::SilentToServer => "nothing reaches the server",
                    Cut::SilentToClient => "nothing comes back",
                    Cut::Drip => "20 kB/s",
                };
                return format!("line to {side:?}: {cut}");
            }
        };
        text.to_owned()
    }
}
