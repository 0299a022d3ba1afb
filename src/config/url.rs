//! `postgresql://` URLs with several hosts, libpq's keyword strings, and the password file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::postgres::Host;
use crate::secret::Secret;

/// What a connection string says; hosts and ports as comma-separated lists.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) hosts: Option<String>,
    pub(super) ports: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: Option<String>,
    pub(super) options: BTreeMap<String, String>,
}

/// Options that have a meaning here; others are refused rather than overlooked.
const OPTIONS: &[&str] = &[
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "target_session_attrs",
];
/// Accepted and without effect: the relay sets them itself.
const IGNORED: &[&str] = &[
    "application_name",
    "connect_timeout",
    "channel_binding",
    "gssencmode",
];

/// Errors never show the string: it may hold the password.
pub(super) fn parse(text: &str) -> Result<Parts, String> {
    match text
        .strip_prefix("postgresql://")
        .or_else(|| text.strip_prefix("postgres://"))
    {
        Some(rest) => parse_url(rest),
        None if text.contains("://") => {
            Err("the URL does not start with postgresql:// or postgres://".to_owned())
        }
        None => parse_keywords(text),
    }
}

fn parse_url(rest: &str) -> Result<Parts, String> {
    let mut parts = Parts::default();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (Some(credentials), hosts),
        None => (None, authority),
    };
    if let Some(credentials) = credentials {
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (credentials, None),
        };
        parts.user = Some(decode(user)?).filter(|user| !user.is_empty());
        parts.password = password.map(decode).transpose()?;
    }
    parts.database = Some(decode(path)?).filter(|path| !path.is_empty());
    if !hosts.is_empty() {
        let (mut names, mut ports) = (Vec::new(), Vec::new());
        for host in hosts.split(',') {
            let (name, port) = match host.rsplit_once(':') {
                Some((name, port)) if !host.ends_with(']') => (name, port),
                _ => (host, "5432"),
            };
            names.push(decode(name.trim_start_matches('[').trim_end_matches(']'))?);
            ports.push(port.to_owned());
        }
        parts.hosts = Some(names.join(","));
        parts.ports = Some(ports.join(","));
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        parts.set(name, decode(value)?)?;
    }
    Ok(parts)
}

/// `host=a port=1 password='it''s \' quoted'`
fn parse_keywords(text: &str) -> Result<Parts, String> {
    let mut parts = Parts::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once('=')
            .ok_or_else(|| "it is neither a URL nor a list of keyword=value".to_owned())?;
        let mut value = String::new();
        let after = after.trim_start();
        let quoted = after.starts_with('\'');
        let mut characters = after.char_indices().skip(usize::from(quoted));
        let mut end = after.len();
        while let Some((index, character)) = characters.next() {
            match character {
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                '\'' if quoted => {
                    end = index + 1;
                    break;
                }
                blank if !quoted && blank.is_whitespace() => {
                    end = index;
                    break;
                }
                other => value.push(other),
            }
        }
        parts.set(name.trim(), value)?;
        rest = after[end..].trim_start();
    }
    Ok(parts)
}

impl Parts {
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "host" | "hostaddr" => self.hosts = Some(value),
            "port" => self.ports = Some(value),
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            "dbname" => self.database = Some(value),
            name if OPTIONS.contains(&name) => {
                self.options.insert(name.to_owned(), value);
            }
            name if IGNORED.contains(&name) => {}
            name => return Err(format!("option \"{}\" is not known", name.escape_debug())),
        }
        Ok(())
    }
}

fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let code = tail
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .ok_or("a % is not followed by two hexadecimal digits")?;
        bytes.push(code);
        rest = tail.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 after decoding".to_owned())
}

/// `host:port:database:user:password` lines of `PGPASSFILE`; the first that fits counts.
pub(super) fn from_passfile(
    environment: &[(String, String)],
    hosts: &[Host],
    database: &str,
    user: &str,
) -> Option<Secret> {
    let path = environment.iter().find(|(name, _)| name == "PGPASSFILE")?;
    let text = std::fs::read_to_string(PathBuf::from(&path.1)).ok()?;
    let (host, port) = match hosts.first()? {
        Host::Tcp { host, port } => (host.clone(), *port),
        Host::Unix { port, .. } => ("localhost".to_owned(), *port),
    };
    let wanted = [host.as_str(), &port.to_string(), database, user];
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let fields = split_passfile_line(line);
            let (pattern, password) = (fields.get(..4)?, fields.get(4)?);
            let fits = pattern
                .iter()
                .zip(wanted)
                .all(|(field, wanted)| field == "*" || field == wanted);
            fits.then(|| Secret::new(password))
        })
}

fn split_passfile_line(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let last = fields.len();
        match character {
            ':' if last < 5 => fields.push(String::new()),
            '\\' => fields[last - 1].extend(characters.next()),
            other => fields[last - 1].push(other),
        }
    }
    fields
}
