//! Where the router's columns are in one table: looked up once per description of the table.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{MissingField, Options, RouteError};
use crate::pgoutput::Relation;

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) id: usize,
    pub(super) key: usize,
    pub(super) payload: usize,
    pub(super) route: usize,
    pub(super) timestamp: Option<usize>,
    pub(super) headers: SmallVec<[(Arc<str>, usize); 4]>,
}

impl Plan {
    pub(super) fn new(relation: &Relation, options: &Options) -> Result<Self, RouteError> {
        let find = |column: &str, option| find(relation, column, option);
        let mut headers = SmallVec::new();
        for placement in &options.headers {
            match find(&placement.field, "table.fields.additional.placement") {
                Ok(index) => headers.push((placement.header.as_str().into(), index)),
                Err(_) if options.missing == MissingField::Ignore => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            payload: find(&options.payload_field, "table.field.event.payload")?,
            timestamp: match &options.timestamp_field {
                Some(column) => Some(find(column, "table.field.event.timestamp")?),
                None => None,
            },
            id: find(&options.id_field, "table.field.event.id")?,
            headers,
            key: find(&options.key_field, "table.field.event.key")?,
            route: find(&options.route_field, "route.by.field")?,
        })
    }
}

fn find(relation: &Relation, column: &str, option: &'static str) -> Result<usize, RouteError> {
    relation
        .column(column)
        .ok_or_else(|| RouteError::MissingColumn {
            column: column.to_owned(),
            option,
            nearest: relation
                .columns
                .iter()
                .map(|candidate| {
                    (
                        strsim::jaro_winkler(column, &candidate.name),
                        &candidate.name,
                    )
                })
                .filter(|(similarity, _)| *similarity > 0.8)
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .map(|(_, name)| name.clone()),
        })
}
