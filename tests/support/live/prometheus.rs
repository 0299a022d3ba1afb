use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::process::{end, free_port, http_get, signal, wait_for_port};
use super::wait_until;

/// Debian's Prometheus with the project's alerts, which do not wait here.
pub struct Prometheus {
    _folder: TempDir,
    port: u16,
    child: Child,
}

impl Prometheus {
    /// Scrapes one target as the job `outboxd`.
    pub fn start(target: &str) -> Self {
        let folder = TempDir::with_prefix("outboxd-prometheus-").unwrap();
        let rules = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/docker/prometheus/outboxd.rules.yml"
        );
        let rules: String = fs::read_to_string(rules)
            .unwrap()
            .lines()
            .map(|line| match line.split_once("        for: ") {
                Some(("", _)) => "        for: 1s\n".to_owned(),
                _ => format!("{line}\n"),
            })
            .collect();
        fs::write(folder.path().join("outboxd.rules.yml"), rules).unwrap();
        let configuration = format!(
            "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }}\n\
             rule_files: [outboxd.rules.yml]\n\
             scrape_configs: [{{ job_name: outboxd, static_configs: [{{ targets: ['{target}'] }}] }}]\n"
        );
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        let port = free_port();
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus: run scripts/install-deps tests");
        wait_for_port(&mut child, port, Duration::from_secs(30)).unwrap();
        Self {
            _folder: folder,
            port,
            child,
        }
    }

    /// The labels of the alerts of this name that fire.
    pub fn firing(&self, name: &str) -> Vec<Value> {
        let Some((200, body)) = http_get(self.port, "/api/v1/alerts") else {
            return Vec::new();
        };
        let answer: Value = serde_json::from_str(&body).unwrap();
        let alerts = answer["data"]["alerts"].as_array().unwrap().iter();
        alerts
            .filter(|alert| alert["state"] == "firing" && alert["labels"]["alertname"] == name)
            .map(|alert| alert["labels"].clone())
            .collect()
    }

    pub async fn wait_for_alert(&self, name: &str) -> Value {
        wait_until(Duration::from_secs(30), name, async || {
            !self.firing(name).is_empty()
        })
        .await;
        self.firing(name).remove(0)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        signal(self.child.id(), "TERM");
        drop(end(&mut self.child, Duration::from_secs(10)));
    }
}
