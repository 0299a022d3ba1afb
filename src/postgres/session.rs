//! Ordinary SQL sessions over tokio-postgres, with the same options, TLS and settings.

use tokio_postgres::config::{SslMode as OrdinarySslMode, TargetSessionAttrs as OrdinaryTarget};
use tokio_postgres::{Client, Config, NoTls};

use super::connect::SESSION_SETTINGS;
use super::tls::Tls;
use super::{Host, Options, PostgresError, SslMode, TargetSessionAttrs};

/// Opens one session. Its connection runs as a task of its own and ends with the client.
pub async fn connect(options: &Options) -> Result<Client, PostgresError> {
    let mut attempts = Vec::new();
    for host in &options.hosts {
        let outcome = tokio::time::timeout(options.connect_timeout, open(options, host)).await;
        let error = match outcome {
            Ok(Ok(client)) => return Ok(client),
            Ok(Err(error)) => error,
            Err(_) => PostgresError::ConnectTimeout {
                after: options.connect_timeout,
            },
        };
        attempts.push((host.to_string(), error));
    }
    Err(PostgresError::Unreachable { attempts })
}

async fn open(options: &Options, host: &Host) -> Result<Client, PostgresError> {
    let mut config = Config::new();
    config.user(&options.user).dbname(&options.database);
    config.application_name(&options.application_name);
    if let Some(password) = &options.password {
        config.password(password.expose());
    }
    match host {
        Host::Tcp { host, port } => config.host(host).port(*port),
        Host::Unix { directory, port } => config.host_path(directory).port(*port),
    };
    config.target_session_attrs(match options.target_session_attrs {
        TargetSessionAttrs::Any => OrdinaryTarget::Any,
        TargetSessionAttrs::ReadWrite | TargetSessionAttrs::Primary => OrdinaryTarget::ReadWrite,
    });
    config.ssl_mode(match options.ssl_mode {
        SslMode::Disable | SslMode::Allow => OrdinarySslMode::Disable,
        SslMode::Prefer => OrdinarySslMode::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => OrdinarySslMode::Require,
    });
    let settings: Vec<String> = SESSION_SETTINGS
        .iter()
        .filter(|(name, _)| *name != "client_encoding")
        .map(|(name, value)| format!("-c {name}={}", value.replace(' ', "\\ ")))
        .collect();
    config.options(settings.join(" "));
    let tls = Tls::new(options)?;
    match &tls {
        Some(tls) => spawn(config.connect(tls.ordinary()).await?),
        None => spawn(config.connect(NoTls).await?),
    }
}

fn spawn<S, T>(
    (client, connection): (Client, tokio_postgres::Connection<S, T>),
) -> Result<Client, PostgresError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            // Whoever uses the client meets the error too and says so.
            tracing::debug!("an SQL session ended: {error}");
        }
    });
    Ok(client)
}
