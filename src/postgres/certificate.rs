//! Whether a certificate is for the host that was asked for, by libpq's rules (`sslmode` of the
//! manual, `verify-full`): names among the alternative names first, the common name only where
//! there are none of the host's own kind.

use std::net::IpAddr;

use openssl::nid::Nid;
use openssl::x509::X509Ref;

pub(super) fn is_for_host(certificate: &X509Ref, host: &str) -> bool {
    let address = host.parse::<IpAddr>().ok();
    let mut has_own_kind = false;
    for name in certificate.subject_alt_names().into_iter().flatten() {
        if let Some(pattern) = name.dnsname() {
            has_own_kind |= address.is_none();
            if name_fits(pattern, host) {
                return true;
            }
        } else if let Some(octets) = name.ipaddress() {
            has_own_kind |= address.is_some();
            if address.is_some_and(|address| address_fits(octets, address)) {
                return true;
            }
        }
    }
    !has_own_kind && common_name(certificate).is_some_and(|name| name_fits(&name, host))
}

fn common_name(certificate: &X509Ref) -> Option<String> {
    let mut entries = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
    entries.next()?.data().to_string().ok()
}

/// A star stands for the whole first label of a name and for nothing else.
fn name_fits(pattern: &str, host: &str) -> bool {
    let is_name = host.parse::<IpAddr>().is_err();
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    let (Some(parent), Some((label, of_host))) = (pattern.strip_prefix("*."), host.split_once('.'))
    else {
        return false;
    };
    is_name && !label.is_empty() && parent.eq_ignore_ascii_case(of_host)
}

fn address_fits(octets: &[u8], address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => octets == address.octets(),
        IpAddr::V6(address) => octets == address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::rsa::Rsa;
    use openssl::x509::extension::SubjectAlternativeName;
    use openssl::x509::{X509, X509NameBuilder};

    use super::*;

    fn certificate(common_name: &str, dns: &[&str], addresses: &[&str]) -> X509 {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_nid(Nid::COMMONNAME, common_name)
            .unwrap();
        let mut builder = X509::builder().unwrap();
        builder.set_subject_name(&name.build()).unwrap();
        builder.set_pubkey(&key).unwrap();
        if !dns.is_empty() || !addresses.is_empty() {
            let mut names = SubjectAlternativeName::new();
            for name in dns {
                names.dns(name);
            }
            for address in addresses {
                names.ip(address);
            }
            let extension = names.build(&builder.x509v3_context(None, None)).unwrap();
            builder.append_extension(extension).unwrap();
        }
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        builder.build()
    }

    fn check(certificate: &X509, hosts: &[(&str, bool)]) {
        for (host, expected) in hosts {
            assert_eq!(is_for_host(certificate, host), *expected, "{host}");
        }
    }

    #[test]
    fn an_alternative_name_hides_the_common_name_for_hosts_of_its_kind() {
        let named = certificate("db.example", &["other.example"], &[]);
        check(&named, &[("other.example", true), ("OTHER.Example", true)]);
        check(&named, &[("db.example", false), ("x.other.example", false)]);
        let addressed = certificate("db.example", &[], &["10.0.0.5", "::1"]);
        check(&addressed, &[("10.0.0.5", true), ("::1", true)]);
        check(&addressed, &[("db.example", true), ("10.0.0.6", false)]);
    }

    #[test]
    fn an_address_may_stand_in_the_common_name_beside_other_names() {
        let named = certificate("10.0.0.5", &["db.example", "*.0.0.6"], &[]);
        check(&named, &[("10.0.0.5", true), ("db.example", true)]);
        check(&named, &[("10.0.0.6", false)]);
        let addressed = certificate("10.0.0.5", &[], &["10.0.0.6"]);
        check(&addressed, &[("10.0.0.5", false), ("10.0.0.6", true)]);
    }

    #[test]
    fn a_star_is_one_whole_first_label() {
        let wild = certificate("none", &["*.db.example", "a*.x.example"], &[]);
        check(&wild, &[("one.db.example", true), ("One.DB.example", true)]);
        check(
            &wild,
            &[
                ("one.two.db.example", false),
                ("db.example", false),
                (".db.example", false),
                ("ab.x.example", false),
            ],
        );
    }
}
