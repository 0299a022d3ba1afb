//! What the options make of a table's columns, all of them, before there is a row.

use super::converter::Converter;
use super::payload::takes_payload;
use super::placement::PlacementTarget;
use super::plan::PlannedColumn;
use super::{MissingField, Options, RouteError};
use crate::outbox::{Kind, Schema, TypeCatalog};
use crate::pgoutput::Relation;

/// One column that the options name.
#[derive(Clone, Debug, PartialEq)]
pub struct InspectedColumn {
    pub name: String,
    /// Debezium's name of the option.
    pub option: &'static str,
    pub role: ColumnRole,
    /// Connect's type of it, or why rows cannot be routed.
    pub found: Result<ConnectType, RouteError>,
    /// Without it no row can be routed; else it is left out where it is missing.
    pub required: bool,
}

/// What the column is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnRole {
    Id,
    Key,
    Payload,
    Route,
    Timestamp,
    SchemaVersion,
    /// With the header's name.
    Header(String),
    /// With the member's name.
    Envelope(String),
    Partition,
}

/// A type as Kafka Connect names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectType {
    pub kind: &'static str,
    /// Of a logical type, such as `io.debezium.data.Json`.
    pub logical: Option<String>,
    /// Of an array's items.
    pub items: Option<Box<Self>>,
}

impl Options {
    /// Every column with its role, in the order in which Debezium looks for them.
    pub fn columns(&self) -> Vec<(&str, &'static str, ColumnRole, bool)> {
        let mut columns = vec![(
            self.payload_field.as_str(),
            "table.field.event.payload",
            ColumnRole::Payload,
            true,
        )];
        if let Some(timestamp) = &self.timestamp_field {
            let option = "table.field.event.timestamp";
            columns.push((timestamp, option, ColumnRole::Timestamp, true));
        }
        columns.push((&self.id_field, "table.field.event.id", ColumnRole::Id, true));
        if let Some(version) = self
            .schema_version_field
            .as_ref()
            .filter(|_| self.has_envelope())
        {
            let option = "table.field.event.schema.version";
            columns.push((version, option, ColumnRole::SchemaVersion, true));
        }
        for placement in &self.placements {
            let role = match &placement.target {
                PlacementTarget::Header(name) => ColumnRole::Header(name.clone()),
                PlacementTarget::Envelope(name) => ColumnRole::Envelope(name.clone()),
                PlacementTarget::Partition => ColumnRole::Partition,
            };
            let required = self.missing == MissingField::Error;
            let option = "table.fields.additional.placement";
            columns.push((&placement.field, option, role, required));
        }
        columns.push((
            &self.key_field,
            "table.field.event.key",
            ColumnRole::Key,
            true,
        ));
        columns.push((&self.route_field, "route.by.field", ColumnRole::Route, true));
        columns
    }

    pub fn has_envelope(&self) -> bool {
        let is_envelope = |target: &PlacementTarget| matches!(target, PlacementTarget::Envelope(_));
        self.placements
            .iter()
            .any(|placement| is_envelope(&placement.target))
    }

    /// Every column against the table's own, by the rules that a row is routed by.
    pub fn inspect(&self, relation: &Relation, catalog: &TypeCatalog) -> Vec<InspectedColumn> {
        let inspected = |(name, option, role, required): (&str, _, ColumnRole, _)| {
            let converter = self.converter_of(&role);
            let found = PlannedColumn::find(relation, name, option, converter, self, catalog)
                .and_then(|column| self.check(column, &role, converter));
            InspectedColumn {
                name: name.to_owned(),
                option,
                role,
                found,
                required,
            }
        };
        self.columns().into_iter().map(inspected).collect()
    }

    fn converter_of(&self, role: &ColumnRole) -> Option<&Converter> {
        match role {
            ColumnRole::Payload => Some(&self.converters.value),
            ColumnRole::Id | ColumnRole::Header(_) => Some(&self.converters.header),
            ColumnRole::Key => Some(&self.converters.key),
            ColumnRole::Route
            | ColumnRole::Timestamp
            | ColumnRole::SchemaVersion
            | ColumnRole::Envelope(_)
            | ColumnRole::Partition => None,
        }
    }

    fn check(
        &self,
        column: PlannedColumn,
        role: &ColumnRole,
        converter: Option<&Converter>,
    ) -> Result<ConnectType, RouteError> {
        let schema = &column.column.schema;
        match role {
            ColumnRole::Route if schema.kind != Kind::String => Err(RouteError::RouteType {
                found: column.column.type_name(),
                column: column.name,
            }),
            ColumnRole::Timestamp if !column.column.is_moment() => Err(RouteError::NotATimestamp {
                column: column.name,
            }),
            ColumnRole::Partition | ColumnRole::SchemaVersion
                if !matches!(schema.kind, Kind::Int16 | Kind::Int32 | Kind::Int64) =>
            {
                Err(RouteError::NotAnInteger {
                    found: column.column.type_name(),
                    column: column.name,
                })
            }
            ColumnRole::Payload => takes_payload(&column, self).map(|()| ConnectType::of(schema)),
            _ => match converter.map(|converter| converter.takes(schema)) {
                Some(Err(mismatch)) => Err(column.mismatch(mismatch, column.column.type_name())),
                Some(Ok(())) | None => Ok(ConnectType::of(schema)),
            },
        }
    }
}

impl ConnectType {
    fn of(schema: &Schema) -> Self {
        let items = match &schema.kind {
            Kind::Array(items) => Some(Box::new(Self::of(items))),
            _ => None,
        };
        Self {
            kind: schema.kind.as_str(),
            logical: schema.name.clone(),
            items,
        }
    }

    /// An array of arrays has no type of its own in PostgreSQL: any array may be one.
    pub const fn is_array(&self) -> bool {
        self.items.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::{Column, ReplicaIdentity};
    use crate::router::{NumberKind, Placement};

    const BYTEA: u32 = 17;
    const INT8: u32 = 20;
    const INT4: u32 = 23;
    const TEXT: u32 = 25;

    fn relation(columns: &[(&str, u32)]) -> Relation {
        let column = |(name, type_oid): &(&str, u32)| Column {
            name: (*name).to_owned(),
            type_oid: *type_oid,
            type_modifier: -1,
            is_key: false,
        };
        Relation {
            oid: 1,
            namespace: "public".to_owned(),
            name: "outbox".to_owned(),
            replica_identity: ReplicaIdentity::Default,
            columns: columns.iter().map(column).collect(),
        }
    }

    fn faults(options: &Options, columns: &[(&str, u32)]) -> Vec<String> {
        let inspected = options.inspect(&relation(columns), &TypeCatalog::default());
        let faults = inspected
            .into_iter()
            .filter_map(|column| column.found.err());
        faults.map(|error| error.to_string()).collect()
    }

    const OUTBOX: [(&str, u32); 4] = [
        ("id", TEXT),
        ("aggregateid", TEXT),
        ("aggregatetype", TEXT),
        ("payload", TEXT),
    ];

    #[test]
    fn every_column_is_held_against_its_purpose_and_not_only_the_first() {
        assert_eq!(faults(&Options::native(), &OUTBOX), [""; 0]);
        let mut options = Options::debezium();
        options.timestamp_field = Some("id".to_owned());
        options.schema_version_field = Some("id".to_owned());
        options.placements =
            Placement::parse_list("payload:partition,id:envelope,gone:header").unwrap();
        options.converters.key = Converter::Number(NumberKind::Long);
        let columns = [OUTBOX[0], OUTBOX[1], ("aggregatetype", INT4), OUTBOX[3]];
        assert_eq!(
            faults(&options, &columns),
            [
                "column \"id\" is not a timestamp",
                "column \"id\": expected an integer column, found string",
                "column \"payload\": expected an integer column, found string",
                "the table has no column \"gone\", which table.fields.additional.placement names",
                "LongConverter on column \"aggregateid\": expected int64, found string",
                "route.by.field: expected a text column, found \"aggregatetype\" of type int32",
            ]
        );
        assert_eq!(
            faults(
                &options,
                &[("aggregateid", INT8), OUTBOX[0], OUTBOX[2], OUTBOX[3]]
            )
            .len(),
            4
        );
    }

    #[test]
    fn the_values_converter_has_to_take_what_becomes_of_the_payload() {
        let with = |converter: Converter, expand_json, payload| {
            let mut options = Options::debezium();
            options.converters.value = converter;
            options.expand_json = expand_json;
            faults(
                &options,
                &[OUTBOX[0], OUTBOX[1], OUTBOX[2], ("payload", payload)],
            )
        };
        let binary = || Converter::BinaryData { delegate: None };
        assert_eq!(with(binary(), false, BYTEA), [""; 0]);
        assert_eq!(
            with(binary(), false, TEXT),
            ["BinaryDataConverter on column \"payload\": expected bytes, found string"]
        );
        assert_eq!(
            with(Converter::ByteArray, true, TEXT),
            ["ByteArrayConverter on column \"payload\": expected bytes, found struct"]
        );
        let delegate = Some(Box::new(Converter::JSON));
        assert_eq!(
            with(Converter::BinaryData { delegate }, true, TEXT),
            [""; 0]
        );
    }
}
