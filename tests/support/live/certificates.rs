//! Certificates made for a test: an authority, a stranger, and what they sign.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};
use tempfile::TempDir;

type Signed = (X509, PKey<Private>);

/// A folder with `NAME.crt` and `NAME.key` for each certificate, in PEM.
pub struct Certificates {
    folder: TempDir,
    authority: Signed,
}

/// Whom a certificate names.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    Host(&'a str),
    Address(&'a str),
    User(&'a str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    Now,
    Expired,
}

impl Certificates {
    /// `authority.crt` has signed what follows, `stranger.crt` nothing.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("outboxd-certificates-").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let authority = sign("an authority", None, Validity::Now, None);
        let made = Self { folder, authority };
        made.write("authority", &made.authority);
        made.write("stranger", &sign("a stranger", None, Validity::Now, None));
        made
    }

    pub fn issue(&self, name: &str, subject: Subject<'_>, validity: Validity) {
        let common_name = match subject {
            Subject::User(user) => user,
            Subject::Host(_) | Subject::Address(_) => "a server",
        };
        let authority = Some(&self.authority);
        self.write(name, &sign(common_name, Some(subject), validity, authority));
    }

    fn write(&self, name: &str, (certificate, key): &Signed) {
        let pem = certificate.to_pem().unwrap();
        fs::write(self.certificate(name), &pem).unwrap();
        fs::write(self.key(name), key.private_key_to_pem_pkcs8().unwrap()).unwrap();
        fs::set_permissions(self.key(name), fs::Permissions::from_mode(0o600)).unwrap();
        let both = [key.private_key_to_pem_pkcs8().unwrap(), pem].concat();
        fs::write(self.file(name, "pem"), both).unwrap();
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.{kind}"))
    }

    pub fn certificate(&self, name: &str) -> PathBuf {
        self.file(name, "crt")
    }

    pub fn key(&self, name: &str) -> PathBuf {
        self.file(name, "key")
    }

    /// Key and certificate in one file, as Kafka's brokers take them.
    pub fn key_store(&self, name: &str) -> PathBuf {
        self.file(name, "pem")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn sign(
    common_name: &str,
    subject: Option<Subject<'_>>,
    validity: Validity,
    issuer: Option<&Signed>,
) -> Signed {
    let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&curve).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", common_name).unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    let mut serial = BigNum::new().unwrap();
    serial.rand(64, MsbOption::ONE, false).unwrap();
    let serial = serial.to_asn1_integer().unwrap();
    builder.set_serial_number(&serial).unwrap();
    builder.set_subject_name(&name).unwrap();
    let issuer_name = issuer.map_or(&*name, |(issuer, _)| issuer.subject_name());
    builder.set_issuer_name(issuer_name).unwrap();
    builder.set_pubkey(&key).unwrap();
    // Day by day back from now; the epoch is before all of them.
    let ends = match validity {
        Validity::Now => Asn1Time::days_from_now(2),
        Validity::Expired => Asn1Time::from_unix(86_400 * 365),
    };
    let begins = Asn1Time::from_unix(86_400).unwrap();
    builder.set_not_before(&begins).unwrap();
    builder.set_not_after(&ends.unwrap()).unwrap();
    if issuer.is_none() {
        let authority = BasicConstraints::new().critical().ca().build().unwrap();
        builder.append_extension(authority).unwrap();
    }
    let mut names = SubjectAlternativeName::new();
    match subject {
        Some(Subject::Host(host)) => drop(names.dns(host)),
        Some(Subject::Address(address)) => drop(names.ip(address)),
        Some(Subject::User(_)) | None => {}
    }
    if let Some(Subject::Host(_) | Subject::Address(_)) = subject {
        let names = names.build(&builder.x509v3_context(None, None)).unwrap();
        builder.append_extension(names).unwrap();
    }
    let signer = issuer.map_or(&key, |(_, key)| key);
    builder.sign(signer, MessageDigest::sha256()).unwrap();
    (builder.build(), key)
}
