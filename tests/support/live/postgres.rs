use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outboxd::postgres::{Host, Sessions, SslMode, TargetSessionAttrs};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use super::process::{end, free_port, signal, wait_for_port};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V14,
    V18,
}

#[derive(Clone, Copy, Debug)]
pub enum Shutdown {
    Fast,
    Immediate,
}

/// A cluster of its own in a temporary folder.
pub struct Postgres {
    folder: TempDir,
    home: PathBuf,
    pub port: u16,
    child: Option<Child>,
    has_clock: bool,
}

/// Preloaded into the server: its wall clock is what a test says.
const CLOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/live/clock.c");

/// postgres refuses to run as root.
pub(super) fn server_user() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self")
        .is_ok_and(|this| std::os::unix::fs::MetadataExt::uid(&this) == 0);
    if !is_root {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let user = |name: &str| {
        let line = passwd
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(|id| id.parse().unwrap());
        Some((ids.next()?, ids.next()?))
    };
    Some(
        user("postgres")
            .or_else(|| user("nobody"))
            .expect("a user for the server"),
    )
}

fn own_folder(parent: &Path) -> TempDir {
    let folder = TempDir::with_prefix_in("outboxd-postgres-", parent).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    give_to_server(folder.path());
    folder
}

/// Makes the user that runs PostgreSQL the owner of a file.
pub fn give_to_server(path: &Path) {
    if let Some((uid, gid)) = server_user() {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
}

impl Postgres {
    pub fn start(version: Version, settings: &[(&str, &str)]) -> Self {
        Self::start_on(version, free_port(), settings)
    }

    /// A cluster of its own behind an address that is known already.
    pub fn start_on(version: Version, port: u16, settings: &[(&str, &str)]) -> Self {
        Self::start_in(&std::env::temp_dir(), version, port, settings)
    }

    /// With its data below this folder.
    pub fn start_in(parent: &Path, version: Version, port: u16, settings: &[(&str, &str)]) -> Self {
        let home = super::servers().join(match version {
            Version::V14 => "postgres-14",
            Version::V18 => "postgres-18",
        });
        let folder = own_folder(parent);
        let mut server = Self {
            folder,
            home,
            port,
            child: None,
            has_clock: false,
        };
        server.initialize(settings);
        server.start_again();
        server
    }

    /// From the next start on its wall clock is what [`Postgres::set_clock`] says.
    pub fn take_clock(&mut self) {
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(self.clock().with_extension("so"))
            .arg(CLOCK)
            .status();
        assert!(built.unwrap().success());
        fs::write(self.clock(), [0; 8]).unwrap();
        give_to_server(&self.clock());
        self.has_clock = true;
    }

    /// How far it is ahead of ours, at once.
    pub fn set_clock(&self, ahead_seconds: i64) {
        // In its place: the server has the file mapped.
        let file = File::options().write(true).open(self.clock()).unwrap();
        file.write_all_at(&ahead_seconds.to_ne_bytes(), 0).unwrap();
    }

    fn clock(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// A hot standby of this cluster, which is stopped for the time of the copy. It follows through the
    /// physical slot `standby`, which is made here, and keeps copies of failover slots.
    pub async fn start_standby(&mut self, port: u16) -> Self {
        let slot = "SELECT pg_create_physical_replication_slot('standby', true)";
        self.client().await.batch_execute(slot).await.unwrap();
        self.stop(Shutdown::Fast);
        let folder = own_folder(&std::env::temp_dir());
        let mut standby = Self {
            folder,
            home: self.home.clone(),
            port,
            child: None,
            has_clock: false,
        };
        standby.copy(&self.data(), &standby.data());
        // As a base backup leaves them out: the standby makes its own.
        for slot in fs::read_dir(standby.data().join("pg_replslot")).unwrap() {
            fs::remove_dir_all(slot.unwrap().path()).unwrap();
        }
        let settings = format!(
            "port = {}\nunix_socket_directories = '{}'\nprimary_slot_name = 'standby'\n\
             primary_conninfo = 'host=127.0.0.1 port={} user=postgres dbname=postgres'\n\
             hot_standby_feedback = on\nsync_replication_slots = on\nsynchronized_standby_slots = ''\n",
            standby.port,
            standby.folder.path().display(),
            self.port
        );
        let mut file = File::options()
            .append(true)
            .open(standby.data().join("postgresql.auto.conf"))
            .unwrap();
        file.write_all(settings.as_bytes()).unwrap();
        File::create(standby.data().join("standby.signal")).unwrap();
        self.start_again();
        standby.start_again();
        standby
    }

    fn initialize(&self, settings: &[(&str, &str)]) {
        let output = self
            .command("initdb")
            .args([
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "-N",
                "-D",
            ])
            .arg(self.data())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut configuration = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\n\
             wal_level = logical\nfsync = off\nmax_wal_size = 4GB\nshared_buffers = 64MB\n\
             timezone = 'UTC'\nlog_min_messages = warning\n",
            self.port,
            self.folder.path().display()
        );
        for (name, value) in settings {
            configuration += &format!("{name} = '{value}'\n");
        }
        let file = self.data().join("postgresql.auto.conf");
        fs::write(&file, configuration).unwrap();
        give_to_server(&file);
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        self.command_of(self.home.join("bin").join(program))
    }

    fn command_of(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", self.home.join("lib"));
        if let Some((uid, gid)) = server_user() {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// After a stop or a kill; the remains of a killed one are waited for.
    pub fn start_again(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let log = File::options()
                .create(true)
                .append(true)
                .open(self.log())
                .unwrap();
            let mut postgres = self.command("postgres");
            if self.has_clock {
                postgres
                    .env("LD_PRELOAD", self.clock().with_extension("so"))
                    .env("CLOCK_FILE", self.clock());
            }
            let mut child = postgres
                .arg("-D")
                .arg(self.data())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap();
            let listens = wait_for_port(&mut child, self.port, Duration::from_secs(30));
            self.child = Some(child);
            match listens {
                Ok(()) => return,
                Err(_) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(error) => panic!(
                    "postgres {error}: {}",
                    fs::read_to_string(self.log()).unwrap()
                ),
            }
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub fn stop(&mut self, shutdown: Shutdown) {
        let mut child = self.child.take().expect("it runs");
        signal(
            child.id(),
            match shutdown {
                Shutdown::Fast => "INT",
                Shutdown::Immediate => "QUIT",
            },
        );
        end(&mut child, Duration::from_secs(60)).unwrap();
    }

    /// `kill -9` of the postmaster; its children notice by themselves.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        signal(child.id(), "KILL");
        child.wait().unwrap();
    }

    /// The disk of a server that is stopped, for [`Self::put_back`].
    pub fn keep_disk(&self) {
        self.copy(&self.data(), &self.kept());
    }

    /// The disk as it was kept, in the place of what was written since.
    pub fn put_back(&self) {
        fs::remove_dir_all(self.data()).unwrap();
        self.copy(&self.kept(), &self.data());
    }

    fn kept(&self) -> PathBuf {
        self.folder.path().join("kept")
    }

    fn copy(&self, from: &Path, to: &Path) {
        let mut copy = self.command_of("cp".into());
        assert!(copy.arg("-a").args([from, to]).status().unwrap().success());
    }

    /// Another reader of the slot: it has it until the connection is dropped.
    pub fn stream_elsewhere(&self, slot: &str, publication: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let parameters = "user\0postgres\0database\0postgres\0replication\0database\0\0";
        let start = format!(
            "START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0 (proto_version '1', publication_names '{publication}')\0"
        );
        let length =
            |text: &str, more: usize| u32::try_from(text.len() + more).unwrap().to_be_bytes();
        let mut bytes = Vec::new();
        bytes.extend(length(parameters, 8));
        bytes.extend(196_608_u32.to_be_bytes());
        bytes.extend(parameters.as_bytes());
        bytes.push(b'Q');
        bytes.extend(length(&start, 4));
        bytes.extend(start.as_bytes());
        stream.write_all(&bytes).unwrap();
        stream
    }

    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    pub fn url_of(&self, user: &str) -> String {
        format!("postgresql://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// For a walsender session of the test's own.
    pub fn options(&self, database: &str) -> outboxd::postgres::Options {
        outboxd::postgres::Options {
            hosts: vec![Host::Tcp {
                host: "127.0.0.1".to_owned(),
                port: self.port,
            }],
            user: "postgres".to_owned(),
            password: None,
            database: database.to_owned(),
            ssl_mode: SslMode::Disable,
            ssl_root_cert: None,
            ssl_cert: None,
            ssl_key: None,
            ssl_key_password: None,
            target_session_attrs: TargetSessionAttrs::Any,
            application_name: "somebody else".to_owned(),
            connect_timeout: Duration::from_secs(10),
            wal_sender_timeout: Duration::from_secs(60),
            sessions: Sessions::default(),
        }
    }

    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// A session; waits while the server is still starting.
    pub async fn client(&self) -> Client {
        self.client_of("postgres").await
    }

    pub async fn client_of(&self, database: &str) -> Client {
        let url = format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port);
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match tokio_postgres::connect(&url, NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                Err(error) => {
                    assert!(Instant::now() < deadline, "no session: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal(child.id(), "QUIT");
            drop(end(&mut child, Duration::from_secs(10)));
        }
        if std::thread::panicking() {
            eprintln!(
                "postgres said:\n{}",
                fs::read_to_string(self.log()).unwrap_or_default()
            );
        }
    }
}
