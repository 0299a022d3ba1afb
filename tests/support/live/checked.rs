use std::process::Command;

use serde_json::Value;

/// What `outboxd check` said and how it ended.
pub struct Checked {
    pub status: i32,
    pub report: Value,
    pub text: String,
    /// Standard error.
    pub said: String,
}

impl Checked {
    /// Of the database at a URL and the brokers, with slot and publication `outbox` and further settings
    /// over it.
    pub fn by([url, brokers]: [String; 2], settings: &[&str], flags: &[&str]) -> Self {
        let base = [
            format!("postgres.url={url}"),
            format!("kafka.bootstrap.servers={brokers}"),
            "slot.name=outbox".to_owned(),
            "publication.name=outbox".to_owned(),
            "outbox.headers=seq".to_owned(),
        ];
        let settings = settings.iter().map(|setting| (*setting).to_owned());
        let settings = base.into_iter().chain(settings);
        let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
            .arg("check")
            .args(settings.flat_map(|setting| ["--set".to_owned(), setting]))
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        Self {
            status: output.status.code().unwrap(),
            report: serde_json::from_str(&text).unwrap_or_default(),
            text,
            said: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// `name: found` of each check that is not well, with what to do.
    pub fn faults(&self) -> Vec<String> {
        let checks = self.report["checks"].as_array().unwrap();
        let faults = checks.iter().filter(|check| check["outcome"] != "ok");
        faults.map(line).collect()
    }

    pub fn found(&self, name: &str) -> Vec<String> {
        let checks = self.report["checks"].as_array().unwrap();
        let named = checks.iter().filter(|check| check["name"] == name);
        named.map(line).collect()
    }
}

fn line(check: &Value) -> String {
    let of = |field: &str| check[field].as_str().unwrap_or_default();
    let parts = [
        format!("{} {}: {}", of("outcome"), of("name"), of("found")),
        of("remedy").to_owned(),
        of("sql").to_owned(),
        of("command").to_owned(),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" | ")
}
