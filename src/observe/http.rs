//! `/metrics`, `/livez`, `/readyz`, `/status` and a page for people.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
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
/// A whole connection: a scraper comes back with a new one.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);

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
    headers.insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static(content_type),
    );
    headers.insert(
        CACHE_CONTROL,
        hyper::header::HeaderValue::from_static("no-store"),
    );
    response
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::observe::State;

    fn code(state: State, path: &str) -> u16 {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        status.set_state(state, SystemTime::UNIX_EPOCH);
        answer(&Method::GET, path, &Metrics::new().unwrap(), &status)
            .status()
            .as_u16()
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
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        let refused = answer(&Method::POST, "/status", &Metrics::new().unwrap(), &status);
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
