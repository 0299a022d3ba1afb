//! Where the router's columns are in one table and how each is read: worked out once per
//! description of the table.

use std::sync::Arc;

use super::converter::{Converter, Mismatch};
use super::placement::PlacementTarget;
use super::{Header, MissingField, Options, RouteError};
use crate::outbox::{
    ColumnType, Kind, Schema, Source, TypeCatalog, Value, ValueError, default_value,
};
use crate::pgoutput::{Datum, Relation, Tuple};

#[derive(Debug)]
pub(super) struct Plan {
    /// The same on every record.
    pub(super) context: Vec<Header>,
    pub(super) payload: PlannedColumn,
    pub(super) timestamp: Option<PlannedColumn>,
    pub(super) id: PlannedColumn,
    pub(super) schema_version: Option<PlannedColumn>,
    pub(super) headers: Vec<(Arc<str>, PlannedColumn)>,
    pub(super) envelope: Option<Vec<(String, PlannedColumn)>>,
    pub(super) partition: Option<PlannedColumn>,
    pub(super) key: PlannedColumn,
    pub(super) route: PlannedColumn,
    /// `prefix.schema.table.`, in front of the routed value in an envelope's schema name.
    pub(super) schema_name: String,
}

/// A column, its type, and what one converter puts before its values.
#[derive(Debug)]
pub(super) struct PlannedColumn {
    index: usize,
    pub(super) name: String,
    pub(super) column: ColumnType,
    pub(super) prefix: Vec<u8>,
    /// Its JSON was checked by the server, which also made the keys of objects unique.
    pub(super) is_jsonb: bool,
}

/// `pg_type.dat`
const JSONB_OID: u32 = 3802;

impl Plan {
    /// In the order in which Debezium looks for the columns.
    pub(super) fn new(
        relation: &Relation,
        options: &Options,
        catalog: &TypeCatalog,
    ) -> Result<Self, RouteError> {
        let find = |column: &str, option: &'static str, converter: Option<&Converter>| {
            PlannedColumn::find(relation, column, option, converter, options, catalog)
        };
        let converters = &options.converters;
        let payload = find(
            &options.payload_field,
            "table.field.event.payload",
            Some(&converters.value),
        )?;
        let timestamp = match &options.timestamp_field {
            Some(column) => Some(find(column, "table.field.event.timestamp", None)?),
            None => None,
        };
        let id = find(
            &options.id_field,
            "table.field.event.id",
            Some(&converters.header),
        )?;
        let has_envelope = options.has_envelope();
        let schema_version = match &options.schema_version_field {
            Some(column) if has_envelope => {
                Some(find(column, "table.field.event.schema.version", None)?)
            }
            _ => None,
        };
        let (mut headers, mut envelope, mut partition) = (Vec::new(), Vec::new(), None);
        for placement in &options.placements {
            let converter = match &placement.target {
                PlacementTarget::Header(_) => Some(&converters.header),
                PlacementTarget::Envelope(_) | PlacementTarget::Partition => None,
            };
            let option = "table.fields.additional.placement";
            let column = match find(&placement.field, option, converter) {
                Ok(column) => column,
                Err(_) if options.missing == MissingField::Ignore => continue,
                Err(error) => return Err(error),
            };
            match &placement.target {
                PlacementTarget::Header(name) => headers.push((name.as_str().into(), column)),
                PlacementTarget::Envelope(name) => envelope.push((name.clone(), column)),
                PlacementTarget::Partition => partition = Some(column),
            }
        }
        let key = find(
            &options.key_field,
            "table.field.event.key",
            Some(&converters.key),
        )?;
        let route = find(&options.route_field, "route.by.field", None)?;
        if route.column.schema.kind != Kind::String {
            return Err(RouteError::RouteType {
                column: route.name,
                found: route.column.type_name(),
            });
        }
        let (prefix, namespace, table) =
            (&options.topic_prefix, &relation.namespace, &relation.name);
        let dot = if prefix.is_empty() { "" } else { "." };
        Ok(Self {
            context: context(options)?,
            payload,
            timestamp,
            id,
            schema_version,
            headers,
            envelope: has_envelope.then_some(envelope),
            partition,
            key,
            route,
            schema_name: format!("{prefix}{dot}{namespace}.{table}."),
        })
    }
}

/// In Debezium's order.
fn context(options: &Options) -> Result<Vec<Header>, RouteError> {
    let Some(context) = &options.context else {
        return Ok(Vec::new());
    };
    let (schema, converter) = (Schema::new(Kind::String), &options.converters.header);
    let prefix = converter.prefix(&schema);
    [
        ("connectorLogicalName", options.topic_prefix.as_str()),
        ("taskId", "0"),
        ("connectorName", "postgresql"),
        ("runId", &context.run_id),
    ]
    .into_iter()
    .map(|(name, text)| {
        let name = format!("__debezium.context.{name}");
        match converter.convert(&Value::text(text), &schema, &prefix) {
            Ok(value) => Ok(Header {
                name: name.into(),
                value,
            }),
            Err(mismatch) => Err(RouteError::Converter {
                column: name,
                converter: mismatch.converter,
                expected: mismatch.expected,
                found: "string",
            }),
        }
    })
    .collect()
}

impl PlannedColumn {
    pub(super) fn find(
        relation: &Relation,
        name: &str,
        option: &'static str,
        converter: Option<&Converter>,
        options: &Options,
        catalog: &TypeCatalog,
    ) -> Result<Self, RouteError> {
        let index = relation
            .column(name)
            .filter(|_| {
                let columns = &options.columns;
                columns.takes(&relation.namespace, &relation.name, name)
            })
            .ok_or_else(|| RouteError::MissingColumn {
                column: name.to_owned(),
                option,
                nearest: nearest(relation, name),
            })?;
        let found = &relation.columns[index];
        let (oid, modifier) = (found.type_oid, found.type_modifier);
        let column = ColumnType::of(oid, modifier, catalog, &options.types);
        let column = match converter {
            // The text alone matters: every type has one.
            Some(Converter::Raw) => column.or_else(|| Some(ColumnType::text())),
            _ => column,
        };
        let mut column = column.ok_or_else(|| RouteError::UnsupportedType {
            column: name.to_owned(),
            option,
        })?;
        let described = catalog.column(relation.oid, name);
        column.schema.optional = match described {
            Some(described) => !described.not_null,
            None => !found.is_key,
        };
        column.schema.default = described
            .and_then(|described| described.default.as_deref())
            .and_then(|expression| default_value(expression, oid, &column, catalog));
        Ok(Self {
            index,
            name: name.to_owned(),
            prefix: converter.map_or_else(Vec::new, |converter| converter.prefix(&column.schema)),
            column,
            is_jsonb: oid == JSONB_OID,
        })
    }

    pub(super) fn datum<'a>(&self, row: &Tuple<'a>) -> Datum<'a> {
        row.datums.get(self.index).copied().unwrap_or(Datum::Null)
    }

    /// The column's text; `None` is NULL.
    pub(super) fn text<'a>(&self, row: &Tuple<'a>) -> Result<Option<&'a str>, RouteError> {
        match self.datum(row) {
            Datum::Null | Datum::UnchangedToast => Ok(None),
            Datum::Text(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| self.expected("UTF-8"))?;
                Ok(Some(text))
            }
            Datum::Binary(_) => Err(self.expected("text format")),
        }
    }

    /// Connect's value, without a default for NULL.
    pub(super) fn read<'a>(
        &self,
        row: &Tuple<'a>,
        source: Source,
    ) -> Result<Value<'a>, RouteError> {
        match self.text(row)? {
            Some(text) => self
                .column
                .read(text, source)
                .map_err(|expected| self.expected(expected)),
            None => Ok(Value::Null),
        }
    }

    /// Connect's value; NULL is the column's default where it has one.
    pub(super) fn read_or_default<'a>(
        &self,
        row: &Tuple<'a>,
        source: Source,
    ) -> Result<Value<'a>, RouteError> {
        let value = self.read(row, source)?;
        match &self.column.schema.default {
            Some(default) if value.is_null() => Ok(default.clone()),
            _ => Ok(value),
        }
    }

    pub(super) fn expected(&self, expected: &'static str) -> RouteError {
        RouteError::Value(ValueError {
            column: self.name.clone(),
            expected,
        })
    }

    pub(super) fn mismatch(&self, mismatch: Mismatch, found: &'static str) -> RouteError {
        RouteError::Converter {
            column: self.name.clone(),
            converter: mismatch.converter,
            expected: mismatch.expected,
            found,
        }
    }
}

fn nearest(relation: &Relation, wanted: &str) -> Option<String> {
    const ALIKE: f64 = 0.8;
    relation
        .columns
        .iter()
        .map(|column| (strsim::jaro_winkler(wanted, &column.name), &column.name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.clone())
}
