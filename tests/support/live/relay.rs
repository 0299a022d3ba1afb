use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::process::{end, free_port, http_get, memory_kib, signal};
use super::{Kafka, Postgres, wait_until};

const SIGABRT: i32 = 6;

/// The built binary.
pub struct Relay {
    child: Child,
    http: u16,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Relay {
    /// `outboxd run` with slot and publication `outbox`, and further settings over it.
    pub fn start(postgres: &Postgres, kafka: &Kafka, settings: &[&str]) -> Self {
        Self::start_with(&Self::args(postgres, kafka, settings), &[])
    }

    /// The same with `--accept-gap`.
    pub fn start_accepting(postgres: &Postgres, kafka: &Kafka, settings: &[&str]) -> Self {
        let mut args = Self::args(postgres, kafka, settings);
        args.push("--accept-gap".to_owned());
        Self::start_with(&args, &[])
    }

    /// The same with `--until current`.
    pub fn start_until_current(postgres: &Postgres, kafka: &Kafka, settings: &[&str]) -> Self {
        let mut args = Self::args(postgres, kafka, settings);
        args.extend(["--until", "current"].map(str::to_owned));
        Self::start_with(&args, &[])
    }

    /// One that ends as if killed when it passes `edge` (of `src/relay/kill_point.rs`) for the nth time.
    pub fn start_to_be_killed(
        postgres: &Postgres,
        kafka: &Kafka,
        settings: &[&str],
        edge: &str,
        nth: u32,
    ) -> Self {
        let kill_at = format!("{edge}:{nth}");
        let args = Self::args(postgres, kafka, settings);
        Self::start_with(&args, &[("KILL_AT", &kill_at)])
    }

    /// The command line of [`Self::start`].
    pub fn args(postgres: &Postgres, kafka: &Kafka, settings: &[&str]) -> Vec<String> {
        let mut args = vec!["run".to_owned()];
        let base = [
            format!("postgres.url={}", postgres.url()),
            "slot.name=outbox".to_owned(),
            "publication.name=outbox".to_owned(),
            "outbox.headers=seq".to_owned(),
            format!("kafka.bootstrap.servers={}", kafka.servers()),
        ];
        for setting in base
            .into_iter()
            .chain(settings.iter().map(|s| (*s).to_owned()))
        {
            args.extend(["--set".to_owned(), setting]);
        }
        args
    }

    /// Any command line; HTTP goes to a free port.
    pub fn start_with(args: &[String], environment: &[(&str, &str)]) -> Self {
        let http = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_outboxd"));
        // What steers the tests is no setting of the relay.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OUTBOXD_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .args(args)
            .env("OUTBOXD_HTTP_LISTEN", format!("127.0.0.1:{http}"))
            .env("OUTBOXD_LOG_FORMAT", "json")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let sink = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        Self {
            child,
            http,
            log,
            reader: Some(reader),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub fn logged(&self, text: &str) -> bool {
        self.log
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains(text))
    }

    /// Status code and body.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        http_get(self.http, path)
    }

    /// Where its page is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.http)
    }

    pub fn http_address(&self) -> String {
        format!("127.0.0.1:{}", self.http)
    }

    pub fn status(&self) -> Option<serde_json::Value> {
        serde_json::from_str(&self.get("/status")?.1).ok()
    }

    /// A sample of `/metrics` by its full name with labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics")?;
        let line = text
            .lines()
            .find(|line| line.strip_prefix(name).is_some_and(|r| r.starts_with(' ')))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    pub async fn wait_for_state(&self, state: &str) {
        let what = format!("state {state}; the log: {:#?}", self.log());
        wait_until(Duration::from_secs(60), &what, async || {
            self.status().is_some_and(|status| status["state"] == state)
        })
        .await;
    }

    /// The exit status of one that has ended; its log is complete then.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().unwrap()?;
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        Some(status)
    }

    /// Until it has come to the edge at which it was to die.
    pub async fn dies(mut self) {
        let mut status = None;
        wait_until(Duration::from_secs(60), "the end at its edge", async || {
            status = self.ended();
            status.is_some()
        })
        .await;
        let signal = status.and_then(|status| status.signal());
        assert_eq!(signal, Some(SIGABRT), "{status:?}");
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// SIGTERM, and the exit status.
    pub fn stop(mut self) -> ExitStatus {
        signal(self.pid(), "TERM");
        end(&mut self.child, Duration::from_secs(60)).unwrap()
    }

    /// As [`Relay::stop`], with the whole log.
    pub fn stop_and_log(mut self) -> (ExitStatus, Vec<String>) {
        signal(self.pid(), "TERM");
        let status = end(&mut self.child, Duration::from_secs(60)).unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status, self.log())
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The exit status of a relay that ends by itself.
    pub fn wait(mut self) -> (ExitStatus, Vec<String>) {
        let status = end(&mut self.child, Duration::from_secs(120)).unwrap();
        (status, self.log())
    }

    pub fn resident_kib(&self) -> u64 {
        memory_kib(self.pid(), "VmRSS")
    }

    pub fn peak_kib(&self) -> u64 {
        memory_kib(self.pid(), "VmHWM")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
        if std::thread::panicking() {
            eprintln!("the relay said:");
            for line in self.log() {
                eprintln!("{line}");
            }
        }
    }
}
