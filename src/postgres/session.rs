//! Ordinary SQL sessions over tokio-postgres, on the same transport as the replication session and
//! with the same settings.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, Client, Config};

use super::connect::{SESSION_SETTINGS, TargetCheck};
use super::socket::Socket;
use super::transport::{Transport, first_that_fits};
use super::{Canceller, Host, Options, PostgresError};

/// Opens one session. Its connection runs as a task of its own and ends with the client.
pub async fn connect(options: &Options) -> Result<Client, PostgresError> {
    first_that_fits(options, async |host, transport| {
        let client = begin(options, &host, transport).await?;
        if let Some(check) = TargetCheck::of(options.target_session_attrs) {
            let row = client.query_one(check.query, &[]).await?;
            check.verdict(row.try_get(0)?)?;
        }
        Ok(client)
    })
    .await
}

async fn begin(
    options: &Options,
    host: &Host,
    transport: Transport,
) -> Result<Client, PostgresError> {
    let Transport { socket, binding } = transport;
    let host = socket.peer(host);
    let mut config = Config::new();
    config.user(&options.user).dbname(&options.database);
    config.application_name(&options.application_name);
    if let Some(password) = &options.password {
        config.password(password.expose());
    }
    config.options(settings());
    // The socket is encrypted or not by now. Told to encrypt without asking, tokio-postgres hands
    // it to `Established`, which has nothing left to do than to tell the binding.
    config.ssl_mode(match socket {
        Socket::Tls(_) => SslMode::Require,
        Socket::Tcp(_) | Socket::Unix(_) => SslMode::Disable,
    });
    config.ssl_negotiation(SslNegotiation::Direct);
    let connected = config.connect_raw(socket, Established { binding }).await;
    let (client, connection) =
        connected.map_err(|error| match lacks_password(&error, options) {
            true => PostgresError::PasswordMissing {
                method: "scram-sha-256, md5 or password",
            },
            false => error.into(),
        })?;
    let alive = options.sessions.add(Canceller::of(host, &client));
    tokio::spawn(async move {
        // It ends with the last answer, and not before, when the client is gone.
        let _alive = alive;
        if let Err(error) = connection.await {
            // Whoever uses the client meets the error too and says so.
            tracing::debug!("an SQL session ended: {error}");
        }
    });
    Ok(client)
}

/// The driver has no other word for it.
fn lacks_password(error: &tokio_postgres::Error, options: &Options) -> bool {
    let cause = error.source().map(ToString::to_string);
    options.password.is_none() && cause.as_deref() == Some("password missing")
}

/// For the startup message's `options`, where a backslash keeps a space.
fn settings() -> String {
    let settings: Vec<String> = SESSION_SETTINGS
        .iter()
        // tokio-postgres sends this one by itself.
        .filter(|(name, _)| *name != "client_encoding")
        .map(|(name, value)| format!("-c {name}={}", value.replace(' ', "\\ ")))
        .collect();
    settings.join(" ")
}

/// In plain text, as libpq's `PQcancel` does: `Established` leaves the socket as it is.
pub(super) async fn cancel(token: &CancelToken, socket: Socket) -> io::Result<()> {
    let asked = token.cancel_query_raw(socket, Established { binding: None });
    asked.await.map_err(io::Error::other)
}

struct Established {
    binding: Option<Vec<u8>>,
}

struct EstablishedStream {
    socket: Socket,
    binding: Option<Vec<u8>>,
}

impl TlsConnect<Socket> for Established {
    type Stream = EstablishedStream;
    type Error = Infallible;
    type Future = Ready<Result<EstablishedStream, Infallible>>;

    fn connect(self, socket: Socket) -> Self::Future {
        ready(Ok(EstablishedStream {
            socket,
            binding: self.binding,
        }))
    }
}

impl TlsStream for EstablishedStream {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.binding {
            Some(hash) => ChannelBinding::tls_server_end_point(hash.clone()),
            None => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for EstablishedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for EstablishedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
