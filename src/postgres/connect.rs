//! From options to an authenticated replication session.

use bytes::BytesMut;
use openssl::ssl::Ssl;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{self, ChannelBinding, ScramSha256};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use super::channel::Channel;
use super::socket::Socket;
use super::tls::{self, Tls};
use super::{Host, Options, PostgresError, ReplicationSession, SslMode, TargetSessionAttrs};
use crate::wire::{Authentication, Backend, ServerMessage};

/// Settings that fix the text of values, whatever the database's or the role's defaults are: the
/// output plugin prints rows under the session's settings. Both kinds of session use them.
pub const SESSION_SETTINGS: &[(&str, &str)] = &[
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("extra_float_digits", "3"),
    ("bytea_output", "hex"),
];

/// What the server said while the session began.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    pub(super) process_id: i32,
    pub(super) secret_key: i32,
    pub(super) server_version: String,
}

/// Tries the hosts in order, the way libpq does: each may refuse, the first that fits is taken.
pub async fn connect_replication(options: &Options) -> Result<ReplicationSession, PostgresError> {
    let tls = Tls::new(options)?;
    let mut attempts = Vec::new();
    for host in &options.hosts {
        let attempt = async {
            let mut session = open(options, host, tls.as_ref()).await?;
            check_target(&mut session, options.target_session_attrs).await?;
            Ok(session)
        };
        let outcome = match tokio::time::timeout(options.connect_timeout, attempt).await {
            Ok(outcome) => outcome,
            Err(_) => Err(PostgresError::ConnectTimeout {
                after: options.connect_timeout,
            }),
        };
        match outcome {
            Ok(session) => return Ok(session),
            Err(error) => attempts.push((host.to_string(), error)),
        }
    }
    Err(PostgresError::Unreachable { attempts })
}

/// `allow` and `prefer` are two attempts: one without and one with TLS, in that order or the other.
async fn open(
    options: &Options,
    host: &Host,
    tls: Option<&Tls>,
) -> Result<ReplicationSession, PostgresError> {
    let encrypted = tls.filter(|_| matches!(host, Host::Tcp { .. }));
    match (options.ssl_mode, encrypted) {
        (SslMode::Allow, Some(tls)) => match open_once(options, host, None).await {
            Err(PostgresError::Server(_)) => open_once(options, host, Some((tls, true))).await,
            other => other,
        },
        (SslMode::Prefer, Some(tls)) => match open_once(options, host, Some((tls, false))).await {
            Err(PostgresError::Tls { .. } | PostgresError::Server(_)) => {
                open_once(options, host, None).await
            }
            other => other,
        },
        (_, Some(tls)) => open_once(options, host, Some((tls, true))).await,
        (_, None) => open_once(options, host, None).await,
    }
}

async fn open_once(
    options: &Options,
    host: &Host,
    tls: Option<(&Tls, bool)>,
) -> Result<ReplicationSession, PostgresError> {
    let socket = Socket::open(host)
        .await
        .map_err(|source| PostgresError::Connect { source })?;
    let (socket, binding) = match (socket, tls, host) {
        (Socket::Tcp(stream), Some((tls, required)), Host::Tcp { host, .. }) => {
            encrypt(stream, tls.for_host(host)?, required).await?
        }
        (socket, ..) => (socket, ChannelBinding::unsupported()),
    };
    let mut channel = Channel::new(socket);
    let mut parameters = vec![
        ("user", options.user.as_str()),
        ("database", options.database.as_str()),
        ("replication", "database"),
        ("application_name", options.application_name.as_str()),
    ];
    parameters.extend(SESSION_SETTINGS);
    frontend::startup_message(parameters, channel.output())
        .map_err(|source| PostgresError::Io { source })?;
    authenticate(&mut channel, options, binding).await?;
    let greeting = greet(&mut channel).await?;
    Ok(ReplicationSession::new(channel, greeting, host.clone()))
}

async fn encrypt(
    mut stream: TcpStream,
    ssl: Ssl,
    required: bool,
) -> Result<(Socket, ChannelBinding), PostgresError> {
    let io = |source| PostgresError::Io { source };
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await.map_err(io)?;
    // One byte, read alone: what follows belongs to the handshake (CVE-2021-23222).
    match stream.read_u8().await.map_err(io)? {
        b'S' => {}
        b'N' if !required => return Ok((Socket::Tcp(stream), ChannelBinding::unsupported())),
        b'N' => return Err(PostgresError::TlsRefused),
        tag => return Err(PostgresError::unexpected("an answer to SSLRequest", tag)),
    }
    let mut stream = SslStream::new(ssl, stream).map_err(|e| PostgresError::Tls {
        reason: e.to_string(),
    })?;
    if let Err(error) = std::pin::Pin::new(&mut stream).connect().await {
        return Err(tls::handshake_failure(stream.ssl(), &error));
    }
    let binding = match tls::server_end_point(stream.ssl()) {
        Some(hash) => ChannelBinding::tls_server_end_point(hash),
        None => ChannelBinding::unsupported(),
    };
    Ok((Socket::Tls(Box::new(stream)), binding))
}

async fn authenticate(
    channel: &mut Channel,
    options: &Options,
    binding: ChannelBinding,
) -> Result<(), PostgresError> {
    let io = |source| PostgresError::Io { source };
    let password = |method| match &options.password {
        Some(password) => Ok(password.expose()),
        None => Err(PostgresError::PasswordMissing { method }),
    };
    match next_authentication(channel).await? {
        Authentication::Ok => return Ok(()),
        Authentication::CleartextPassword => {
            frontend::password_message(password("password")?.as_bytes(), channel.output())
                .map_err(io)?;
        }
        Authentication::Md5Password { salt } => {
            let hash = md5_hash(options.user.as_bytes(), password("md5")?.as_bytes(), salt);
            frontend::password_message(hash.as_bytes(), channel.output()).map_err(io)?;
        }
        Authentication::Sasl { mechanisms } => {
            scram(channel, password("scram-sha-256")?, &mechanisms, binding).await?;
        }
        Authentication::Unsupported { code } => {
            return Err(PostgresError::AuthenticationMethod {
                method: method_name(code),
            });
        }
        Authentication::SaslContinue { .. } | Authentication::SaslFinal { .. } => {
            return Err(PostgresError::unexpected(
                "the start of authentication",
                b'R',
            ));
        }
    }
    match next_authentication(channel).await? {
        Authentication::Ok => Ok(()),
        _ => Err(PostgresError::unexpected("the end of authentication", b'R')),
    }
}

async fn scram(
    channel: &mut Channel,
    password: &str,
    mechanisms: &[String],
    binding: ChannelBinding,
) -> Result<(), PostgresError> {
    let io = |source| PostgresError::Io { source };
    let failed = |source| PostgresError::Scram { source };
    let offered = |name: &str| mechanisms.iter().any(|mechanism| mechanism == name);
    let encrypted = matches!(channel.socket(), Socket::Tls(_));
    let (mechanism, binding) = if encrypted && offered(sasl::SCRAM_SHA_256_PLUS) {
        (sasl::SCRAM_SHA_256_PLUS, binding)
    } else if offered(sasl::SCRAM_SHA_256) {
        // Saying that we could have bound lets the server notice a stripped offer.
        let binding = if encrypted {
            ChannelBinding::unrequested()
        } else {
            ChannelBinding::unsupported()
        };
        (sasl::SCRAM_SHA_256, binding)
    } else {
        return Err(PostgresError::AuthenticationMethod {
            method: mechanisms.join(", "),
        });
    };
    let mut scram = ScramSha256::new(password.as_bytes(), binding);
    frontend::sasl_initial_response(mechanism, scram.message(), channel.output()).map_err(io)?;
    let Authentication::SaslContinue { data } = next_authentication(channel).await? else {
        return Err(PostgresError::unexpected("a SASL challenge", b'R'));
    };
    scram.update(&data).map_err(failed)?;
    frontend::sasl_response(scram.message(), channel.output()).map_err(io)?;
    let Authentication::SaslFinal { data } = next_authentication(channel).await? else {
        return Err(PostgresError::unexpected("the SASL outcome", b'R'));
    };
    scram.finish(&data).map_err(failed)
}

async fn next_authentication(channel: &mut Channel) -> Result<Authentication, PostgresError> {
    loop {
        let next = channel.receive(|message, tag| match message {
            Backend::Authentication(authentication) => Ok(Some(authentication)),
            Backend::Error(message) => Err(PostgresError::Server(message)),
            Backend::Notice(_) => Ok(None),
            // NegotiateProtocolVersion and the like: nothing that we asked for depends on it.
            Backend::Other { .. } => Ok(None),
            _ => Err(PostgresError::unexpected("an authentication message", tag)),
        });
        if let Some(authentication) = next.await? {
            return Ok(authentication);
        }
    }
}

async fn greet(channel: &mut Channel) -> Result<Greeting, PostgresError> {
    let mut greeting = Greeting::default();
    loop {
        let done = channel.receive(|message, tag| {
            match message {
                Backend::KeyData {
                    process_id,
                    secret_key,
                } => {
                    (greeting.process_id, greeting.secret_key) = (process_id, secret_key);
                }
                Backend::ParameterStatus { name, value } if name == "server_version" => {
                    greeting.server_version = value;
                }
                Backend::ParameterStatus { .. } | Backend::Other { .. } | Backend::Notice(_) => {}
                Backend::Error(message) => return Err(PostgresError::Server(message)),
                Backend::ReadyForQuery => return Ok(true),
                _ => return Err(PostgresError::unexpected("the session's parameters", tag)),
            }
            Ok(false)
        });
        if done.await? {
            return Ok(greeting);
        }
    }
}

async fn check_target(
    session: &mut ReplicationSession,
    target: TargetSessionAttrs,
) -> Result<(), PostgresError> {
    let (query, wanted) = match target {
        TargetSessionAttrs::Any => return Ok(()),
        TargetSessionAttrs::Primary => ("SELECT pg_is_in_recovery()::text", "a primary"),
        TargetSessionAttrs::ReadWrite => (
            "SELECT current_setting('transaction_read_only')::boolean::text",
            "writable",
        ),
    };
    match session.query_value(query).await?.as_deref() {
        Some("false") => Ok(()),
        _ => Err(PostgresError::WrongServer { wanted }),
    }
}

fn method_name(code: i32) -> String {
    match code {
        2 => "Kerberos".to_owned(),
        7 | 8 => "GSSAPI".to_owned(),
        9 => "SSPI".to_owned(),
        code => format!("method {code}"),
    }
}

/// Asks the server to cancel what a session is waiting for, over a connection of its own.
pub(super) async fn cancel(host: &Host, process_id: i32, secret_key: i32) -> std::io::Result<()> {
    let mut socket = Socket::open(host).await?;
    let mut request = BytesMut::new();
    frontend::cancel_request(process_id, secret_key, &mut request);
    socket.write_all(&request).await?;
    socket.shutdown().await
}

/// For errors that come as a message of their own kind.
pub(super) fn server_error(message: Box<ServerMessage>) -> PostgresError {
    PostgresError::Server(message)
}
