//! A word to systemd, where it asks for one (`Type=notify`): ready, state, still alive, stopping.
//! The protocol is in sd_notify(3): one datagram of lines to the socket that the environment names.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::{Role, State, Status};

/// How often the state is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// systemd shows one line.
const STATUS_CHARACTERS: usize = 300;

#[derive(Debug)]
pub struct Supervisor {
    socket: UnixDatagram,
    address: SocketAddr,
    /// Longer silence than this, and systemd takes the process for hung.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// From `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`; `None` where nobody listens.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> io::Result<Option<Self>> {
        let Some(path) = variable("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let ours = variable("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let watchdog = variable("WATCHDOG_USEC")
            .filter(|_| ours)
            .and_then(|micros| micros.parse().ok())
            .filter(|micros| *micros > 0)
            .map(Duration::from_micros);
        Ok(Some(Self {
            socket,
            address: address(&path)?,
            watchdog,
        }))
    }

    /// Runs until it is aborted. It lives on the relay's own thread: a relay that hangs says nothing
    /// here either, which is what the watchdog is for.
    pub async fn follow(self, status: Status) {
        let pace = self
            .watchdog
            .map_or(LOOK_INTERVAL, |limit| LOOK_INTERVAL.min(limit / 2));
        let mut tick = tokio::time::interval(pace);
        let mut news = News::default();
        loop {
            // The end comes sooner than the next tick.
            let is_due = tokio::select! {
                _ = tick.tick() => true,
                () = status.news() => false,
            };
            let mut message = news.since_last(&status);
            if is_due && self.watchdog.is_some() {
                message.push_str("WATCHDOG=1\n");
            }
            if !message.is_empty() {
                // A full or missing socket is systemd's matter; the next look says it again.
                let sent = self.socket.send_to_addr(message.as_bytes(), &self.address);
                if sent.is_err() {
                    news = News::default();
                }
            }
        }
    }
}

/// A path, or a name in Linux' abstract namespace, written with an `@`.
fn address(path: &str) -> io::Result<SocketAddr> {
    match path.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)
        }
        _ => SocketAddr::from_pathname(path),
    }
}

/// What was said already.
#[derive(Debug, Default)]
struct News {
    ready: bool,
    stopping: bool,
    status: String,
}

impl News {
    fn since_last(&mut self, status: &Status) -> String {
        let mut message = String::new();
        if !self.ready && status.role() != Role::None {
            self.ready = true;
            message.push_str("READY=1\n");
        }
        if !self.stopping && status.state() == State::Stopping {
            self.stopping = true;
            message.push_str("STOPPING=1\n");
        }
        let line = status_line(status);
        if line != self.status {
            message.push_str(&format!("STATUS={line}\n"));
            self.status = line;
        }
        message
    }
}

fn status_line(status: &Status) -> String {
    let state = status.state().as_str();
    let Some(problem) = status.problem() else {
        return state.to_owned();
    };
    let line = format!("{state}: {}", super::escaped(&problem.message));
    line.chars().take(STATUS_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::SystemTime;

    use super::*;
    use crate::observe::Problem;

    fn status() -> Status {
        Status::new("n", "s", "p", SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn ready_is_said_once_by_whoever_leads_or_waits() {
        for role in [Role::Leader, Role::Standby] {
            let (status, mut news) = (status(), News::default());
            assert_eq!(news.since_last(&status), "STATUS=starting\n");
            status.set_role(role);
            status.set_state(State::Streaming, None, SystemTime::UNIX_EPOCH);
            assert_eq!(news.since_last(&status), "READY=1\nSTATUS=streaming\n");
            status.set_role(Role::None);
            assert_eq!(news.since_last(&status), "");
            status.set_state(State::Stopping, None, SystemTime::UNIX_EPOCH);
            assert_eq!(news.since_last(&status), "STOPPING=1\nSTATUS=stopping\n");
        }
    }

    #[test]
    fn a_problem_cannot_say_lines_of_its_own() {
        let status = status();
        let problem = Problem {
            message: format!("no topic\nREADY=1{}", "x".repeat(500)),
            detail: None,
            hint: None,
        };
        status.set_state(State::Blocked, Some(problem), SystemTime::UNIX_EPOCH);
        let message = News::default().since_last(&status);
        assert!(
            message.starts_with("STATUS=blocked: no topic\\nREADY=1xxx"),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1);
        assert_eq!(message.len(), "STATUS=\n".len() + STATUS_CHARACTERS);
    }

    #[tokio::test]
    async fn the_socket_of_the_environment_hears_state_and_watchdog() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = tokio::net::UnixDatagram::bind(&path).unwrap();
        let mut variables = HashMap::from([
            ("NOTIFY_SOCKET", path.to_string_lossy().into_owned()),
            ("WATCHDOG_USEC", "20000".to_owned()),
        ]);
        let supervisor = |variables: &HashMap<&str, String>| {
            Supervisor::from_environment(|name| variables.get(name).cloned()).unwrap()
        };
        let task = tokio::spawn(supervisor(&variables).unwrap().follow(status()));
        let mut heard = [0; 200];
        for expected in ["STATUS=starting\nWATCHDOG=1\n", "WATCHDOG=1\n"] {
            let length = listener.recv(&mut heard).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&heard[..length]), expected);
        }
        task.abort();
        variables.insert("WATCHDOG_PID", "1".to_owned());
        assert_eq!(supervisor(&variables).unwrap().watchdog, None);
        assert!(supervisor(&HashMap::new()).is_none());
    }
}
