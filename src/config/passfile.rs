//! libpq's password file: `PGPASSFILE`, else `~/.pgpass`.

use std::path::{Path, PathBuf};

use super::Environment;
use crate::postgres::Host;
use crate::secret::Secret;

/// Where the file is when no setting names one.
pub(super) fn default_path(environment: &Environment) -> Option<PathBuf> {
    match environment.get("PGPASSFILE") {
        Some(path) => Some(PathBuf::from(path)),
        None => environment
            .get("HOME")
            .map(|home| Path::new(home).join(".pgpass")),
    }
}

/// The password of the first line that fits a host, `host:port:database:user:password`, where `*`
/// fits anything. Hosts are tried in order; one password serves all of them.
pub(super) fn find(text: &str, hosts: &[Host], database: &str, user: &str) -> Option<Secret> {
    let lines: Vec<Vec<Field>> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(split)
        .collect();
    hosts.iter().find_map(|host| {
        let (host, port) = match host {
            Host::Tcp { host, port } => (host.as_str(), port),
            // libpq looks up its default socket folders as localhost; so are all of them here.
            Host::Unix { port, .. } => ("localhost", port),
        };
        let wanted = [host, &port.to_string(), database, user];
        lines.iter().find_map(|line| match line.as_slice() {
            [pattern @ .., password] if pattern.len() == wanted.len() => {
                let fits = pattern
                    .iter()
                    .zip(wanted)
                    .all(|(field, wanted)| field.fits(wanted));
                fits.then(|| Secret::new(&password.text))
            }
            _ => None,
        })
    })
}

#[derive(Default)]
struct Field {
    text: String,
    escaped: bool,
}

impl Field {
    fn fits(&self, wanted: &str) -> bool {
        self.text == wanted || (self.text == "*" && !self.escaped)
    }
}

fn split(line: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut field = Field::default();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            '\\' => {
                field.escaped = true;
                field.text.extend(characters.next());
            }
            other => field.text.push(other),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_gives_the_password() {
        let text = "# comment\n\
                    other:5432:shop:relay:wrong\n\
                    db:5432:shop:relay:a\\:b:c\n\
                    *:*:*:*:any\n";
        let host = |host: &str| Host::Tcp {
            host: host.to_owned(),
            port: 5432,
        };
        let found = |host, user| find(text, &[host], "shop", user).map(|p| p.expose().to_owned());
        assert_eq!(found(host("db"), "relay").as_deref(), Some("a:b:c"));
        assert_eq!(found(host("db"), "else").as_deref(), Some("any"));
        assert!(find("db:5432:shop:relay:x", &[host("db")], "shop", "else").is_none());
        let socket = Host::Unix {
            directory: "/run/pg".into(),
            port: 6,
        };
        let text = "localhost:6:shop:relay:socket";
        assert_eq!(
            find(text, &[socket], "shop", "relay").unwrap().expose(),
            "socket"
        );
    }
}
