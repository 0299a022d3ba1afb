//! The relay as its users run it: this same program, in a process of its own.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio_postgres::Client;

use super::broker::Broker;
use super::child::{Guarded, Orphan, Program, tail};
use super::error::{DemoError, During};
use super::server::{ROLE, Server};

const SLOT: &str = "outboxd_demo";

const READY_PATIENCE: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longer than the relay's own `relay.shutdown_timeout`.
const STOP_PATIENCE: Duration = Duration::from_secs(40);

/// How to start the relay, the first time and again.
pub(super) struct Recipe {
    program: PathBuf,
    arguments: Vec<OsString>,
    folder: PathBuf,
    http: SocketAddr,
}

impl Recipe {
    pub(super) fn new(server: &Server, broker: &Broker) -> Result<Self, DemoError> {
        let program = std::env::current_exe().during("finding the program itself")?;
        let http = free_address().during("finding a free port")?;
        let folder = server.folder().display();
        let settings = [
            format!("postgres.host={folder}"),
            format!("postgres.user={ROLE}"),
            format!("postgres.database={}", server.shop_database()),
            format!("slot.name={SLOT}"),
            format!("publication.name={SLOT}"),
            "outbox.table=public.outbox".to_owned(),
            "outbox.headers=seq".to_owned(),
            format!("outbox.topic={}", broker.topic_rule),
            format!("kafka.bootstrap.servers={}", broker.bootstrap_servers),
            // Both servers go with the demonstration.
            "position.topic=".to_owned(),
            format!("http.listen={http}"),
            "log.format=text".to_owned(),
        ];
        let mut arguments = vec![OsString::from("run")];
        for setting in settings {
            arguments.extend([OsString::from("--set"), OsString::from(setting)]);
        }
        Ok(Self {
            program,
            arguments,
            folder: server.folder().to_owned(),
            http,
        })
    }

    /// Where the status page is while a relay runs.
    pub(super) const fn http(&self) -> SocketAddr {
        self.http
    }

    pub(super) fn start(&self) -> Result<Relay, DemoError> {
        let log_file = self.folder.join("relay.log");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log_file)
            .during("the relay's log file")?;
        let process = Guarded::spawn(Program {
            path: &self.program,
            arguments: self.arguments.clone(),
            log,
            folder: Path::new("/"),
            user: None,
            orphan: Orphan::Kill,
        })?;
        Ok(Relay { process, log_file })
    }
}

pub(super) struct Relay {
    process: Guarded,
    log_file: PathBuf,
}

impl Relay {
    pub(super) const fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What is inserted and deleted before the slot exists is in no log that it could read.
    pub(super) async fn wait_for_slot(&mut self, shop: &Client) -> Result<(), DemoError> {
        let deadline = tokio::time::Instant::now() + READY_PATIENCE;
        loop {
            let found = shop
                .query_opt(
                    "SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active AND NOT temporary",
                    &[&SLOT],
                )
                .await
                .during("looking for the slot")?;
            if found.is_some() {
                return Ok(());
            }
            if let Ok(ended) = tokio::time::timeout(LOOK_INTERVAL, self.ended()).await {
                return Err(ended);
            }
            if tokio::time::Instant::now() > deadline {
                return Err(DemoError::TooSlow {
                    what: "the start of the relay",
                    patience: READY_PATIENCE,
                    said: tail(&self.log_file),
                });
            }
        }
    }

    /// Ends when the relay does, which it should not by itself. Cancel-safe.
    pub(super) async fn ended(&mut self) -> DemoError {
        match self.process.ended().await {
            Ok(status) => self.failed(status),
            Err(error) => error,
        }
    }

    /// kill -9.
    pub(super) async fn kill(self) -> Result<(), DemoError> {
        self.process.kill().await.map(drop)
    }

    /// SIGTERM: the relay drains, confirms, and ends with status 0.
    pub(super) async fn stop(self) -> Result<(), DemoError> {
        let Self { process, log_file } = self;
        let status = process.stop("TERM", STOP_PATIENCE).await?;
        if status.success() {
            Ok(())
        } else {
            Err(failed(status, &log_file))
        }
    }

    fn failed(&self, status: ExitStatus) -> DemoError {
        failed(status, &self.log_file)
    }
}

fn failed(status: ExitStatus, log_file: &Path) -> DemoError {
    DemoError::Failed {
        program: "the relay",
        ended: status.to_string(),
        said: tail(log_file),
    }
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
