//! Which host, and encrypted or not: the part of connecting that both kinds of session share.

use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::socket::Socket;
use super::tls::Tls;
use super::{Host, Options, PostgresError, SslMode, sqlstate};

/// A connected socket on which nothing was said yet.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) socket: Socket,
    /// What SCRAM can bind to: the hash of the server's certificate.
    pub(super) binding: Option<Vec<u8>>,
}

/// Tries the hosts in order, as libpq does: one that cannot be reached, is starting or is not of
/// the wanted kind gives way to the next; one that refuses the login ends the search.
///
/// `begin` makes a session of a transport.
pub(super) async fn first_that_fits<S, F>(
    options: &Options,
    begin: impl Fn(Host, Transport) -> F,
) -> Result<S, PostgresError>
where
    F: Future<Output = Result<S, PostgresError>>,
{
    let tls = Tls::new(options)?;
    let within = options.connect_timeout;
    let mut attempts = Vec::new();
    for host in &options.hosts {
        let begin = |transport| begin(host.clone(), transport);
        let attempt = by_ssl_mode(options, host, tls.as_ref(), &begin);
        let outcome = timeout(within, attempt).await;
        let error = match outcome {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error)) => error,
            Err(_) => PostgresError::ConnectTimeout { after: within },
        };
        let is_last = ends_the_search(&error);
        attempts.push((host.to_string(), error));
        if is_last {
            break;
        }
    }
    Err(PostgresError::Unreachable { attempts })
}

fn ends_the_search(error: &PostgresError) -> bool {
    match error {
        PostgresError::Server(message) => message.sqlstate != sqlstate::CANNOT_CONNECT_NOW,
        PostgresError::PasswordMissing { .. }
        | PostgresError::AuthenticationMethod { .. }
        | PostgresError::Scram { .. } => true,
        _ => false,
    }
}

/// `allow` and `prefer` are up to two attempts, one without and one with TLS, in that order or the
/// other. Where the server refuses both, its answer to the encrypted one says more: the other is
/// often no more than "no pg_hba.conf entry".
async fn by_ssl_mode<S, F>(
    options: &Options,
    host: &Host,
    tls: Option<&Tls>,
    begin: &impl Fn(Transport) -> F,
) -> Result<S, PostgresError>
where
    F: Future<Output = Result<S, PostgresError>>,
{
    let within = options.connect_timeout;
    let plain = async || begin(Transport::open(host, None, within).await?).await;
    // A Unix socket is never encrypted, whatever the mode.
    let Some(tls) = tls.filter(|_| matches!(host, Host::Tcp { .. })) else {
        return plain().await;
    };
    let encrypted = async |required| Transport::open(host, Some((tls, required)), within).await;
    match options.ssl_mode {
        SslMode::Disable => plain().await,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
            begin(encrypted(true).await?).await
        }
        SslMode::Allow => {
            let refusal = match plain().await {
                Err(PostgresError::Server(refusal)) => refusal,
                other => return other,
            };
            match encrypted(true).await {
                Err(PostgresError::TlsRefused) => Err(PostgresError::Server(refusal)),
                other => begin(other?).await,
            }
        }
        SslMode::Prefer => {
            let refusal = match encrypted(false).await {
                Err(failure @ PostgresError::Tls { .. }) => failure,
                Ok(transport) if transport.is_encrypted() => match begin(transport).await {
                    Err(refusal @ PostgresError::Server(_)) => refusal,
                    other => return other,
                },
                other => return begin(other?).await,
            };
            match plain().await {
                Err(PostgresError::Server(_)) => Err(refusal),
                other => other,
            }
        }
    }
}

impl Transport {
    async fn open(
        host: &Host,
        tls: Option<(&Tls, bool)>,
        within: Duration,
    ) -> Result<Self, PostgresError> {
        let socket = Socket::open(host, within)
            .await
            .map_err(|source| PostgresError::Connect { source })?;
        match (socket, tls, host) {
            (Socket::Tcp(stream), Some((tls, required)), Host::Tcp { host, .. }) => {
                Self::encrypt(stream, tls, host, required).await
            }
            (socket, ..) => Ok(Self::plain(socket)),
        }
    }

    fn is_encrypted(&self) -> bool {
        matches!(self.socket, Socket::Tls(_))
    }

    fn plain(socket: Socket) -> Self {
        Self {
            socket,
            binding: None,
        }
    }

    async fn encrypt(
        mut stream: TcpStream,
        tls: &Tls,
        host: &str,
        required: bool,
    ) -> Result<Self, PostgresError> {
        let mut request = BytesMut::new();
        frontend::ssl_request(&mut request);
        stream
            .write_all(&request)
            .await
            .map_err(PostgresError::broken)?;
        // One byte, read alone: what follows belongs to the handshake (CVE-2021-23222).
        match stream.read_u8().await.map_err(PostgresError::broken)? {
            b'S' => {
                let (stream, binding) = tls.handshake(stream, host).await?;
                Ok(Self {
                    socket: Socket::Tls(Box::new(stream)),
                    binding,
                })
            }
            b'N' if required => Err(PostgresError::TlsRefused),
            b'N' => Ok(Self::plain(Socket::Tcp(stream))),
            tag => Err(PostgresError::unexpected("an answer to SSLRequest", tag)),
        }
    }
}
