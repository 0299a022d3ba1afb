//! `postgresql://` URLs with several hosts, and libpq's keyword strings, as settings.

use super::keys;

/// Names of libpq that are keys here.
const KEYWORDS: &[(&str, &str)] = &[
    ("host", "postgres.host"),
    ("hostaddr", "postgres.host"),
    ("port", "postgres.port"),
    ("user", "postgres.user"),
    ("password", "postgres.password"),
    ("dbname", "postgres.database"),
    ("sslmode", "postgres.sslmode"),
    ("sslrootcert", "postgres.sslrootcert"),
    ("sslcert", "postgres.sslcert"),
    ("sslkey", "postgres.sslkey"),
    ("sslpassword", "postgres.sslpassword"),
    ("target_session_attrs", "postgres.target_session_attrs"),
    ("connect_timeout", "postgres.connect_timeout"),
    ("application_name", "name"),
    ("passfile", "postgres.passfile"),
];

type Parts = Vec<(&'static str, String)>;

/// Errors never show the string: it may hold the password.
pub(super) fn parse(text: &str) -> Result<Parts, String> {
    let text = text.trim();
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
    let mut parts = Parts::new();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (credentials, hosts),
        None => ("", authority),
    };
    let (user, password) = match credentials.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (credentials, None),
    };
    if !user.is_empty() {
        parts.push(("postgres.user", decode(user)?));
    }
    if let Some(password) = password {
        parts.push(("postgres.password", decode(password)?));
    }
    if !path.is_empty() {
        parts.push(("postgres.database", decode(path)?));
    }
    if !hosts.is_empty() {
        let (names, ports) = split_hosts(hosts)?;
        parts.push(("postgres.host", names));
        parts.push(("postgres.port", ports));
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        parts.push(keyword(name, decode(value)?)?);
    }
    Ok(parts)
}

/// `a:1,[::1],c` as two lists of the same length.
fn split_hosts(hosts: &str) -> Result<(String, String), String> {
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !host.ends_with(']') => (name, port),
            _ => (host, "5432"),
        };
        names.push(decode(name.trim_start_matches('[').trim_end_matches(']'))?);
        ports.push(port.to_owned());
    }
    Ok((names.join(","), ports.join(",")))
}

/// `host=a port=1 password='with \' and blanks'`
fn parse_keywords(text: &str) -> Result<Parts, String> {
    let mut parts = Parts::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once('=')
            .ok_or("it is neither a URL nor a list of keyword=value")?;
        let (value, tail) = keyword_value(after.trim_start())?;
        parts.push(keyword(name.trim(), value)?);
        rest = tail.trim_start();
    }
    Ok(parts)
}

fn keyword_value(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let (quoted, text) = match text.strip_prefix('\'') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &text[index + 1..])),
            blank if !quoted && blank.is_whitespace() => return Ok((value, &text[index..])),
            other => value.push(other),
        }
    }
    if quoted {
        Err("a quote is not closed".to_owned())
    } else {
        Ok((value, ""))
    }
}

fn keyword(name: &str, value: String) -> Result<(&'static str, String), String> {
    let known = KEYWORDS.iter().find(|(keyword, _)| *keyword == name);
    let (_, key) = known.ok_or_else(|| {
        let names: Vec<_> = KEYWORDS.iter().map(|(keyword, _)| *keyword).collect();
        format!(
            "option \"{}\" is not one of {}",
            name.escape_debug(),
            names.join(", ")
        )
    })?;
    // libpq's is a number of seconds.
    let seconds = *key == keys::CONNECT_TIMEOUT && value.bytes().all(|byte| byte.is_ascii_digit());
    Ok((key, if seconds { format!("{value}s") } else { value }))
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

#[cfg(test)]
mod tests {
    use super::parse;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(parts) => {
                let parts = parts.iter().map(|(key, value)| {
                    format!("{}={value}", key.strip_prefix("postgres.").unwrap_or(key))
                });
                parts.collect::<Vec<_>>().join(" ")
            }
            Err(reason) => format!("! {reason}"),
        }
    }

    #[test]
    fn urls_and_keyword_strings_name_the_same_things() {
        for (text, expected) in [
            ("postgresql://u@h/d", "user=u database=d host=h port=5432"),
            (
                "postgres://u%40x:p%3Aw@a:1,b/d?sslmode=require&connect_timeout=3",
                "user=u@x password=p:w database=d host=a,b port=1,5432 sslmode=require connect_timeout=3s",
            ),
            ("postgresql://[::1]:5433/d", "database=d host=::1 port=5433"),
            (
                "postgresql://%2Frun%2Fpg/d",
                "database=d host=/run/pg port=5432",
            ),
            (
                "postgresql:///d?host=/run/pg&port=6",
                "database=d host=/run/pg port=6",
            ),
            (
                "host=a user = u password='it\\'s it' target_session_attrs=primary",
                "host=a user=u password=it's it target_session_attrs=primary",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn faults_do_not_show_the_string() {
        for text in [
            "mysql://u:hunter2@h",
            "hunter2",
            "password='hunter2",
            "postgresql://u:hunter2%zz@h/d",
        ] {
            let reason = parse(text).unwrap_err();
            assert!(!reason.contains("hunter2"), "{reason}");
        }
        assert_eq!(
            parse("postgresql://h/d?sslmod=x")
                .unwrap_err()
                .split(" is")
                .next(),
            Some("option \"sslmod\"")
        );
    }
}
