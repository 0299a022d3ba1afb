//! Child processes that end when the demo ends, however it ends.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use super::error::{DemoError, During};

/// The shell leaves a watcher behind and becomes the program, so that process id, exit status and
/// signals are the program's own. The watcher passes on the signals that it reads from the demo's
/// pipe. When the pipe ends without a farewell the demo is gone, killed with -9 perhaps: the
/// watcher then ends the program and removes the folder.
const GUARD: &str = r#"
exec 3<&0 </dev/null
program=$$ folder=$1 last=$2
shift 2
(
  while read -r word; do
    [ "$word" = farewell ] && exit
    kill -s "$word" "$program"
  done <&3
  kill -s "$last" "$program"
  [ -n "$folder" ] || exit
  tries=0
  while kill -0 "$program" && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
  kill -s KILL "$program"
  rm -rf "$folder"
) >/dev/null 2>&1 &
exec "$@" 3<&-
"#;

pub(super) struct Program<'a> {
    pub(super) path: &'a Path,
    pub(super) arguments: Vec<OsString>,
    pub(super) log: File,
    /// Working folder of the program.
    pub(super) folder: &'a Path,
    pub(super) user: Option<&'a User>,
    /// What the watcher does when the demo is gone.
    pub(super) orphan: Orphan<'a>,
}

pub(super) enum Orphan<'a> {
    Kill,
    InterruptAndRemove(&'a Path),
}

/// Whom to be instead of root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// From the text of `/etc/passwd`: name, password, uid, gid and more, separated by colons.
    pub(super) fn find(passwd: &str, name: &str) -> Option<Self> {
        let line = passwd
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(Self {
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    }

    pub(super) fn apply(&self, command: &mut Command) {
        // Supplementary groups of root are dropped by the standard library along with the uid.
        command.uid(self.uid).gid(self.gid);
    }
}

pub(super) struct Guarded {
    child: Child,
    pipe: ChildStdin,
    pid: u32,
}

impl Guarded {
    pub(super) fn spawn(program: Program<'_>) -> Result<Self, DemoError> {
        let (folder, last) = match program.orphan {
            Orphan::Kill => (PathBuf::new(), "KILL"),
            Orphan::InterruptAndRemove(folder) => (folder.to_owned(), "INT"),
        };
        let log = program.log.try_clone().during("the log file")?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", GUARD, "sh"])
            .arg(folder)
            .arg(last)
            .arg(program.path)
            .args(program.arguments)
            .current_dir(program.folder)
            .stdin(Stdio::piped())
            .stdout(program.log)
            .stderr(log)
            // Ctrl-C is for the demo, which ends its children in order.
            .process_group(0)
            .kill_on_drop(false);
        // Settings of another relay would find their way into this one.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"OUTBOXD_") {
                command.env_remove(name);
            }
        }
        if let Some(user) = program.user {
            user.apply(&mut command);
        }
        let mut child = command.spawn().during("/bin/sh does not start")?;
        let pipe = child.stdin.take();
        match (pipe, child.id()) {
            (Some(pipe), Some(pid)) => Ok(Self { child, pipe, pid }),
            _ => Err(std::io::Error::other("no pipe to it")).during("a child process"),
        }
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Cancel-safe.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, DemoError> {
        self.child.wait().await.during("a child process")
    }

    /// SIGKILL, and the status of it.
    pub(super) async fn kill(mut self) -> Result<ExitStatus, DemoError> {
        self.child.start_kill().during("kill -9")?;
        self.farewell().await
    }

    /// Asks with `signal`, and kills what has not ended after `patience`.
    pub(super) async fn stop(
        mut self,
        signal: &str,
        patience: Duration,
    ) -> Result<ExitStatus, DemoError> {
        // A closed pipe means that the watcher is gone, with the program or before it: the wait
        // below has a limit and an end either way.
        drop(self.pipe.write_all(format!("{signal}\n").as_bytes()).await);
        if tokio::time::timeout(patience, self.child.wait())
            .await
            .is_err()
        {
            self.child.start_kill().during("kill -9")?;
        }
        self.farewell().await
    }

    async fn farewell(mut self) -> Result<ExitStatus, DemoError> {
        let status = self.child.wait().await.during("a child process");
        drop(self.pipe.write_all(b"farewell\n").await);
        status
    }
}

/// The end of a log file, for an error's detail.
pub(super) fn tail(log: &Path) -> String {
    const LINES: usize = 8;
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn sleeper(folder: &Path, orphan: Orphan<'_>) -> Guarded {
        let log = File::create(folder.join("log")).unwrap();
        Guarded::spawn(Program {
            path: Path::new("/bin/sleep"),
            arguments: vec![OsString::from("600")],
            log,
            folder,
            user: None,
            orphan,
        })
        .unwrap()
    }

    #[test]
    fn users_are_found_by_their_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:1:1::/:/\npostgres:x:101:104::/:/\n";
        assert_eq!(
            User::find(passwd, "postgres"),
            Some(User { uid: 101, gid: 104 })
        );
        assert_eq!(User::find(passwd, "nobody"), None);
    }

    #[tokio::test]
    async fn a_child_gets_the_signal_that_it_is_sent_and_its_status_is_its_own() {
        use std::os::unix::process::ExitStatusExt;
        let folder = tempfile::tempdir().unwrap();
        let patience = Duration::from_secs(30);
        let terminated = sleeper(folder.path(), Orphan::Kill).stop("TERM", patience);
        assert_eq!(terminated.await.unwrap().signal(), Some(15));
        let killed = sleeper(folder.path(), Orphan::Kill).kill();
        assert_eq!(killed.await.unwrap().signal(), Some(9));
    }

    #[tokio::test]
    async fn a_child_does_not_outlive_the_demo_and_neither_does_its_folder() {
        use std::os::unix::process::ExitStatusExt;
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("data");
        std::fs::create_dir(&inner).unwrap();
        let guarded = sleeper(folder.path(), Orphan::InterruptAndRemove(&inner));
        let Guarded {
            mut child, pipe, ..
        } = guarded;
        drop(pipe);
        let status = tokio::time::timeout(Duration::from_secs(30), child.wait()).await;
        // What a shell has put into the background ignores SIGINT, and its children do.
        let signal = status.unwrap().unwrap().signal();
        assert!(matches!(signal, Some(2 | 9)), "{signal:?}");
        let gone = async {
            while inner.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone)
            .await
            .expect("the watcher removes the folder");
    }
}
