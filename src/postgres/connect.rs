//! From options to an authenticated replication session.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{self, ChannelBinding, ScramSha256};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::channel::Channel;
use super::socket::Socket;
use super::transport::{Transport, first_that_fits};
use super::{Host, Options, PostgresError, ReplicationSession, TargetSessionAttrs};
use crate::wire::{Authentication, Backend, ServerMessage};

/// Settings that fix the text of values, whatever the database's or the role's defaults are: the
/// output plugin prints rows under the session's settings. Both kinds of session use them.
///
/// `client_min_messages` is among them because PostgreSQL 18 only warns when it leaves out the
/// rows of a publication, and a role that hears no warnings would not hear of that.
pub const SESSION_SETTINGS: &[(&str, &str)] = &[
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("extra_float_digits", "3"),
    ("bytea_output", "hex"),
    ("lc_monetary", "C"),
    ("client_min_messages", "warning"),
];

/// What the server said while the session began.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    pub(super) process_id: i32,
    pub(super) secret_key: i32,
}

/// Opens a walsender session on the first host that fits.
pub async fn connect_replication(options: &Options) -> Result<ReplicationSession, PostgresError> {
    first_that_fits(options, async |host, transport| {
        let session = begin(options, host, transport).await?;
        let mut session = session.listed(&options.sessions);
        if let Some(check) = TargetCheck::of(options.target_session_attrs) {
            check.verdict(session.query_value(check.query).await?.as_deref())?;
        }
        Ok(session)
    })
    .await
}

async fn begin(
    options: &Options,
    host: Host,
    transport: Transport,
) -> Result<ReplicationSession, PostgresError> {
    let mut channel = Channel::new(transport.socket);
    let mut parameters = vec![
        ("user", options.user.as_str()),
        ("database", options.database.as_str()),
        ("replication", "database"),
        ("application_name", options.application_name.as_str()),
    ];
    parameters.extend(SESSION_SETTINGS);
    frontend::startup_message(parameters, channel.output())
        .map_err(|source| PostgresError::Io { source })?;
    authenticate(&mut channel, options, transport.binding).await?;
    channel.logged_in();
    let greeting = greet(&mut channel).await?;
    Ok(ReplicationSession::new(channel, greeting, host))
}

async fn authenticate(
    channel: &mut Channel,
    options: &Options,
    binding: Option<Vec<u8>>,
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
    binding: Option<Vec<u8>>,
) -> Result<(), PostgresError> {
    let io = |source| PostgresError::Io { source };
    let failed = |source| PostgresError::Scram { source };
    let offered = |name: &str| mechanisms.iter().any(|mechanism| mechanism == name);
    let (mechanism, binding) = match binding {
        Some(hash) if offered(sasl::SCRAM_SHA_256_PLUS) => (
            sasl::SCRAM_SHA_256_PLUS,
            ChannelBinding::tls_server_end_point(hash),
        ),
        // Saying that we could have bound lets the server notice an offer taken out on the way.
        Some(_) => (sasl::SCRAM_SHA_256, ChannelBinding::unrequested()),
        None => (sasl::SCRAM_SHA_256, ChannelBinding::unsupported()),
    };
    if !offered(mechanism) {
        return Err(PostgresError::AuthenticationMethod {
            method: mechanisms.join(", "),
        });
    }
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

/// How to ask a session whether its server is of the wanted kind.
pub(super) struct TargetCheck {
    /// Gives one boolean as text: false where the server fits.
    pub(super) query: &'static str,
    wanted: &'static str,
}

impl TargetCheck {
    /// `None` where any server will do.
    pub(super) fn of(target: TargetSessionAttrs) -> Option<Self> {
        match target {
            TargetSessionAttrs::Any => None,
            TargetSessionAttrs::Primary => Some(Self {
                query: "SELECT pg_catalog.pg_is_in_recovery()::pg_catalog.text",
                wanted: "a primary",
            }),
            TargetSessionAttrs::ReadWrite => Some(Self {
                query: "SELECT pg_catalog.current_setting('transaction_read_only')::pg_catalog.bool::pg_catalog.text",
                wanted: "writable",
            }),
        }
    }

    pub(super) fn verdict(&self, answer: Option<&str>) -> Result<(), PostgresError> {
        match answer {
            Some("false") => Ok(()),
            _ => Err(PostgresError::WrongServer {
                wanted: self.wanted,
            }),
        }
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

pub(super) const CANCEL_WITHIN: Duration = Duration::from_secs(10);

/// Asks the server to cancel what a session is waiting for, over a connection of its own: in plain
/// text, as libpq's `PQcancel` does. The server hangs up once it has passed the request on.
pub(super) async fn cancel(host: &Host, process_id: i32, secret_key: i32) -> io::Result<()> {
    let ask = async {
        let mut socket = Socket::open(host, CANCEL_WITHIN).await?;
        let mut request = BytesMut::new();
        frontend::cancel_request(process_id, secret_key, &mut request);
        socket.write_all(&request).await?;
        socket.read_u8().await.map(drop)
    };
    match timeout(CANCEL_WITHIN, ask).await {
        Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        Ok(_) => Ok(()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// For errors that come as a message of their own kind.
pub(super) fn server_error(message: Box<ServerMessage>) -> PostgresError {
    PostgresError::Server(message)
}
