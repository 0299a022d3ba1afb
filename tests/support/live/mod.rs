//! Real servers and the built relay, each ended by the value that started it.

mod acl;
mod browser;
mod certificates;
mod checked;
mod connect;
mod consumer;
mod follower;
mod kafka;
mod pooler;
mod postgres;
mod process;
mod prometheus;
mod proxy;
mod reader;
mod relay;
mod scene;
mod shop;

pub use acl::{Operation, Resource};
pub use browser::{Page, open_page};
pub use certificates::{Certificates, Subject, Validity};
pub use checked::Checked;
pub use connect::{Connect, Worker};
pub use consumer::{Consumer, Event, Tally};
pub use follower::Follower;
pub use kafka::{Kafka, PASSWORD, USER};
pub use pooler::Pooler;
pub use postgres::{Postgres, Shutdown, Version, give_to_server};
pub use process::{free_port, memory_kib, signal};
pub use prometheus::Prometheus;
pub use proxy::{Direction, TcpProxy};
pub use reader::Reader;
pub use relay::Relay;
pub use scene::{Lines, Scene};
pub use shop::Shop;

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Polls `condition` until it holds; panics with `what` after `patience`.
pub async fn wait_until(patience: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Where `scripts/fetch-servers` puts PostgreSQL and Kafka.
fn servers() -> PathBuf {
    PathBuf::from(std::env::var_os("OUTBOXD_TEST_CACHE").expect(
        "OUTBOXD_TEST_CACHE names the folder that scripts/fetch-servers prints; run scripts/test",
    ))
}
