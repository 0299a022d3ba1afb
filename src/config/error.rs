//! What is wrong with a configuration, and what is only worth a line.

use std::fmt;

/// All that is wrong with a configuration, not just the first fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Never empty.
    pub faults: Vec<Fault>,
}

/// One wrong thing: where it is, what it is, what is behind it, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file and property, the environment variable or the flag.
    pub place: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

impl Fault {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    pub(super) fn detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, "\n  DETAIL:  {detail}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  HINT:  {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// A line for the log at start: an old name, a property without meaning here, a choice that was
/// made for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub place: String,
    pub message: String,
    /// Worth changing the file for.
    pub warning: bool,
}

impl Note {
    pub(super) fn info(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
            warning: false,
        }
    }

    pub(super) fn warning(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
            warning: true,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
