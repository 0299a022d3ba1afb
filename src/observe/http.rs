//! `/metrics`, `/livez`, `/readyz`, `/status` and a page for people.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::{ListenAddress, Metrics, Status, page};

#[derive(Debug)]
pub struct HttpError {
    pub listen: ListenAddress,
    pub source: std::io::Error,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot listen on {} for HTTP: {}",
            self.listen, self.source
        )
    }
}

impl std::error::Error for HttpError {}

/// Connections at a time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 64;
/// An answer takes milliseconds. While others wait, a connection that takes longer has to go: half a
/// request must not keep a probe from its answer.
const GRACE: Duration = Duration::from_millis(200);
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// A whole connection, which serves one request: idle ones cannot use up the room.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The head of a request; hyper's own minimum.
const MAX_HEAD_BYTES: usize = 8192;

const HEADERS: [(HeaderName, &str); 3] = [
    (CACHE_CONTROL, "no-store"),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// What answers are made of.
struct Site {
    metrics: Metrics,
    status: Status,
    policy: String,
}

impl Site {
    fn new(metrics: Metrics, status: Status) -> Self {
        let policy = page::policy();
        Self {
            metrics,
            status,
            policy,
        }
    }
}

/// Binds and serves until the runtime ends. Returns the address, which tells the port where 0 was
/// asked for.
pub async fn serve(
    listen: &ListenAddress,
    metrics: Metrics,
    status: Status,
) -> Result<SocketAddr, HttpError> {
    let fail = |source| HttpError {
        listen: listen.clone(),
        source,
    };
    let address = (listen.host.as_str(), listen.port);
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    let site = Arc::new(Site::new(metrics, status));
    tokio::spawn(async move {
        let mut guests = Guests::default();
        loop {
            guests.make_room().await;
            match listener.accept().await {
                Ok((stream, _)) => guests.admit(converse(stream, Arc::clone(&site))),
                // Out of descriptors, most likely: give the others time to end.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok(address)
}

/// The connections that are being served.
#[derive(Default)]
struct Guests {
    tasks: JoinSet<()>,
    /// The longest there first.
    arrivals: VecDeque<(Instant, AbortHandle)>,
}

impl Guests {
    fn admit(&mut self, conversation: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(conversation);
        self.arrivals.push_back((Instant::now(), task));
    }

    /// Waits until somebody leaves, or shows out whoever has been there for longest.
    async fn make_room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.arrivals.retain(|(_, task)| !task.is_finished());
        while self.tasks.len() >= MAX_CONNECTIONS {
            let Some((since, oldest)) = self.arrivals.front() else {
                return;
            };
            tokio::select! {
                _ = self.tasks.join_next() => {}
                () = sleep_until(*since + GRACE) => {
                    oldest.abort();
                    self.tasks.join_next().await;
                }
            }
            self.arrivals.retain(|(_, task)| !task.is_finished());
        }
    }
}

async fn converse(stream: TcpStream, site: Arc<Site>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(request.method(), request.uri().path(), &site);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that goes away in the middle is no concern of the relay.
    drop(tokio::time::timeout(CONNECTION_TIMEOUT, connection).await);
}

fn answer(method: &Method, path: &str, site: &Site) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n");
    }
    let Site {
        metrics, status, ..
    } = site;
    match path {
        "/metrics" => made("text/plain; version=0.0.4", metrics.render()),
        "/livez" => respond(StatusCode::OK, "text/plain", "alive\n"),
        "/readyz" => {
            let state = status.state();
            let code = if state.is_ready() {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            respond(code, "text/plain", format!("{}\n", state.as_str()))
        }
        "/status" => made("application/json", status.to_json()),
        "/details" => made("application/json", status.details(metrics.topics())),
        "/" => {
            let mut page = respond(StatusCode::OK, "text/html; charset=utf-8", page::HTML);
            if let Ok(policy) = HeaderValue::from_str(&site.policy) {
                page.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            }
            page
        }
        _ => respond(
            StatusCode::NOT_FOUND,
            "text/plain",
            "/metrics /livez /readyz /status /details /\n",
        ),
    }
}

/// Text that could fail to be made, and does not.
fn made<E: fmt::Display>(
    content_type: &'static str,
    text: Result<impl Into<Bytes>, E>,
) -> Response<Full<Bytes>> {
    match text {
        Ok(text) => respond(StatusCode::OK, content_type, text),
        Err(error) => respond(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain",
            error.to_string(),
        ),
    }
}

fn respond(
    code: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    let policy = HeaderValue::from_static("default-src 'none'");
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::observe::State;

    fn status(state: State) -> Status {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        status.set_state(state, None, SystemTime::UNIX_EPOCH);
        status
    }

    fn site(state: State) -> Site {
        Site::new(Metrics::new().unwrap(), status(state))
    }

    fn code(state: State, path: &str) -> u16 {
        let response = answer(&Method::GET, path, &site(state));
        response.status().as_u16()
    }

    /// The status line and the body of a real connection.
    async fn ask(address: SocketAddr, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        let read = stream.read_to_string(&mut text);
        tokio::time::timeout(Duration::from_secs(30), read)
            .await
            .expect("the server closes the connection")
            .unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let line = head.lines().next().unwrap().to_owned();
        (line, body.to_owned())
    }

    async fn served(state: State) -> SocketAddr {
        let listen = "localhost:0".parse().unwrap();
        serve(&listen, Metrics::new().unwrap(), status(state))
            .await
            .unwrap()
    }

    #[test]
    fn ready_means_that_events_flow() {
        for state in State::ALL {
            let expected = if state.is_ready() { 200 } else { 503 };
            assert_eq!(code(state, "/readyz"), expected, "{state:?}");
            assert_eq!(code(state, "/livez"), 200);
        }
    }

    #[test]
    fn unknown_paths_and_methods_are_refused() {
        assert_eq!(code(State::Streaming, "/nope"), 404);
        let refused = answer(&Method::POST, "/status", &site(State::Lost));
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn every_answer_has_a_policy_and_the_page_one_of_its_own() {
        for path in ["/", "/status", "/details", "/metrics", "/nope"] {
            let answer = answer(&Method::GET, path, &site(State::Lost));
            let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
            assert_eq!(policy.contains("script-src"), path == "/", "{path}");
        }
    }

    #[tokio::test]
    async fn probes_say_the_state_and_connections_serve_one_request() {
        let address = served(State::Standby).await;
        let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(
            ask(address, request).await,
            (
                "HTTP/1.1 503 Service Unavailable".to_owned(),
                "standby\n".to_owned()
            )
        );
        let head = "HEAD /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let (line, body) = ask(address, head).await;
        assert_eq!((line.as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""));
    }

    #[tokio::test]
    async fn more_clients_than_room_are_served_one_after_the_other() {
        let address = served(State::Streaming).await;
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let clients = (0..MAX_CONNECTIONS * 2).map(|_| tokio::spawn(ask(address, request)));
        for client in clients.collect::<Vec<_>>() {
            let (line, body) = client.await.unwrap();
            assert_eq!(line, "HTTP/1.1 200 OK");
            assert!(body.contains("outboxd_state{state=\"starting\"} 1"));
        }
    }

    #[tokio::test]
    async fn half_requests_do_not_keep_a_probe_from_its_answer() {
        let address = served(State::Streaming).await;
        let mut halves = Vec::new();
        for _ in 0..MAX_CONNECTIONS * 2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream
                .write_all(b"GET /livez HTTP/1.1\r\nHo")
                .await
                .unwrap();
            halves.push(stream);
        }
        let begun = Instant::now();
        let request = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let (line, body) = ask(address, request).await;
        assert_eq!((&*line, &*body), ("HTTP/1.1 200 OK", "alive\n"));
        // As long as Kubernetes lets a probe wait by default.
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
    }

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let taken = served(State::Starting).await;
        let metrics = Metrics::new().unwrap();
        let listen = taken.to_string().parse().unwrap();
        let error = serve(&listen, metrics, status(State::Starting))
            .await
            .unwrap_err();
        let expected = format!("cannot listen on {taken} for HTTP: ");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}
