//! When retained rows are published again, and from where they are read.

/// Debezium's `snapshot.mode`. One rule is ours: a slot that exists is never followed by a snapshot
/// that nobody asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotMode {
    /// The rows that are there when the slot is created, then the stream.
    #[default]
    Initial,
    /// Only what is committed after the slot is created.
    NoData,
    /// The rows that are there, once, and no stream.
    InitialOnly,
    /// All rows at each start, then the stream.
    Always,
    /// As `Initial`, and a slot that the server has invalidated is replaced.
    WhenNeeded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOptions {
    pub mode: SnapshotMode,
    /// Debezium's `snapshot.select.statement.overrides`: read these rows instead of all. The first
    /// match counts.
    pub overrides: Vec<SelectOverride>,
    /// How many bytes of rows one fetch may hold; one row may be more.
    pub fetch_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectOverride {
    /// `schema.table`, exact.
    pub table: String,
    /// A SELECT that gives the table's columns by their names.
    pub statement: String,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            mode: SnapshotMode::default(),
            overrides: Vec::new(),
            fetch_bytes: 1 << 20,
        }
    }
}

impl SnapshotOptions {
    pub(super) fn statement_for(&self, schema: &str, name: &str) -> Option<&str> {
        self.overrides
            .iter()
            .find(|candidate| {
                candidate
                    .table
                    .strip_prefix(schema)
                    .and_then(|rest| rest.strip_prefix('.'))
                    == Some(name)
            })
            .map(|candidate| candidate.statement.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_is_found_by_the_exact_name() {
        let options = SnapshotOptions {
            overrides: vec![SelectOverride {
                table: "a.b.c".into(),
                statement: "SELECT 1".into(),
            }],
            ..SnapshotOptions::default()
        };
        assert_eq!(options.statement_for("a.b", "c"), Some("SELECT 1"));
        assert_eq!(options.statement_for("a", "b.c"), Some("SELECT 1"));
        assert_eq!(options.statement_for("a", "c"), None);
    }
}
