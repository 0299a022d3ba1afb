//! `outboxd healthcheck`: asks a running relay on this machine whether it lives, for a container
//! that has no other program to ask with.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::cli::HealthcheckArgs;
use crate::observe::ListenAddress;

/// Below the three seconds that Docker and Kubernetes are told to wait.
const PATIENCE: Duration = Duration::from_secs(2);
/// A status line and headers; the body is a word.
const MAX_ANSWER_BYTES: u64 = 4096;

/// The body of the answer, or why there is none that is good. `environment` is
/// `OUTBOXD_HTTP_LISTEN`.
pub fn run(args: &HealthcheckArgs, environment: Option<&str>) -> Result<String, String> {
    let (name, text) = match (&args.listen, environment) {
        (Some(listen), _) => ("--listen", listen.as_str()),
        (None, Some(listen)) => ("OUTBOXD_HTTP_LISTEN", listen.trim()),
        (None, None) => ("the default", "127.0.0.1:9464"),
    };
    let listen: ListenAddress = text
        .parse()
        .map_err(|()| format!("{name}: \"{text}\" is not a host and port"))?;
    let path = if args.ready { "/readyz" } else { "/livez" };
    let answer = get(&listen, path, MAX_ANSWER_BYTES)
        .map_err(|error| format!("no answer from {listen}: {error}"))?;
    let body = answer.body().trim_end().to_owned();
    match answer.code() {
        Some("200") => Ok(body),
        Some(code) => Err(format!("{path} answers {code}: {body}")),
        None => Err(format!("{listen} does not speak HTTP")),
    }
}

/// As it came: head, an empty line, body.
pub(crate) struct Answer(String);

impl Answer {
    fn parts(&self) -> (&str, &str) {
        self.0.split_once("\r\n\r\n").unwrap_or((&self.0, ""))
    }

    fn code(&self) -> Option<&str> {
        self.parts().0.split_whitespace().nth(1)
    }

    pub(crate) fn body(&self) -> &str {
        self.parts().1
    }
}

/// The whole answer to a GET, up to `max_bytes`.
pub(crate) fn get(listen: &ListenAddress, path: &str, max_bytes: u64) -> io::Result<Answer> {
    let mut stream = connect(listen)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {listen}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.take(max_bytes).read_to_string(&mut answer)?;
    Ok(Answer(answer))
}

/// A name may stand for several addresses; the relay listens on one of them.
fn connect(listen: &ListenAddress) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (listen.host.as_str(), listen.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&reachable(address), PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Who listens everywhere listens on loopback too.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::observe::{Metrics, State, Status, serve};

    async fn check(listen: SocketAddr, ready: bool) -> Result<String, String> {
        let args = HealthcheckArgs {
            listen: Some(listen.to_string()),
            ready,
        };
        let asked = tokio::task::spawn_blocking(move || run(&args, None));
        asked.await.unwrap()
    }

    #[tokio::test]
    async fn a_standby_lives_and_is_not_ready() {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        status.set_state(State::Standby, None, SystemTime::UNIX_EPOCH);
        let everywhere = "0.0.0.0:0".parse().unwrap();
        let served = serve(&everywhere, Metrics::new().unwrap(), status).await;
        let address = served.unwrap();
        assert_eq!(check(address, false).await.as_deref(), Ok("alive"));
        assert_eq!(
            check(address, true).await,
            Err("/readyz answers 503: standby".to_owned())
        );
    }

    #[tokio::test]
    async fn a_relay_that_is_not_there_is_said_so() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = check(address, false).await.unwrap_err();
        let expected = format!("no answer from {address}: ");
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn what_says_where_the_relay_listens_is_named_when_it_is_wrong() {
        let args = HealthcheckArgs {
            listen: None,
            ready: false,
        };
        assert_eq!(
            run(&args, Some("here")),
            Err("OUTBOXD_HTTP_LISTEN: \"here\" is not a host and port".to_owned())
        );
    }
}
