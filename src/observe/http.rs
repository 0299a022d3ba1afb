//! `/metrics`, `/livez`, `/readyz`, `/status` and a page for people.

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
use tokio::sync::Semaphore;

use super::{Metrics, Status};

#[derive(Debug)]
pub struct HttpError {
    pub listen: SocketAddr,
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
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// A whole connection, which serves one request: idle ones cannot use up the room.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The page needs nothing from elsewhere, and nothing may be made to load.
const HEADERS: [(HeaderName, &str); 4] = [
    (CACHE_CONTROL, "no-store"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
    ),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// Binds and serves until the runtime ends. Returns the address, which tells the port where 0 was
/// asked for.
pub async fn serve(
    listen: SocketAddr,
    metrics: Metrics,
    status: Status,
) -> Result<SocketAddr, HttpError> {
    let fail = |source| HttpError { listen, source };
    let listener = TcpListener::bind(listen).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    tokio::spawn(async move {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (metrics, status) = (metrics.clone(), status.clone());
                    tokio::spawn(async move {
                        converse(stream, metrics, status).await;
                        drop(permit);
                    });
                }
                // Out of descriptors, most likely: give the others time to end.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok(address)
}

async fn converse(stream: TcpStream, metrics: Metrics, status: Status) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(request.method(), request.uri().path(), &metrics, &status);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that goes away in the middle is no concern of the relay.
    drop(tokio::time::timeout(CONNECTION_TIMEOUT, connection).await);
}

fn answer(
    method: &Method,
    path: &str,
    metrics: &Metrics,
    status: &Status,
) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n");
    }
    match path {
        "/metrics" => match metrics.render() {
            Ok(text) => respond(StatusCode::OK, "text/plain; version=0.0.4", text),
            Err(error) => respond(
                StatusCode::INTERNAL_SERVER_ERROR,
                "text/plain",
                error.to_string(),
            ),
        },
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
        "/status" => match status.to_json() {
            Ok(json) => respond(StatusCode::OK, "application/json", json),
            Err(error) => respond(
                StatusCode::INTERNAL_SERVER_ERROR,
                "text/plain",
                error.to_string(),
            ),
        },
        "/" => respond(
            StatusCode::OK,
            "text/html; charset=utf-8",
            include_str!("page.html"),
        ),
        _ => respond(
            StatusCode::NOT_FOUND,
            "text/plain",
            "/metrics /livez /readyz /status /\n",
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
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::SystemTime;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::observe::State;

    fn status(state: State) -> Status {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        status.set_state(state, SystemTime::UNIX_EPOCH);
        status
    }

    fn code(state: State, path: &str) -> u16 {
        let metrics = Metrics::new().unwrap();
        let response = answer(&Method::GET, path, &metrics, &status(state));
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
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        serve(listen, Metrics::new().unwrap(), status(state))
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
        let metrics = Metrics::new().unwrap();
        let refused = answer(&Method::POST, "/status", &metrics, &status(State::Lost));
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = include_str!("page.html");
        for outside in ["http:", "https:", "//", "src=", "@import", "innerHTML"] {
            assert!(!page.contains(outside), "{outside}");
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
    async fn an_address_in_use_is_named() {
        let taken = served(State::Starting).await;
        let metrics = Metrics::new().unwrap();
        let error = serve(taken, metrics, status(State::Starting))
            .await
            .unwrap_err();
        let expected = format!("cannot listen on {taken} for HTTP: ");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}
