//! Which publication, and what may be done to it.

use std::fmt;
use std::str::FromStr;

/// An exact name: what the server calls the publication, with upper case and all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicationName(String);

const MAX_BYTES: usize = 63;

impl PublicationName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as a client that does not quote it would reach it: in lower case. Debezium does
    /// not quote `publication.name`.
    pub fn unquoted(text: &str) -> Result<Self, PublicationNameError> {
        text.to_lowercase().parse()
    }
}

impl fmt::Display for PublicationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicationNameError(String);

impl fmt::Display for PublicationNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" cannot name a publication: expected 1 to {MAX_BYTES} bytes without control characters",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for PublicationNameError {}

impl FromStr for PublicationName {
    type Err = PublicationNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if (1..=MAX_BYTES).contains(&text.len()) && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PublicationNameError(text.to_owned()))
        }
    }
}

/// What the relay does about its publication before anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PublicationMode {
    /// Created for exactly the outbox tables where there is none; never changed. The own file's
    /// `create = "missing"`.
    #[default]
    CreateMissing,
    /// Must exist. The own file's `create = "never"`, Debezium's `disabled`.
    MustExist,
    /// Debezium's `filtered`: as `CreateMissing`, and an existing publication of that name is set
    /// to exactly the outbox tables where it differs.
    Filtered,
    /// Debezium's `all_tables`: created `FOR ALL TABLES` where there is none.
    AllTables,
    /// Debezium's `no_tables`: created without tables where there is none; somebody adds them.
    NoTables,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicationOptions {
    pub name: PublicationName,
    pub mode: PublicationMode,
    /// `publish_via_partition_root` where the relay makes the publication: rows of all partitions
    /// arrive as rows of the one table that the configuration names.
    pub via_partition_root: bool,
    pub operations: Operations,
}

impl PublicationOptions {
    pub fn new(name: PublicationName) -> Self {
        Self {
            name,
            mode: PublicationMode::CreateMissing,
            via_partition_root: true,
            operations: Operations::default(),
        }
    }
}

/// What a publication that the relay makes sends. Inserts always: they are the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations {
    pub update: bool,
    pub delete: bool,
    pub truncate: bool,
}

impl Default for Operations {
    /// Updates, so that an update of an outbox row can be refused. No deletes: the server need not
    /// send what is dropped, which halves its work for rows that are inserted and deleted.
    fn default() -> Self {
        Self {
            update: true,
            delete: false,
            truncate: false,
        }
    }
}

impl fmt::Display for Operations {
    /// As the parameter `publish` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("insert")?;
        for (published, name) in [
            (self.update, ", update"),
            (self.delete, ", delete"),
            (self.truncate, ", truncate"),
        ] {
            if published {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_case_unless_they_are_unquoted() {
        assert_eq!(
            "Outbox Pub".parse::<PublicationName>().unwrap().as_str(),
            "Outbox Pub"
        );
        assert_eq!(
            PublicationName::unquoted("OutboxPub").unwrap().as_str(),
            "outboxpub"
        );
        for name in ["", "a\0b", "a\nb", &"x".repeat(64)] {
            let expected = Err(PublicationNameError(name.to_owned()));
            assert_eq!(name.parse::<PublicationName>(), expected);
        }
    }

    #[test]
    fn operations_read_as_the_publish_parameter() {
        assert_eq!(Operations::default().to_string(), "insert, update");
        let all = Operations {
            update: true,
            delete: true,
            truncate: true,
        };
        assert_eq!(all.to_string(), "insert, update, delete, truncate");
    }
}
