use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};

/// `http.*`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// `None` switches it off. On loopback by default: the status page names servers and topics.
    pub listen: Option<SocketAddr>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9464))),
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
