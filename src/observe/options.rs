use std::fmt;
use std::io::IsTerminal;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::logging;

/// `http.*`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// `None` switches it off. On loopback by default: the status page names servers and topics.
    pub listen: Option<ListenAddress>,
}

/// `host:port`, where the host is a name, an IPv4 address or an IPv6 address in brackets. Port 0 is
/// any that is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    pub host: String,
    pub port: u16,
}

impl FromStr for ListenAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_v6 = inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
        let is_name = !host.is_empty()
            && host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
        if !is_v6 && !is_name {
            return Err(());
        }
        Ok(Self {
            host: inner.unwrap_or(host).to_owned(),
            port: port.parse().map_err(|_| ())?,
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            listen: Some(ListenAddress {
                host: "127.0.0.1".to_owned(),
                port: 9464,
            }),
        }
    }
}

/// `log.*`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter of tracing's by module.
    pub level: String,
}

impl LogOptions {
    /// What is wrong with a level, if anything is.
    pub fn check_level(level: &str) -> Result<(), String> {
        logging::filter(level).map(drop)
    }

    pub fn is_json(&self) -> bool {
        match self.format {
            LogFormat::Auto => !std::io::stderr().is_terminal(),
            LogFormat::Text => false,
            LogFormat::Json => true,
        }
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            level: "info".to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_or_a_number_with_a_port() {
        for (text, host, port) in [
            ("127.0.0.1:9464", "127.0.0.1", 9464),
            ("localhost:0", "localhost", 0),
            ("[::1]:80", "::1", 80),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "",
            "9464",
            ":9464",
            "localhost:",
            "localhost:70000",
            "::1:80",
            "[x]:1",
            "a b:1",
        ] {
            assert_eq!(text.parse::<ListenAddress>(), Err(()), "{text}");
        }
    }
}
