use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::process::{end, free_port, http, signal, wait_for_port};
use super::{Kafka, Postgres, wait_until};

/// A Kafka Connect worker with Debezium's connector, of which it runs one: `shop`.
pub struct Connect {
    folder: TempDir,
    port: u16,
    child: Option<Child>,
}

/// How a worker keeps offsets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    Standalone,
    Distributed,
}

const PATIENCE: Duration = Duration::from_secs(90);

impl Connect {
    pub const CONNECTOR: &str = "shop";

    /// One that is up quickly.
    pub fn start(kafka: &Kafka, worker: Worker) -> Self {
        let jvm = [
            "-Xms128m",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ];
        Self::start_with(kafka, worker, &jvm)
    }

    pub fn start_with(kafka: &Kafka, worker: Worker, jvm: &[&str]) -> Self {
        let folder = TempDir::with_prefix("outboxd-connect-").unwrap();
        let port = free_port();
        let stores = match worker {
            Worker::Standalone => {
                let file = folder.path().join("offsets");
                format!("offset.storage.file.filename={}\n", file.display())
            }
            Worker::Distributed => "group.id=connect\n\
                offset.storage.topic=connect-offsets\noffset.storage.replication.factor=1\n\
                config.storage.topic=connect-configs\nconfig.storage.replication.factor=1\n\
                status.storage.topic=connect-status\nstatus.storage.replication.factor=1\n\
                scheduled.rebalance.max.delay.ms=0\n"
                .to_owned(),
        };
        let properties = format!(
            "bootstrap.servers={}\nlisteners=http://127.0.0.1:{port}\nrest.advertised.host.name=127.0.0.1\n\
             plugin.path={}\nplugin.discovery=hybrid_warn\n\
             key.converter=org.apache.kafka.connect.storage.StringConverter\n\
             value.converter=org.apache.kafka.connect.storage.StringConverter\n{stores}",
            kafka.servers(),
            super::servers().join("debezium-3.6.1.Final").display(),
        );
        fs::write(folder.path().join("worker.properties"), properties).unwrap();
        let log4j = "Configuration:\n  Appenders:\n    Console:\n      name: OUT\n      PatternLayout: {pattern: '%d %p %c %m%n%throwable'}\n  Loggers:\n    Root:\n      level: INFO\n      AppenderRef: [{ref: OUT}]\n";
        fs::write(folder.path().join("log4j2.yaml"), log4j).unwrap();
        let main = match worker {
            Worker::Standalone => "ConnectStandalone",
            Worker::Distributed => "ConnectDistributed",
        };
        let out = File::create(folder.path().join("log")).unwrap();
        let mut child = Command::new("java")
            .args(jvm)
            .arg(format!(
                "-Dlog4j2.configurationFile={}",
                folder.path().join("log4j2.yaml").display()
            ))
            .arg("-cp")
            .arg(super::servers().join("worker-4.3.1").join("*"))
            .arg(format!("org.apache.kafka.connect.cli.{main}"))
            .arg(folder.path().join("worker.properties"))
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        let listens = wait_for_port(&mut child, port, PATIENCE);
        let this = Self {
            folder,
            port,
            child: Some(child),
        };
        if let Err(error) = listens {
            panic!("Kafka Connect {error}: {}", this.log());
        }
        this
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn worker_file(&self) -> PathBuf {
        self.folder.path().join("worker.properties")
    }

    pub fn connector_file(&self) -> PathBuf {
        self.folder.path().join("connector.json")
    }

    /// Makes the connector, of slot and publication `outbox`, and waits for its stream.
    pub async fn create(&self, postgres: &Postgres) {
        self.create_with(postgres, &[]).await;
    }

    /// The same with further properties.
    pub async fn create_with(&self, postgres: &Postgres, more: &[(&str, &str)]) {
        self.configure(postgres, more).await;
        self.wait_for_stream(postgres).await;
    }

    /// A connector that is stopped stays so.
    pub async fn configure(&self, postgres: &Postgres, more: &[(&str, &str)]) {
        let mut config = json!({
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": postgres.port.to_string(),
            "database.user": "postgres",
            "database.password": "unused",
            "database.dbname": "postgres",
            "topic.prefix": "shop",
            "plugin.name": "pgoutput",
            "slot.name": "outbox",
            "publication.name": "outbox",
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.outbox",
            "snapshot.mode": "no_data",
            "transforms": "outbox",
            "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.table.fields.additional.placement": "seq:header:seq",
        });
        for (name, value) in more {
            config[*name] = json!(value);
        }
        let file = json!({"name": Self::CONNECTOR, "config": config});
        fs::write(self.connector_file(), file.to_string()).unwrap();
        wait_until(PATIENCE, "the connector is made", async || {
            self.ask("PUT", "/config", Some(&config))
                .is_some_and(|(code, _)| code < 300)
        })
        .await;
    }

    pub async fn wait_for_stream(&self, postgres: &Postgres) {
        self.wait_for_slot(postgres, true).await;
    }

    /// Until the worker has stored its last offset and let go of the slot.
    pub async fn stop_connector(&self, postgres: &Postgres) {
        let (code, text) = self.ask("PUT", "/stop", None).unwrap();
        assert_eq!(code, 204, "{text}");
        wait_until(PATIENCE, "the connector is stopped", async || {
            let status = self.ask("GET", "/status", None);
            status.is_some_and(|(_, status)| status["connector"]["state"] == "STOPPED")
        })
        .await;
        self.wait_for_slot(postgres, false).await;
    }

    pub async fn resume_connector(&self, postgres: &Postgres) {
        let (code, text) = self.ask("PUT", "/resume", None).unwrap();
        assert_eq!(code, 202, "{text}");
        self.wait_for_stream(postgres).await;
    }

    /// Why the connector ends when it is resumed.
    pub async fn fails_to_resume(&self) -> String {
        let (code, text) = self.ask("PUT", "/resume", None).unwrap();
        assert_eq!(code, 202, "{text}");
        let mut trace = String::new();
        wait_until(PATIENCE, "the connector fails", async || {
            let status = self.ask("GET", "/status", None);
            let (_, status) = status.unwrap_or_default();
            let task = &status["tasks"][0];
            trace = task["trace"].as_str().unwrap_or_default().to_owned();
            task["state"] == "FAILED"
        })
        .await;
        trace
    }

    /// The offset of the connector, which is stopped, is set to a position in bytes.
    pub fn set_offset(&self, lsn: i64) {
        let offset =
            json!({"lsn": lsn, "lsn_commit": lsn, "lsn_proc": lsn, "messageType": "COMMIT"});
        let offsets = json!({"offsets": [{"partition": {"server": "shop"}, "offset": offset}]});
        let (code, text) = self.ask("PATCH", "/offsets", Some(&offsets)).unwrap();
        assert_eq!(code, 200, "{text}");
    }

    async fn wait_for_slot(&self, postgres: &Postgres, active: bool) {
        let client = postgres.client().await;
        let sql = "SELECT active FROM pg_replication_slots WHERE slot_name = 'outbox'";
        let what = format!("the slot is active: {active}");
        wait_until(PATIENCE, &what, async || {
            let row = client.query_opt(sql, &[]).await.unwrap();
            let status = self.ask("GET", "/status", None);
            let failed = status.is_some_and(|(_, status)| status.to_string().contains("FAILED"));
            assert!(!failed, "the connector failed: {}", self.log());
            row.is_some_and(|row| row.get::<_, bool>(0) == active)
        })
        .await;
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let path = format!("/connectors/{}{path}", Self::CONNECTOR);
        let body = body.map(Value::to_string).unwrap_or_default();
        let (code, text) = http(self.port, method, &path, &body)?;
        Some((code, serde_json::from_str(&text).unwrap_or_default()))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// The worker ends; what it has stored stays.
    pub fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        signal(child.id(), "TERM");
        end(&mut child, Duration::from_secs(60)).unwrap();
    }
}

impl Drop for Connect {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
