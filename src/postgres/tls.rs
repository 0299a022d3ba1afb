//! libpq's `sslmode`s on OpenSSL (the manual, "SSL Support" of libpq). Unlike libpq, no file is
//! looked for in the home folder: what a relay trusts stands in its configuration.

use std::path::Path;
use std::pin::Pin;

use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslRef, SslVerifyMode, SslVersion,
};
use openssl::x509::{X509Ref, X509VerifyResult};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use super::certificate::is_for_host;
use super::{Options, PostgresError, SslMode};
use crate::secret::Secret;

/// `sslrootcert=system`: the certificates that the system's OpenSSL trusts.
const SYSTEM: &str = "system";

/// One context serves both kinds of session.
#[derive(Clone)]
pub(super) struct Tls {
    context: SslContext,
    verify_host: bool,
}

/// An encrypted stream and, where its certificate has one, the hash that SCRAM binds to.
pub(super) type Encrypted = (SslStream<TcpStream>, Option<Vec<u8>>);

impl Tls {
    /// `None` where the mode never encrypts.
    pub(super) fn new(options: &Options) -> Result<Option<Self>, PostgresError> {
        if options.ssl_mode == SslMode::Disable {
            return Ok(None);
        }
        // Not `SslConnector`: it reads the system's certificates, 50 ms of processor time for a
        // mode that does not look at them.
        let mut builder = SslContextBuilder::new(SslMethod::tls_client()).map_err(tls)?;
        builder
            .set_min_proto_version(Some(SslVersion::TLS1_2))
            .map_err(tls)?;
        trust(&mut builder, options)?;
        if let Some(certificate) = &options.ssl_cert {
            present(&mut builder, certificate, options)?;
        }
        Ok(Some(Self {
            context: builder.build(),
            verify_host: options.ssl_mode == SslMode::VerifyFull,
        }))
    }

    pub(super) async fn handshake(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> Result<Encrypted, PostgresError> {
        let mut ssl = Ssl::new(&self.context).map_err(tls)?;
        // An address is not a name that a server could choose a certificate by.
        if host.parse::<std::net::IpAddr>().is_err() {
            ssl.set_hostname(host).map_err(tls)?;
        }
        // OpenSSL's rules for names are not libpq's; `is_for_host` has those.
        let mut stream = SslStream::new(ssl, stream).map_err(tls)?;
        if let Err(error) = Pin::new(&mut stream).connect().await {
            return Err(handshake_failure(stream.ssl(), &error));
        }
        let certificate = stream.ssl().peer_certificate();
        let is_named = |certificate: &X509Ref| is_for_host(certificate, host);
        if self.verify_host && !certificate.as_deref().is_some_and(is_named) {
            return Err(PostgresError::Tls {
                reason: format!("the server's certificate is not for host \"{host}\""),
            });
        }
        let binding = certificate.as_deref().and_then(end_point_hash);
        Ok((stream, binding))
    }
}

/// Whom to believe. As in libpq a root certificate at hand is used whatever the mode is (so that
/// `require` means `verify-ca`), and then nobody else is believed.
fn trust(builder: &mut SslContextBuilder, options: &Options) -> Result<(), PostgresError> {
    let refused = |reason| PostgresError::TlsOptions { reason };
    match (&options.ssl_root_cert, options.ssl_mode) {
        (Some(path), mode) if path.as_os_str() == SYSTEM => {
            if mode != SslMode::VerifyFull {
                return Err(refused(
                    "the system's certificates (sslrootcert=system) need sslmode=verify-full",
                ));
            }
            builder.set_default_verify_paths().map_err(tls)?;
        }
        (Some(path), _) => builder
            .set_ca_file(path)
            .map_err(|error| file(path, &error))?,
        (None, SslMode::VerifyCa | SslMode::VerifyFull) => {
            return Err(refused(
                "sslmode verify-ca and verify-full need sslrootcert: a file, or \"system\" with verify-full",
            ));
        }
        (None, _) => {
            builder.set_verify(SslVerifyMode::NONE);
            return Ok(());
        }
    }
    builder.set_verify(SslVerifyMode::PEER);
    Ok(())
}

/// The client's own certificate and its key.
fn present(
    builder: &mut SslContextBuilder,
    certificate: &Path,
    options: &Options,
) -> Result<(), PostgresError> {
    let Some(key) = &options.ssl_key else {
        return Err(PostgresError::TlsOptions {
            reason: "a client certificate (sslcert) needs its key (sslkey)",
        });
    };
    builder
        .set_certificate_chain_file(certificate)
        .map_err(|error| file(certificate, &error))?;
    let private = read_key(key, options.ssl_key_password.as_ref())?;
    builder
        .set_private_key(&private)
        .and_then(|()| builder.check_private_key())
        .map_err(|error| file(key, &error))
}

/// PEM or DER (pgjdbc's `.pk8`), encrypted or not.
fn read_key(path: &Path, password: Option<&Secret>) -> Result<PKey<Private>, PostgresError> {
    let bytes = std::fs::read(path).map_err(|error| file(path, &error))?;
    let password = password.map(|secret| secret.expose().as_bytes());
    let mut asked = false;
    let key = if bytes.starts_with(b"-----BEGIN") {
        // Without this callback OpenSSL would ask on the terminal.
        PKey::private_key_from_pem_callback(&bytes, |buffer| {
            asked = true;
            let password = password.unwrap_or_default();
            let Some(place) = buffer.get_mut(..password.len()) else {
                return Ok(0);
            };
            place.copy_from_slice(password);
            Ok(password.len())
        })
    } else {
        match password {
            Some(password) => PKey::private_key_from_pkcs8_passphrase(&bytes, password),
            None => PKey::private_key_from_der(&bytes),
        }
    };
    key.map_err(|error| match (asked, password) {
        (true, None) => PostgresError::TlsFile {
            path: path.display().to_string(),
            reason: "the key is encrypted and no password for it (sslpassword) is set".to_owned(),
        },
        _ => file(path, &error),
    })
}

/// Why a handshake failed; a certificate that was refused says more than the library's code.
fn handshake_failure(ssl: &SslRef, error: &openssl::ssl::Error) -> PostgresError {
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
/// signature algorithm, SHA-256 where that is MD5 or SHA-1. An algorithm without a hash of its own
/// (Ed25519) has no binding.
fn end_point_hash(certificate: &X509Ref) -> Option<Vec<u8>> {
    let signature = certificate.signature_algorithm().object().nid();
    let digest = match signature.signature_algorithms()?.digest {
        Nid::MD5 | Nid::SHA1 => MessageDigest::sha256(),
        nid => MessageDigest::from_nid(nid)?,
    };
    certificate.digest(digest).ok().map(|hash| hash.to_vec())
}

fn tls(error: ErrorStack) -> PostgresError {
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
