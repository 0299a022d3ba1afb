//! Kafka's config providers: `${file:PATH:KEY}`, `${env:NAME}`, `${dir:FOLDER:FILE}`.

use std::collections::BTreeMap;
use std::path::Path;

use super::file::{self, Properties, Shape};
use crate::config::environment::Environment;
use crate::config::settings::beside;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    File,
    Environment,
    Directory,
}

/// Providers by the name that placeholders use.
pub(super) struct Providers<'a> {
    by_name: BTreeMap<String, Result<Provider, String>>,
    environment: &'a Environment,
}

/// Names that are taken where the worker names none, as most files do.
const USUAL: &[(&str, Provider)] = &[
    ("file", Provider::File),
    ("env", Provider::Environment),
    ("dir", Provider::Directory),
    ("directory", Provider::Directory),
];

impl<'a> Providers<'a> {
    /// As `config.providers` of the worker says.
    pub(super) fn new(worker: Option<&Properties>, environment: &'a Environment) -> Self {
        let mut by_name: BTreeMap<_, _> = USUAL
            .iter()
            .map(|(name, provider)| ((*name).to_owned(), Ok(*provider)))
            .collect();
        let names = worker
            .and_then(|worker| worker.get("config.providers"))
            .unwrap_or("");
        for name in names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            let class = worker
                .and_then(|worker| worker.get(&format!("config.providers.{name}.class")))
                .unwrap_or("");
            let provider = match class.rsplit('.').next().unwrap_or("") {
                "FileConfigProvider" => Ok(Provider::File),
                "EnvVarConfigProvider" => Ok(Provider::Environment),
                "DirectoryConfigProvider" => Ok(Provider::Directory),
                _ => Err(class.to_owned()),
            };
            by_name.insert(name.to_owned(), provider);
        }
        Self {
            by_name,
            environment,
        }
    }

    /// `text` with every placeholder replaced. What has no colon inside the braces is none.
    pub(super) fn resolve(&self, text: &str, properties: &Properties) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(end) = rest[start..].find('}').map(|length| start + length) else {
                break;
            };
            out.push_str(&rest[..start]);
            let inner = &rest[start + 2..end];
            match inner.split_once(':') {
                Some((provider, reference)) => {
                    out.push_str(&self.value(provider, reference, properties)?);
                }
                None => out.push_str(&self.plain(inner, &rest[start..=end], properties)),
            }
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Debezium Server's files may name environment variables without a provider.
    fn plain(&self, name: &str, as_written: &str, properties: &Properties) -> String {
        let variable = properties.shape == Shape::DebeziumServer
            && name
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || b"_0123456789".contains(&byte));
        let value = if variable {
            self.environment.get(name)
        } else {
            None
        };
        value.unwrap_or(as_written).to_owned()
    }

    fn value(
        &self,
        provider: &str,
        reference: &str,
        properties: &Properties,
    ) -> Result<String, String> {
        let provider = match self.by_name.get(provider) {
            Some(Ok(provider)) => *provider,
            Some(Err(class)) => {
                return Err(format!(
                    "config provider \"{provider}\" is of class \"{class}\", and only Kafka's own for files, directories and the environment are known"
                ));
            }
            None => {
                let names: Vec<_> = self.by_name.keys().map(String::as_str).collect();
                return Err(format!(
                    "there is no config provider \"{provider}\" (known: {})",
                    names.join(", ")
                ));
            }
        };
        let (path, key) = reference.split_once(':').unwrap_or(("", reference));
        match provider {
            Provider::Environment => self
                .environment
                .get(key)
                .map(str::to_owned)
                .ok_or_else(|| format!("environment variable \"{key}\" is not set")),
            Provider::File => {
                let path = beside(&properties.path, path);
                let bytes = std::fs::read(&path)
                    .map_err(|error| format!("\"{path}\" cannot be read: {error}"))?;
                let mut entries = file::from_properties(&bytes)
                    .map_err(|reason| format!("\"{path}\": {reason}"))?;
                entries
                    .remove(key)
                    .ok_or_else(|| format!("\"{path}\" has no key \"{key}\""))
            }
            Provider::Directory => {
                let path = Path::new(&beside(&properties.path, path)).join(key);
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| format!("\"{}\" cannot be read: {error}", path.display()))?;
                // Mounted secrets often end in a line break that nobody means.
                Ok(text.trim_end_matches(['\r', '\n']).to_owned())
            }
        }
    }
}
