//! `table.fields.additional.placement`: where further columns go.

use std::fmt;

/// One `column:placement[:alias]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub field: String,
    pub target: PlacementTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementTarget {
    /// A record header of this name.
    Header(String),
    /// A member of the value, beside `payload`.
    Envelope(String),
    /// The record's partition; the last one in the list counts.
    Partition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// The list is set and empty.
    Empty,
    /// Neither two nor three parts.
    Parts {
        item: String,
    },
    UnknownPlacement {
        item: String,
        found: String,
    },
    /// An envelope has a member `payload` of its own, and each name once.
    NameTaken {
        name: String,
    },
}

impl Placement {
    pub fn header(field: &str, name: &str) -> Self {
        Self {
            field: field.to_owned(),
            target: PlacementTarget::Header(name.to_owned()),
        }
    }

    /// A list as Debezium takes it: separated by commas, blanks around the parts do not count, the
    /// placement in any case. Two headers of one name are allowed, as in Kafka.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, PlacementError> {
        if text.trim().is_empty() {
            return Err(PlacementError::Empty);
        }
        let placements = java_split(text, ',')
            .into_iter()
            .map(Self::parse)
            .collect::<Result<Vec<_>, _>>()?;
        Self::check_names(&placements)?;
        Ok(placements)
    }

    /// An envelope has a member `payload` of its own, and each name once.
    pub fn check_names(placements: &[Self]) -> Result<(), PlacementError> {
        let mut members = vec!["payload"];
        for placement in placements {
            let PlacementTarget::Envelope(name) = &placement.target else {
                continue;
            };
            if members.contains(&name.as_str()) {
                return Err(PlacementError::NameTaken { name: name.clone() });
            }
            members.push(name);
        }
        Ok(())
    }

    fn parse(item: &str) -> Result<Self, PlacementError> {
        let parts = java_split(item, ':').into_iter().map(str::trim);
        let parts: Vec<&str> = parts.collect();
        let (field, placement, alias) = match parts.as_slice() {
            [field, placement] => (*field, *placement, *field),
            [field, placement, alias] => (*field, *placement, *alias),
            _ => {
                return Err(PlacementError::Parts {
                    item: item.trim().to_owned(),
                });
            }
        };
        let target = match placement.to_ascii_lowercase().as_str() {
            "header" => PlacementTarget::Header(alias.to_owned()),
            "envelope" => PlacementTarget::Envelope(alias.to_owned()),
            "partition" => PlacementTarget::Partition,
            _ => {
                return Err(PlacementError::UnknownPlacement {
                    item: item.trim().to_owned(),
                    found: placement.to_owned(),
                });
            }
        };
        Ok(Self {
            field: field.to_owned(),
            target,
        })
    }
}

/// Java's `String.split` leaves empty parts at the end out.
fn java_split(text: &str, at: char) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split(at).collect();
    while parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    parts
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the list of additional fields is empty"),
            Self::Parts { item } => write!(
                f,
                "\"{item}\" is neither column:placement nor column:placement:alias"
            ),
            Self::UnknownPlacement { item, found } => write!(
                f,
                "\"{item}\" asks for placement \"{found}\"; there are header, envelope and partition"
            ),
            Self::NameTaken { name } => {
                write!(f, "the envelope would have two members \"{name}\"")
            }
        }
    }
}

impl std::error::Error for PlacementError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_debezium_reads_them() {
        let list = "type:header:eventType, seq:ENVELOPE ,id:header:,part:partition,";
        let envelope = |name: &str| PlacementTarget::Envelope(name.to_owned());
        assert_eq!(
            Placement::parse_list(list),
            Ok(vec![
                Placement::header("type", "eventType"),
                Placement {
                    field: "seq".to_owned(),
                    target: envelope("seq")
                },
                Placement::header("id", "id"),
                Placement {
                    field: "part".to_owned(),
                    target: PlacementTarget::Partition
                },
            ])
        );
    }

    #[test]
    fn bad_lists_are_refused_with_the_item() {
        for (list, message) in [
            ("", "the list of additional fields is empty"),
            (
                "seq",
                "\"seq\" is neither column:placement nor column:placement:alias",
            ),
            (
                "a:header, seq:footer",
                "\"seq:footer\" asks for placement \"footer\"; there are header, envelope and partition",
            ),
            (
                "a:envelope:payload",
                "the envelope would have two members \"payload\"",
            ),
        ] {
            let error = Placement::parse_list(list).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
