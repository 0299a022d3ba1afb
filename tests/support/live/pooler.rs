use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::Postgres;
use super::postgres::{give_to_server, server_user};
use super::process::{end, free_port, signal, wait_for_port};

/// pgbouncer before a server, as Debian has it.
pub struct Pooler {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    pub fn start(postgres: &Postgres) -> Self {
        let (folder, port) = (
            TempDir::with_prefix("outboxd-pooler-").unwrap(),
            free_port(),
        );
        let configuration = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n",
            postgres.port
        );
        std::fs::write(&configuration, text).unwrap();
        give_to_server(folder.path());
        give_to_server(&configuration);
        let mut command = Command::new("pgbouncer");
        command.arg("-q").arg(&configuration).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if let Some((uid, gid)) = server_user() {
            command.uid(uid).gid(gid);
        }
        let mut child = command
            .spawn()
            .expect("pgbouncer: scripts/install-deps tests");
        wait_for_port(&mut child, port, Duration::from_secs(20)).unwrap();
        Self {
            child,
            port,
            _folder: folder,
        }
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        signal(self.child.id(), "INT");
        drop(end(&mut self.child, Duration::from_secs(10)));
    }
}
