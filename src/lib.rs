//! outboxd relays a PostgreSQL outbox table to Kafka through one logical replication slot.
//!
//! ```text
//!  PostgreSQL ─> postgres::connect ─> wire ─> postgres::replication
//!                                                   │ XLogData, Keepalive
//!   ┌─ pipeline (pure) ─────────────────────────────▼───────────────────────────────────┐
//!   │  pgoutput::decode ─> RelationCache ─> outbox::Change ─> EventRouter ─> Record ─┐  │
//!   │        └─ Begin, Commit(end LSN) ────────────────────> AckTracker ── Ticket ───┤  │
//!   └──────────────────────────▲───────────────────────────────┬─────────────────────┼──┘
//!        DeliveryReport(Ticket)│            confirmed flush LSN │   (Ticket, Record) │
//!   Kafka ─> kafka::delivery ──┘   postgres::replication ─> status update             │
//!                                                    Kafka <─ kafka::publisher <──────┘
//! ```
//!
//! Pure rooms (no socket, clock, thread or log line): [`lsn`], [`timestamp`], [`secret`], [`reader`], [`java`],
//! [`wire`], [`pgoutput`], [`outbox`], [`router`], [`ack`], [`pipeline`], [`journal`], [`connect`].
//! Shell: [`postgres`], [`kafka`], [`relay`], [`observe`]. Edge: [`config`], [`cli`], [`errand`], [`check`], [`redrive`], [`shadow`], [`setup`], [`slot`], [`snapshot`], [`status`], [`demo`], [`healthcheck`].

pub mod ack;
pub mod check;
pub mod cli;
pub mod config;
pub mod connect;
pub mod demo;
pub mod errand;
pub mod healthcheck;
pub mod java;
pub mod journal;
pub mod kafka;
pub mod lsn;
pub mod observe;
pub mod outbox;
pub mod pgoutput;
pub mod pipeline;
pub mod postgres;
pub mod reader;
pub mod redrive;
pub mod relay;
pub mod router;
pub mod secret;
pub mod setup;
pub mod shadow;
pub mod slot;
pub mod snapshot;
pub mod status;
pub mod timestamp;
pub mod wire;
