//! The command line exactly as typed. Nothing here can fail for the environment's reasons, so
//! `--help` and `--version` always work.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::kafka::is_valid_name;

/// Relays a PostgreSQL outbox table to Kafka through one logical replication slot.
#[derive(Debug, Parser)]
#[command(name = "outboxd", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Stream committed outbox rows to Kafka until stopped
    Run(RunArgs),
    /// Look at every precondition and show what a row would become, changing nothing
    Check(CheckArgs),
    /// Show the slot as the server sees it, and what a running relay says of itself
    Status(StatusArgs),
    /// Print the SQL for what the server lacks, or run it
    Setup(SetupArgs),
    /// Drop or advance the slot, after its name was asked for
    #[command(subcommand)]
    Slot(SlotCommand),
    /// Publish rows that are in the outbox table once more, while a relay streams
    Snapshot(SnapshotArgs),
    /// Run beside Debezium on a slot of its own, and compare what would be published with the topics
    Shadow(ShadowArgs),
    /// Publish dead letters again, once what stood in their way is gone
    Redrive(RedriveArgs),
    /// Print the TOML that does the same as a connector's file, with a note for every property
    Convert(ConvertArgs),
    /// Watch it work: a temporary PostgreSQL, an in-process Kafka, orders being written
    Demo(DemoArgs),
    /// Ask the relay on this machine whether it lives, and end with status 0 if so
    Healthcheck(HealthcheckArgs),
}

/// Where the configuration comes from: defaults < file < environment (OUTBOXD_SECTION_KEY) < --set.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    /// outboxd's own file (TOML)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["connector", "worker"])]
    pub config: Option<PathBuf>,
    /// A Debezium connector's file: JSON, .properties, Strimzi YAML or Debezium Server's properties
    #[arg(long, value_name = "FILE")]
    pub connector: Option<PathBuf>,
    /// The Kafka Connect worker's properties
    #[arg(long, value_name = "FILE", requires = "connector")]
    pub worker: Option<PathBuf>,
    /// Set one value; may be repeated
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Show key, headers and value of the sample, which are masked otherwise
    #[arg(long)]
    pub show_payload: bool,
    /// Show the settings that nobody set, too
    #[arg(long)]
    pub all: bool,
    /// The longest outage of relay or Kafka after which the slot is still to be there
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = humantime::parse_duration)]
    pub outage: Duration,
    /// A topic that events go to, beside that of the table's first row; may be repeated
    #[arg(long, value_name = "TOPIC", value_parser = topic_name)]
    pub topic: Vec<String>,
    /// Lines for people or one JSON object
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Lines for people or one JSON object
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

#[derive(Args, Debug)]
pub struct SetupArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Run the statements instead of printing them; the relay makes its slot by itself
    #[arg(long)]
    pub apply: bool,
    /// Connect as this administrator instead of the relay's own role
    #[arg(long = "as", value_name = "URL")]
    pub administrator: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Text,
    Json,
}

#[derive(Args, Debug)]
pub struct ConvertArgs {
    /// A Debezium connector's file: JSON, .properties, Strimzi YAML or Debezium Server's properties
    pub connector: PathBuf,
    /// The Kafka Connect worker's properties
    pub worker: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where records go
    #[arg(long, value_enum, default_value_t = SinkArg::Kafka)]
    pub sink: SinkArg,
    /// End once everything that was committed before the start is confirmed
    #[arg(long, value_enum)]
    pub until: Option<UntilArg>,
    /// Stream although the slot or the server is not what the position journal knows: once, with the
    /// range in the log
    #[arg(long)]
    pub accept_gap: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SinkArg {
    Kafka,
    /// One JSON line per record; a record counts as delivered when its line is written
    Stdout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UntilArg {
    Current,
}

#[derive(Debug, Subcommand)]
pub enum SlotCommand {
    /// Drop the slot: what it has and is not confirmed is given up
    Drop(SlotDropArgs),
    /// Move the slot forward: what lies between is never sent
    Advance(SlotAdvanceArgs),
}

#[derive(Args, Debug)]
pub struct SlotDropArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The slot's name, instead of being asked for it
    #[arg(long, value_name = "NAME")]
    pub yes: Option<String>,
    /// End the session that uses the slot, or has its lead
    #[arg(long)]
    pub terminate: bool,
}

#[derive(Args, Debug)]
pub struct SlotAdvanceArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// A position of the log such as 0/1A2B3C4D, or current: where the server writes now
    #[arg(long, value_name = "LSN|current")]
    pub to: AdvanceTo,
    /// The slot's name, instead of being asked for it
    #[arg(long, value_name = "NAME")]
    pub yes: Option<String>,
}

/// A position as it is written, which only the command can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdvanceTo {
    Current,
    Position(String),
}

impl std::str::FromStr for AdvanceTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hexadecimal = |part: &str| {
            (1..=8).contains(&part.len()) && part.chars().all(|c| c.is_ascii_hexdigit())
        };
        match text.split_once('/') {
            None if text.eq_ignore_ascii_case("current") => Ok(Self::Current),
            Some((high, low)) if hexadecimal(high) && hexadecimal(low) => {
                Ok(Self::Position(text.to_owned()))
            }
            _ => Err("expected a position such as 0/1A2B3C4D, or current".to_owned()),
        }
    }
}

#[derive(Args, Debug)]
pub struct ShadowArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// How long, as 30m or 24h; without it until SIGTERM
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub duration: Option<Duration>,
    /// End once so many events are compared
    #[arg(long, value_name = "N")]
    pub events: Option<u64>,
    /// The slot, made for it and dropped at the end; by default the relay's with _shadow
    #[arg(long, value_name = "NAME")]
    pub slot: Option<String>,
}

#[derive(Args, Debug)]
pub struct SnapshotArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Only the rows for which this SQL is true, as after WHERE
    #[arg(long = "where", value_name = "SQL")]
    pub condition: Option<String>,
    /// In this order, as after ORDER BY; by default by an integer primary key, else as the rows lie
    #[arg(long, value_name = "SQL")]
    pub order_by: Option<String>,
    /// At most so many rows
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// At most so many rows per second
    #[arg(long, value_name = "N")]
    pub rate: Option<NonZeroU32>,
    /// Say what would be published, by topic, and publish nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Leave out rows that cannot be routed, instead of stopping at the first
    #[arg(long)]
    pub skip_unroutable: bool,
    /// The header that marks each record of the run; none with an empty name
    #[arg(long, value_name = "NAME", default_value = "outboxd.replay")]
    pub header: String,
    /// The header's value; by default the time and four random digits
    #[arg(long, value_name = "TEXT")]
    pub run_id: Option<String>,
}

#[derive(Args, Debug)]
pub struct RedriveArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The dead-letter topic, instead of the configured one
    #[arg(long, value_name = "TOPIC", value_parser = topic_name)]
    pub topic: Option<String>,
    /// Only the dead letters of these events; may be repeated
    #[arg(long, value_name = "ID")]
    pub event_id: Vec<String>,
    /// At most so many; letters that fail again are not counted
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Say what would be published, as far as the brokers can be asked, and publish nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// A name that Kafka allows: brokers would be blamed for another one.
fn topic_name(text: &str) -> Result<String, String> {
    match is_valid_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-', and is not . or ..".to_owned()),
    }
}

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Publish to this broker instead of the in-process one
    #[arg(long, value_name = "HOST:PORT")]
    pub broker: Option<String>,
    /// Orders that the shop takes; each gives three events
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub orders: u32,
    /// Folder with initdb and postgres; found by itself where Debian puts them
    #[arg(long, value_name = "DIR")]
    pub postgres_bin: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct HealthcheckArgs {
    /// Where it listens; without it OUTBOXD_HTTP_LISTEN, then 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Ask whether events flow, which a standby denies
    #[arg(long)]
    pub ready: bool,
}

/// Exit statuses, as in the manual of operations.
pub mod exit {
    /// Stopped on request, drained and confirmed.
    pub const DRAINED: u8 = 0;
    /// Failed; the message says why.
    pub const FAILED: u8 = 1;
    /// The command line is wrong (EX_USAGE).
    pub const USAGE: u8 = 64;
    /// The configuration is wrong (EX_CONFIG).
    pub const CONFIG: u8 = 78;
}
