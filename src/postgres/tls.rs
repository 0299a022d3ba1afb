//! libpq's `sslmode`s on OpenSSL (the manual, "SSL Support" of libpq).

use std::path::Path;

use openssl::nid::Nid;
use openssl::pkey::PKey;
use openssl::ssl::{SslConnector, SslFiletype, SslMethod, SslRef, SslVerifyMode};
use openssl::x509::X509VerifyResult;

use super::{Options, PostgresError, SslMode};

/// One connector serves both kinds of session.
#[derive(Clone)]
pub(super) struct Tls {
    connector: SslConnector,
    verify_host: bool,
}

impl Tls {
    /// `None` where the mode never encrypts.
    pub(super) fn new(options: &Options) -> Result<Option<Self>, PostgresError> {
        let verification = match options.ssl_mode {
            SslMode::Disable => return Ok(None),
            // libpq: with a root certificate at hand, require means verify-ca.
            SslMode::Require if options.ssl_root_cert.is_some() => Verification::Chain,
            SslMode::Allow | SslMode::Prefer | SslMode::Require => Verification::None,
            SslMode::VerifyCa => Verification::Chain,
            SslMode::VerifyFull => Verification::Host,
        };
        let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(tls)?;
        if let Some(path) = &options.ssl_root_cert {
            builder
                .set_ca_file(path)
                .map_err(|error| file(path, &error))?;
        }
        if let Some(path) = &options.ssl_cert {
            builder
                .set_certificate_chain_file(path)
                .map_err(|error| file(path, &error))?;
        }
        if let Some(path) = &options.ssl_key {
            match &options.ssl_key_password {
                None => builder.set_private_key_file(path, SslFiletype::PEM),
                Some(password) => std::fs::read(path)
                    .map_err(|error| file(path, &error))
                    .and_then(|pem| {
                        PKey::private_key_from_pem_passphrase(&pem, password.expose().as_bytes())
                            .map_err(|error| file(path, &error))
                    })
                    .map(|key| builder.set_private_key(&key))?,
            }
            .map_err(|error| file(path, &error))?;
        }
        if matches!(verification, Verification::None) {
            builder.set_verify(SslVerifyMode::NONE);
        }
        let verify_host = matches!(verification, Verification::Host);
        Ok(Some(Self {
            connector: builder.build(),
            verify_host,
        }))
    }

    pub(super) fn for_host(&self, host: &str) -> Result<openssl::ssl::Ssl, PostgresError> {
        let mut configuration = self.connector.configure().map_err(tls)?;
        configuration.set_verify_hostname(self.verify_host);
        // An address is not a name that a server could choose a certificate by.
        configuration.set_use_server_name_indication(host.parse::<std::net::IpAddr>().is_err());
        configuration.into_ssl(host).map_err(tls)
    }

    /// For tokio-postgres.
    pub(super) fn ordinary(&self) -> postgres_openssl::MakeTlsConnector {
        let mut connector = postgres_openssl::MakeTlsConnector::new(self.connector.clone());
        let verify_host = self.verify_host;
        connector.set_callback(move |configuration, host| {
            configuration.set_verify_hostname(verify_host);
            configuration.set_use_server_name_indication(host.parse::<std::net::IpAddr>().is_err());
            Ok(())
        });
        connector
    }
}

enum Verification {
    None,
    Chain,
    Host,
}

/// Why a handshake failed; a certificate that was refused says more than the library's code.
pub(super) fn handshake_failure(ssl: &SslRef, error: &openssl::ssl::Error) -> PostgresError {
    let verdict = ssl.verify_result();
    let reason = if verdict == X509VerifyResult::OK {
        error.to_string()
    } else {
        format!(
            "the server's certificate was refused: {}",
            verdict.error_string()
        )
    };
    PostgresError::Tls { reason }
}

/// The binding data of `tls-server-end-point` (RFC 5929): the certificate's hash by its own
/// signature algorithm, SHA-256 where that is MD5, SHA-1 or has none of its own.
pub(super) fn server_end_point(ssl: &SslRef) -> Option<Vec<u8>> {
    let certificate = ssl.peer_certificate()?;
    let signature = certificate.signature_algorithm().object().nid();
    let digest = match signature
        .signature_algorithms()
        .map(|algorithms| algorithms.digest)
    {
        Some(Nid::MD5 | Nid::SHA1) | None => openssl::hash::MessageDigest::sha256(),
        Some(nid) => openssl::hash::MessageDigest::from_nid(nid)?,
    };
    certificate.digest(digest).ok().map(|hash| hash.to_vec())
}

fn tls(error: openssl::error::ErrorStack) -> PostgresError {
    PostgresError::Tls {
        reason: error.to_string(),
    }
}

fn file(path: &Path, error: &dyn std::error::Error) -> PostgresError {
    PostgresError::TlsFile {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}
