//! `column.include.list` and `column.exclude.list`: which columns an event has at all.

use crate::java::{PatternError, PatternList};

/// Decides by `schema.table.column`.
#[derive(Clone, Debug, Default)]
pub struct ColumnFilter(Rule);

pub type ColumnFilterError = PatternError;

#[derive(Clone, Debug, Default)]
enum Rule {
    #[default]
    All,
    Including(PatternList),
    Excluding(PatternList),
}

impl ColumnFilter {
    pub fn including(list: &str) -> Result<Self, ColumnFilterError> {
        PatternList::new(list).map(|list| Self(Rule::Including(list)))
    }

    pub fn excluding(list: &str) -> Result<Self, ColumnFilterError> {
        PatternList::new(list).map(|list| Self(Rule::Excluding(list)))
    }

    /// Its list, where there is one.
    pub const fn patterns(&self) -> Option<&PatternList> {
        match &self.0 {
            Rule::All => None,
            Rule::Including(list) | Rule::Excluding(list) => Some(list),
        }
    }

    pub(super) fn takes(&self, schema: &str, table: &str, column: &str) -> bool {
        let matched = |list: &PatternList| list.matches(&format!("{schema}.{table}.{column}"));
        match &self.0 {
            Rule::All => true,
            Rule::Including(list) => matched(list),
            Rule::Excluding(list) => !matched(list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_whole_path() {
        let including = ColumnFilter::including("public.outbox.(id|payload)").unwrap();
        let excluding = ColumnFilter::excluding(r".*\.secret").unwrap();
        let takes = |filter: &ColumnFilter, column| filter.takes("public", "outbox", column);
        assert!(takes(&including, "id") && takes(&including, "PAYLOAD"));
        assert!(!takes(&including, "seq"));
        assert!(takes(&excluding, "id") && !takes(&excluding, "secret"));
        assert!(takes(&ColumnFilter::default(), "secret"));
    }
}
