//! `outboxd status`: the slot as the server sees it, and what a running relay says of itself.

use serde_json::{Value, json};

use crate::cli::{ReportFormat, StatusArgs, exit};
use crate::config::Config;
use crate::healthcheck;
use crate::observe::{Problem, answer, escaped};
use crate::postgres::slot::{Leader, SlotDescription};
use crate::postgres::{self, PostgresError};

/// Counts by topic and recent changes, with room.
const MAX_STATUS_BYTES: u64 = 1 << 20;

/// Status 0: the slot is there and not lost, somebody has the lead, and the relay that was asked is
/// not in trouble.
pub async fn run(config: &Config, args: &StatusArgs) -> Result<u8, Problem> {
    let slot = look(config).await;
    let relay = ask(config).await;
    let is_well = slot.as_ref().is_ok_and(Slot::is_well)
        && !matches!(&relay, Ok(status) if !status["error"].is_null());
    let text = match args.format {
        ReportFormat::Text => lines(config, &slot, &relay).join("\n"),
        ReportFormat::Json => {
            let or_error = |found: Result<Value, String>| {
                found.unwrap_or_else(|error| json!({"unreachable": error}))
            };
            let slot = slot.map(|slot| slot.json());
            let slot = or_error(slot.map_err(|error| error.to_string()));
            json!({"slot": slot, "relay": or_error(relay)}).to_string()
        }
    };
    answer(&format!("{text}\n"))?;
    Ok(if is_well { exit::DRAINED } else { exit::FAILED })
}

struct Slot {
    found: Option<SlotDescription>,
    leader: Option<Leader>,
}

async fn look(config: &Config) -> Result<Slot, PostgresError> {
    let client = postgres::connect(&config.postgres).await?;
    Ok(Slot {
        found: SlotDescription::read(&client, &config.slot.name).await?,
        leader: Leader::read(&client, &config.slot.name).await?,
    })
}

/// What `/status` says, or why it says nothing.
async fn ask(config: &Config) -> Result<Value, String> {
    let Some(listen) = config.http.listen.clone() else {
        return Err("http.listen is empty".to_owned());
    };
    let asked = tokio::task::spawn_blocking(move || {
        healthcheck::get(&listen, "/status", MAX_STATUS_BYTES)
            .map_err(|error| format!("no answer from {listen}: {error}"))
    });
    let answer = asked.await.map_err(|error| error.to_string())??;
    serde_json::from_str(answer.body()).map_err(|_| "something that is no relay answers".to_owned())
}

impl Slot {
    fn is_well(&self) -> bool {
        let slot = self.found.as_ref();
        self.leader.is_some() && slot.is_some_and(|slot| slot.lost_because().is_none())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![(
            "lead",
            self.leader.as_ref().map_or_else(
                || "nobody has it: no relay runs".to_owned(),
                |leader| {
                    let from = leader.client.as_deref().unwrap_or("this machine");
                    format!("process {} from {from}", leader.pid)
                },
            ),
        )];
        let Some(slot) = &self.found else {
            facts.push(("slot", "is not there".to_owned()));
            return facts;
        };
        let lsn = |lsn: Option<crate::lsn::Lsn>| lsn.map_or("-".to_owned(), |lsn| lsn.to_string());
        let size = |bytes| bytesize::ByteSize(bytes).to_string();
        let used = slot.holder.as_ref().map_or_else(
            || "no".to_owned(),
            |holder| format!("by process {}", holder.pid),
        );
        facts.extend([
            ("in use", used),
            (
                "held back",
                format!(
                    "{} from {}",
                    size(slot.retained_bytes()),
                    lsn(slot.restart_lsn)
                ),
            ),
            (
                "not confirmed",
                format!(
                    "{} from {}",
                    size(slot.lag_bytes()),
                    lsn(slot.confirmed_flush_lsn)
                ),
            ),
        ]);
        if let Some(status) = slot.wal_status {
            facts.push(("WAL status", status.as_str().to_owned()));
        }
        if let Some(left) = slot.safe_wal_bytes {
            let left = u64::try_from(left).unwrap_or(0);
            facts.push(("until it may be lost", size(left)));
        }
        if let Some(reason) = slot.lost_because() {
            facts.push(("lost", reason));
        }
        facts
    }

    fn json(&self) -> Value {
        let slot = self.found.as_ref();
        json!({
            "exists": slot.is_some(),
            "leader_pid": self.leader.as_ref().map(|leader| leader.pid),
            "active_pid": slot.and_then(|slot| slot.holder.as_ref()).map(|holder| holder.pid),
            "wal_status": slot.and_then(|slot| slot.wal_status).map(|status| status.as_str()),
            "retained_bytes": slot.map(SlotDescription::retained_bytes),
            "confirmed_lag_bytes": slot.map(SlotDescription::lag_bytes),
            "safe_wal_bytes": slot.and_then(|slot| slot.safe_wal_bytes),
            "confirmed_flush_lsn": slot.and_then(|slot| slot.confirmed_flush_lsn).map(|lsn| lsn.to_string()),
            "lost_because": slot.and_then(SlotDescription::lost_because),
        })
    }
}

fn lines(
    config: &Config,
    slot: &Result<Slot, PostgresError>,
    relay: &Result<Value, String>,
) -> Vec<String> {
    let mut lines = vec![format!("Slot {}, as the server sees it", config.slot.name)];
    match slot {
        Ok(slot) => {
            let facts = slot.facts().into_iter();
            lines.extend(facts.map(|(name, found)| fact(name, &found)));
        }
        Err(error) => lines.push(format!("  {error}")),
    }
    lines.push("Relay".to_owned());
    match relay {
        Ok(status) => lines.extend(told(status)),
        Err(error) => lines.push(format!("  {error}")),
    }
    lines.iter().map(|line| escaped(line).to_string()).collect()
}

fn fact(name: &str, found: &str) -> String {
    format!("  {name:<21}{found}")
}

/// The lines of a relay's own word.
fn told(status: &Value) -> Vec<String> {
    let of = |field: &str| match &status[field] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut lines: Vec<String> = [
        (
            "state",
            format!("{} since {}", of("state"), of("state_since")),
        ),
        ("lag", format!("{} s", of("lag_seconds"))),
        ("in flight", format!("{} records", of("in_flight_records"))),
        ("published", format!("{} records", of("records_published"))),
        ("confirmed up to", of("confirmed_lsn")),
    ]
    .into_iter()
    .map(|(name, found)| fact(name, &found))
    .collect();
    let error = &status["error"];
    for (name, field) in [("error", "message"), ("", "detail"), ("what to do", "hint")] {
        if let Some(text) = error[field].as_str() {
            lines.push(fact(name, text));
        }
    }
    lines
}
