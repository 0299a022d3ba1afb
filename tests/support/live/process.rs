use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Below the range from which the kernel takes ports for outgoing connections: it stays free between
/// here and the server's start, and while the server is down.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap();
    (0..1000)
        .map(|_| rand::random_range(20_000..32_000))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok() && given.insert(*port))
        .expect("one port of a thousand tries is free")
}

/// Sends a signal by name to one process.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .status()
        .unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

pub(super) fn http_get(port: u16, path: &str) -> Option<(u16, String)> {
    http(port, "GET", path, "")
}

/// Status code and body of an answer to a JSON body. HTTP/1.0, so that it comes in one piece.
pub(super) fn http(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n");
    let about = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
    let about = if body.is_empty() { "" } else { &about };
    write!(stream, "{head}{about}\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((
        head.split_whitespace().nth(1)?.parse().ok()?,
        body.to_owned(),
    ))
}

/// A line such as `VmHWM` of `/proc/PID/status`, in KiB.
pub fn memory_kib(pid: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let found = status
        .lines()
        .find(|found| found.starts_with(line))
        .unwrap();
    found.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Waits for the end of a child, then kills it.
pub(super) fn end(child: &mut Child, patience: Duration) -> io::Result<std::process::ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until something listens on a port of this machine, or the child is gone.
pub(super) fn wait_for_port(
    child: &mut Child,
    port: u16,
    patience: Duration,
) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!(
                "ended with {status} before it listened on port {port}"
            ));
        }
        if Instant::now() > deadline {
            return Err(format!(
                "nothing listened on port {port} within {patience:?}"
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
