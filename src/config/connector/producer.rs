//! The producer's settings, from the worker's own to the connector's overrides, in Java's words.

use std::collections::BTreeMap;

use super::file::Properties;
use super::table::PRODUCER;
use super::{Out, jaas, row};
use crate::config::Fault;
use crate::config::settings::beside;

/// Where each property of the producer stands, the strongest place only.
struct Found<'a> {
    places: BTreeMap<String, (&'a Properties, String)>,
}

impl Found<'_> {
    fn get(&self, option: &str) -> Option<&str> {
        let (properties, name) = self.places.get(option)?;
        properties
            .get(name)
            .map(str::trim)
            .filter(|value| !value.is_empty())
    }

    fn set(&self, key: &str, option: &str, value: &str, out: &mut Out<'_>) {
        if let Some((properties, name)) = self.places.get(option) {
            out.settings.set(key, value, properties.origin(name));
        }
    }

    /// Relative to the file in which the option stands.
    fn path(&self, option: &str) -> Option<String> {
        let (properties, _) = self.places.get(option)?;
        Some(beside(&properties.path, self.get(option)?))
    }

    fn fault(&self, option: &str, message: impl Into<String>) -> Fault {
        let place = self
            .places
            .get(option)
            .map(|(properties, name)| properties.place(name));
        Fault::new(place.unwrap_or_else(|| option.to_owned()), message)
    }
}

/// Kafka Connect gives its producers `bootstrap.servers` and `producer.*` of the worker, then
/// `producer.override.*` of the connector. The worker's own security settings stand in for those
/// that are not repeated under `producer.`: brokers that need them for one need them for all.
pub(super) fn apply(connector: &Properties, worker: &Properties, out: &mut Out<'_>) {
    let mut found = Found {
        places: BTreeMap::new(),
    };
    for (name, _) in worker.iter() {
        let shared = ["bootstrap.servers", "security.protocol"].contains(&name)
            || name.starts_with("sasl.")
            || name.starts_with("ssl.");
        if shared {
            found
                .places
                .insert(name.to_owned(), (worker, name.to_owned()));
        }
    }
    for (properties, prefix) in [(worker, "producer."), (connector, "producer.override.")] {
        for (option, _) in properties.under(prefix) {
            found
                .places
                .insert(option.to_owned(), (properties, format!("{prefix}{option}")));
        }
    }
    for (option, (properties, name)) in &found.places {
        row::apply(PRODUCER, option, properties, name, out);
    }
    login(&found, out);
    trust(&found, out);
    identity(&found, out);
    if let Some((properties, name)) = found.places.get("ssl.endpoint.identification.algorithm") {
        let value = properties.get(name).unwrap_or("").trim();
        let value = if value.is_empty() { "none" } else { value };
        out.settings.set(
            "kafka.ssl.endpoint.identification.algorithm",
            value,
            properties.origin(name),
        );
    }
}

fn login(found: &Found<'_>, out: &mut Out<'_>) {
    const OPTION: &str = "sasl.jaas.config";
    let Some(text) = found.get(OPTION) else {
        return;
    };
    match jaas::parse(text) {
        Ok(login) => {
            found.set("kafka.sasl.username", OPTION, &login.user, out);
            found.set("kafka.sasl.password", OPTION, login.password.expose(), out);
        }
        Err(reason) => out.faults.push(found.fault(OPTION, reason)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Store {
    Pem,
    Pkcs12,
    Jks,
}

/// Java takes a store for JKS where its type is not said, and reads PKCS#12 under that name too.
fn store(found: &Found<'_>, which: &str) -> Store {
    let location = found.get(&format!("ssl.{which}.location")).unwrap_or("");
    let stored = found
        .get(&format!("ssl.{which}.type"))
        .unwrap_or("")
        .to_ascii_uppercase();
    let extension = location
        .rsplit('.')
        .next()
        .unwrap_or("")
        .to_ascii_lowercase();
    match (stored.as_str(), extension.as_str()) {
        ("PEM", _) => Store::Pem,
        ("PKCS12", _) | ("", "p12" | "pfx") => Store::Pkcs12,
        _ => Store::Jks,
    }
}

fn trust(found: &Found<'_>, out: &mut Out<'_>) {
    if let Some(text) = found.get("ssl.truststore.certificates") {
        found.set("kafka.ssl.ca.pem", "ssl.truststore.certificates", text, out);
    }
    const LOCATION: &str = "ssl.truststore.location";
    let Some(path) = found.path(LOCATION) else {
        return;
    };
    match store(found, "truststore") {
        Store::Pem => found.set("kafka.ssl.ca.location", LOCATION, &path, out),
        Store::Pkcs12 => out.faults.push(
            found.fault(LOCATION, format!("\"{path}\" is a PKCS#12 trust store, which librdkafka does not read"))
                .hint(format!("Make a PEM file of it: openssl pkcs12 -in {path} -nokeys -out {}; then set ssl.truststore.type=PEM and ssl.truststore.location to that file.", pem(&path))),
        ),
        Store::Jks => out.faults.push(
            found.fault(LOCATION, format!("\"{path}\" is a Java key store, which librdkafka does not read"))
                .hint(format!("Make a PEM file of it: keytool -list -rfc -keystore {path} > {}; then set ssl.truststore.type=PEM and ssl.truststore.location to that file.", pem(&path))),
        ),
    }
}

fn identity(found: &Found<'_>, out: &mut Out<'_>) {
    for (option, key) in [
        ("ssl.keystore.key", "kafka.ssl.key.pem"),
        (
            "ssl.keystore.certificate.chain",
            "kafka.ssl.certificate.pem",
        ),
    ] {
        if let Some(text) = found.get(option) {
            found.set(key, option, text, out);
        }
    }
    const LOCATION: &str = "ssl.keystore.location";
    let Some(path) = found.path(LOCATION) else {
        return;
    };
    match store(found, "keystore") {
        // Java's PEM key store holds the key and its certificates in one file.
        Store::Pem => {
            found.set("kafka.ssl.key.location", LOCATION, &path, out);
            found.set("kafka.ssl.certificate.location", LOCATION, &path, out);
        }
        Store::Pkcs12 => {
            found.set("kafka.ssl.keystore.location", LOCATION, &path, out);
            if let Some(password) = found.get("ssl.keystore.password") {
                found.set(
                    "kafka.ssl.keystore.password",
                    "ssl.keystore.password",
                    password,
                    out,
                );
            }
        }
        Store::Jks => {
            let made = format!("{}.p12", path.trim_end_matches(".jks"));
            out.faults.push(
                found.fault(LOCATION, format!("\"{path}\" is a Java key store, which librdkafka does not read"))
                    .hint(format!("Make a PKCS#12 file of it: keytool -importkeystore -srckeystore {path} -destkeystore {made} -deststoretype PKCS12; then set ssl.keystore.type=PKCS12 and ssl.keystore.location to that file.")),
            );
        }
    }
}

fn pem(path: &str) -> String {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    format!("{stem}.pem")
}
