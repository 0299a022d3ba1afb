//! Which tables are the outbox.

use std::fmt;

use crate::java::PatternList;

/// Decides by schema and name. Debezium's four lists, or one exact table.
#[derive(Clone, Debug)]
pub struct TableFilter {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Exact {
        schema: String,
        name: String,
    },
    Lists {
        schemas: Option<List>,
        tables: Option<List>,
    },
}

/// One comma-separated list of regular expressions, and whether it takes or leaves what matches.
#[derive(Clone, Debug)]
struct List {
    include: bool,
    patterns: PatternList,
}

/// `schema.include.list`, `schema.exclude.list`, `table.include.list`, `table.exclude.list`: full,
/// case-insensitive matches; the table lists match `schema.table`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableLists {
    pub schema_include: Option<String>,
    pub schema_exclude: Option<String>,
    pub table_include: Option<String>,
    pub table_exclude: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableFilterError {
    /// Not `table`, `schema.table` or the same with parts in double quotes.
    Name { text: String },
    Pattern {
        option: &'static str,
        pattern: String,
        reason: String,
    },
    /// Debezium takes one of the two only.
    BothLists {
        include: &'static str,
        exclude: &'static str,
    },
}

impl TableFilter {
    /// `schema.table` or `table` (in schema `public`), with exact case; a part with a dot in it
    /// stands in double quotes.
    pub fn exact(text: &str) -> Result<Self, TableFilterError> {
        let refuse = || TableFilterError::Name {
            text: text.to_owned(),
        };
        let (schema, name) = match split_name(text).ok_or_else(refuse)?.as_slice() {
            [name] => ("public".to_owned(), name.clone()),
            [schema, name] => (schema.clone(), name.clone()),
            _ => return Err(refuse()),
        };
        Ok(Self {
            kind: Kind::Exact { schema, name },
        })
    }

    pub fn lists(lists: &TableLists) -> Result<Self, TableFilterError> {
        let schemas = List::one_of(
            (&lists.schema_include, "schema.include.list"),
            (&lists.schema_exclude, "schema.exclude.list"),
        )?;
        let tables = List::one_of(
            (&lists.table_include, "table.include.list"),
            (&lists.table_exclude, "table.exclude.list"),
        )?;
        Ok(Self {
            kind: Kind::Lists { schemas, tables },
        })
    }

    pub fn matches(&self, schema: &str, name: &str) -> bool {
        match &self.kind {
            Kind::Exact {
                schema: wanted_schema,
                name: wanted,
            } => wanted_schema == schema && wanted == name,
            Kind::Lists { schemas, tables } => {
                let takes = |list: &Option<List>, text: &str| {
                    list.as_ref().is_none_or(|list| list.takes(text))
                };
                takes(schemas, schema) && takes(tables, &format!("{schema}.{name}"))
            }
        }
    }

    /// The one table that is meant, where it is one.
    pub fn exact_name(&self) -> Option<(&str, &str)> {
        match &self.kind {
            Kind::Exact { schema, name } => Some((schema, name)),
            Kind::Lists { .. } => None,
        }
    }

    /// `schema.table` as far as the filter has names, to look for what resembles them.
    pub(super) fn wanted_names(&self) -> Vec<String> {
        match &self.kind {
            Kind::Exact { schema, name } => vec![format!("{schema}.{name}")],
            Kind::Lists {
                tables: Some(list), ..
            } if list.include => list
                .patterns
                .items()
                .iter()
                .map(|pattern| pattern.replace('\\', ""))
                .collect(),
            Kind::Lists { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for TableFilter {
    /// For messages: the name, or the lists as they were written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Exact { schema, name } => write!(f, "{schema}.{name}"),
            Kind::Lists {
                schemas: None,
                tables: None,
            } => f.write_str("all tables"),
            Kind::Lists { schemas, tables } => {
                let parts = [("schema", schemas), ("table", tables)];
                let mut separator = "";
                for (what, list) in parts {
                    if let Some(list) = list {
                        let verb = if list.include { "include" } else { "exclude" };
                        write!(
                            f,
                            "{separator}{what}.{verb}.list={}",
                            list.patterns.source()
                        )?;
                        separator = ", ";
                    }
                }
                Ok(())
            }
        }
    }
}

impl List {
    fn one_of(
        (include, include_option): (&Option<String>, &'static str),
        (exclude, exclude_option): (&Option<String>, &'static str),
    ) -> Result<Option<Self>, TableFilterError> {
        match (include.as_deref(), exclude.as_deref()) {
            (Some(_), Some(_)) => Err(TableFilterError::BothLists {
                include: include_option,
                exclude: exclude_option,
            }),
            (Some(source), None) => Self::new(source, true, include_option).map(Some),
            (None, Some(source)) => Self::new(source, false, exclude_option).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn new(source: &str, include: bool, option: &'static str) -> Result<Self, TableFilterError> {
        let patterns = PatternList::new(source).map_err(|error| TableFilterError::Pattern {
            option,
            pattern: error.pattern,
            reason: error.reason,
        })?;
        Ok(Self { include, patterns })
    }

    fn takes(&self, text: &str) -> bool {
        self.patterns.matches(text) == self.include
    }
}

/// Parts at dots outside double quotes. `None` where a quote stays open or a part is empty.
fn split_name(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut characters = text.trim().chars().peekable();
    while let Some(character) = characters.next() {
        let part = parts.last_mut()?;
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => part.push('"'),
            '"' if quoted || part.is_empty() => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            other => part.push(other),
        }
    }
    (!quoted && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

impl fmt::Display for TableFilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { text } => write!(
                f,
                "\"{}\" does not name a table: expected schema.table",
                text.escape_debug()
            ),
            Self::Pattern {
                option,
                pattern,
                reason,
            } => write!(
                f,
                "{option}: \"{}\" is not a regular expression: {reason}",
                pattern.escape_debug()
            ),
            Self::BothLists { include, exclude } => {
                write!(f, "{include} and {exclude} cannot both be set")
            }
        }
    }
}

impl std::error::Error for TableFilterError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn include(list: &str) -> TableFilter {
        let lists = TableLists {
            table_include: Some(list.into()),
            ..TableLists::default()
        };
        TableFilter::lists(&lists).unwrap()
    }

    #[test]
    fn an_exact_name_minds_case_and_quotes() {
        let filter = TableFilter::exact("Sales.Outbox").unwrap();
        assert!(filter.matches("Sales", "Outbox"));
        assert!(!filter.matches("sales", "outbox"));
        assert_eq!(
            TableFilter::exact("outbox").unwrap().exact_name(),
            Some(("public", "outbox"))
        );
        let quoted = TableFilter::exact("\"a.b\".\"say \"\"hi\"\"\"").unwrap();
        assert_eq!(quoted.exact_name(), Some(("a.b", "say \"hi\"")));
        for text in ["", ".", "a.", ".a", "a.b.c", "\"a", "\"\".b"] {
            let expected = TableFilterError::Name { text: text.into() };
            assert_eq!(TableFilter::exact(text).unwrap_err(), expected);
        }
    }

    #[test]
    fn lists_match_whole_names_whatever_their_case() {
        let filter = include("public.outbox, sales\\.(event|msg)_outbox");
        assert!(filter.matches("public", "outbox"));
        assert!(filter.matches("Public", "OUTBOX"));
        assert!(filter.matches("sales", "msg_outbox"));
        assert!(!filter.matches("public", "outbox_old"));
        assert!(!filter.matches("xpublic", "outbox"));
        assert!(!filter.matches("sales", "outbox"));
    }

    #[test]
    fn a_comma_inside_a_pattern_is_escaped() {
        let filter = include("public.outbox_\\d{1\\,2},other.t");
        assert!(filter.matches("public", "outbox_12"));
        assert!(!filter.matches("public", "outbox_123"));
        assert!(filter.matches("other", "t"));
    }

    #[test]
    fn schema_and_exclude_lists_narrow_the_tables() {
        let lists = TableLists {
            schema_exclude: Some("audit".into()),
            table_exclude: Some("public\\.(?!outbox).*".into()),
            ..TableLists::default()
        };
        let filter = TableFilter::lists(&lists).unwrap();
        assert!(filter.matches("public", "outbox"));
        assert!(!filter.matches("public", "orders"));
        assert!(!filter.matches("audit", "outbox"));
        assert_eq!(
            filter.to_string(),
            "schema.exclude.list=audit, table.exclude.list=public\\.(?!outbox).*"
        );
        assert!(
            TableFilter::lists(&TableLists::default())
                .unwrap()
                .matches("any", "table")
        );
    }

    #[test]
    fn faults_name_the_option() {
        let lists = TableLists {
            table_include: Some("a.b".into()),
            table_exclude: Some("a.c".into()),
            ..TableLists::default()
        };
        let expected = TableFilterError::BothLists {
            include: "table.include.list",
            exclude: "table.exclude.list",
        };
        assert_eq!(TableFilter::lists(&lists).unwrap_err(), expected);
        let lists = TableLists {
            schema_include: Some("(".into()),
            ..TableLists::default()
        };
        let message = TableFilter::lists(&lists).unwrap_err().to_string();
        assert!(message.starts_with("schema.include.list: \"(\" is not a regular expression"));
    }
}
