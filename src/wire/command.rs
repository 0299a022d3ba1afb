//! The text of replication commands.

use crate::lsn::Lsn;

/// A name in double quotes.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string for a replication command or SQL, in single quotes. With a backslash in it the form
/// `E''` is the same whatever `standard_conforming_strings` is.
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') {
        format!(" E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// The old form with keywords: all supported servers (14 to 18) take it.
pub fn create_temporary_slot(name: &str) -> String {
    format!(
        "CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT",
        quote_identifier(name)
    )
}

/// Without WAIT: the server would wait on when whoever asked has gone, and drop the slot then.
pub fn drop_slot(name: &str) -> String {
    format!("DROP_REPLICATION_SLOT {}", quote_identifier(name))
}

/// PostgreSQL 17 and later.
pub fn alter_slot_failover(name: &str) -> String {
    format!(
        "ALTER_REPLICATION_SLOT {} (FAILOVER true)",
        quote_identifier(name)
    )
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartReplication<'a> {
    pub slot: &'a str,
    pub publication: &'a str,
    /// The server starts here or at the slot's own position, whichever is later.
    pub start_lsn: Lsn,
}

impl StartReplication<'_> {
    pub fn command(&self) -> String {
        let publication = quote_literal(&quote_identifier(self.publication));
        format!(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {publication})",
            quote_identifier(self.slot),
            self.start_lsn,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quote_identifier("My \"slot\""), "\"My \"\"slot\"\"\"");
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\'b"), " E'a\\\\''b'");
        let start = StartReplication {
            slot: "s",
            publication: "O'x",
            start_lsn: Lsn::new(255),
        };
        assert_eq!(
            start.command(),
            "START_REPLICATION SLOT \"s\" LOGICAL 0/FF (proto_version '1', publication_names '\"O''x\"')"
        );
    }
}
