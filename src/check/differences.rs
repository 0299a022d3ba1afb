//! What differs from Debezium on purpose: one table for `outboxd check`, which names what a
//! configuration meets, and for `docs/compatibility.md`, which names all.

use super::columns::UsedColumn;
use crate::config::{Config, Note};
use crate::postgres::publication::PublicationMode;
use crate::postgres::table::OutboxTable;
use crate::router::{ColumnRole, Converter, JsonOptions, TimePrecision};

/// One wanted difference.
#[derive(Debug)]
pub struct Difference {
    pub name: &'static str,
    pub debezium: &'static str,
    pub outboxd: &'static str,
    meets: Meets,
}

/// Which configurations meet a difference.
#[derive(Debug)]
enum Meets {
    Always,
    When(fn(&Met<'_>) -> bool),
    /// None: they are refused before anything is checked.
    Refused,
    /// Those with such a note.
    Noted(fn(&Note) -> bool),
}

/// What a configuration meets on the server, as far as it could be looked at.
#[derive(Clone, Copy)]
pub(super) struct Met<'a> {
    pub(super) config: &'a Config,
    /// Absent where the server could not be asked.
    pub(super) tables: Option<&'a Vec<OutboxTable>>,
    pub(super) used: &'a [UsedColumn],
    /// The publication is there and stays as it is.
    pub(super) has_publication: bool,
}

/// In the order of their names.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "NULL inside an array of an enum",
        debezium: "The whole array is null.",
        outboxd: "The array is kept, with the null in it.",
        meets: Meets::When(|met| met.reads(UsedColumn::is_enum_array)),
    },
    Difference {
        name: "arrays of several dimensions",
        debezium: "Inner arrays become null or the address of a Java array.",
        outboxd: "Inner arrays are kept.",
        meets: Meets::When(|met| met.reads(|column| column.connect_type.is_array())),
    },
    Difference {
        name: "bytea through Debezium's ByteArrayConverter",
        debezium: "The task fails: the converter does not take what the connector makes.",
        outboxd: "The bytes are published.",
        meets: Meets::When(|met| {
            met.is_binary() && met.payload(|column| column.sql_type == "bytea")
        }),
    },
    Difference {
        name: "changes that pass by the router",
        debezium: "Changes of tables that a predicate keeps from the router are published as they are.",
        outboxd: "Only the router's events are published; a predicate that leaves none is refused.",
        meets: Meets::Noted(|note| note.message.contains("do not reach the Event Router")),
    },
    Difference {
        name: "commit time",
        debezium: "The record's timestamp is the clock at which Debezium processed the row.",
        outboxd: "It is the time of the commit.",
        meets: Meets::When(|met| met.config.router.timestamp_field.is_none()),
    },
    Difference {
        name: "context headers",
        debezium: "Every record has the headers __debezium.context.*, unless extended.headers.enabled=false.",
        outboxd: "They are sent where extended.headers.enabled=true is set.",
        meets: Meets::When(|met| met.config.router.context.is_none()),
    },
    Difference {
        name: "deletes in the publication",
        debezium: "The publication has deletes, so PostgreSQL refuses them for a table without replica identity.",
        outboxd: "The publication has inserts and updates only; deletes go through.",
        meets: Meets::When(|met| {
            !met.has_publication && met.config.publication.mode != PublicationMode::MustExist
        }),
    },
    Difference {
        name: "empty name of a column",
        debezium: "An empty table.field.event.key stops the task at the first event.",
        outboxd: "An empty value is as good as none: the default counts.",
        meets: Meets::Noted(|note| {
            note.place.contains("table.field.event.") && note.message.starts_with("is empty")
        }),
    },
    Difference {
        name: "errors.tolerance=all",
        debezium: "What fails is passed over.",
        outboxd: "No row is passed over: what fails goes to the dead-letter topic (`errors.deadletterqueue.topic.name`, else the connector's name and `.dead-letter`).",
        meets: Meets::Noted(|note| note.place.ends_with("errors.tolerance")),
    },
    Difference {
        name: "event timestamp from other columns",
        debezium: "The task fails on a timestamptz or date column, and with time.precision.mode=connect or isostring.",
        outboxd: "The moment that the column names is the record's timestamp; NULL leaves the commit time.",
        meets: Meets::When(|met| met.dates_by_other_columns()),
    },
    Difference {
        name: "expanded payload that stops the task",
        debezium: "The task fails on a top-level array, on an integer beyond int64 and on a field that has two types in one array.",
        outboxd: "The JSON that was written is published, compacted, and counted.",
        meets: Meets::When(|met| met.expands()),
    },
    Difference {
        name: "further transforms",
        debezium: "They run before or behind the router.",
        outboxd: "Refused at start: the Event Router has to be the only one.",
        meets: Meets::Refused,
    },
    Difference {
        name: "heartbeats through BinaryDataConverter",
        debezium: "A heartbeat stops the task, because the converter has no delegate.",
        outboxd: "The event is published.",
        meets: Meets::When(|met| met.config.relay.heartbeat.is_some() && met.is_binary()),
    },
    Difference {
        name: "logical messages",
        debezium: "pg_logical_emit_message ends up in the topic PREFIX.message, beside the events.",
        outboxd: "Logical messages are not published.",
        meets: Meets::Always,
    },
    Difference {
        name: "lsn.flush.mode=manual",
        debezium: "The connector confirms nothing; somebody else has to.",
        outboxd: "Refused at start.",
        meets: Meets::Refused,
    },
    Difference {
        name: "name of the envelope's schema",
        debezium: "The first event's route stays in the name for the events of other routes.",
        outboxd: "The name has the event's own route.",
        meets: Meets::When(|met| met.config.router.has_envelope() && met.writes_schemas()),
    },
    Difference {
        name: "numerics, bits and points through StringConverter",
        debezium: "A numeric without scale, the bits of bit(n) and the well-known binary of a point are the address of a Java array, another one for each record.",
        outboxd: "They are the number, and the bytes in base64.",
        meets: Meets::When(|met| met.prints_byte_arrays()),
    },
    Difference {
        name: "order of fields in arrays of objects",
        debezium: "Fields follow hash codes, which change with the JVM.",
        outboxd: "Fields come in the order of the text.",
        meets: Meets::When(|met| met.expands()),
    },
    Difference {
        name: "partition from other integers",
        debezium: "The task fails unless the partition column is int4.",
        outboxd: "smallint and bigint name a partition as well.",
        meets: Meets::When(|met| {
            met.has(|column| {
                column.role == ColumnRole::Partition && column.connect_type.kind != "int32"
            })
        }),
    },
    Difference {
        name: "partitions listed beside their root",
        debezium: "Rows that a snapshot finds are published once for the root and once for the partition.",
        outboxd: "Every row is published once.",
        meets: Meets::When(|met| met.config.tables.exact_name().is_none() && met.is_partitioned()),
    },
    Difference {
        name: "rare regular expressions",
        debezium: "Java's \\X, \\N{NAME} and \\p{InBLOCK} are understood.",
        outboxd: "Refused at start.",
        meets: Meets::Refused,
    },
    Difference {
        name: "schema version with two shapes",
        debezium: "The first shape is kept for the version; the next one stops the task.",
        outboxd: "Each event has its own shape.",
        meets: Meets::When(|met| {
            met.config.router.schema_version_field.is_some() && met.config.router.has_envelope()
        }),
    },
    Difference {
        name: "signals",
        debezium: "Signal tables and incremental snapshots; without a predicate the signal itself stops the task.",
        outboxd: "Refused at start: there are no incremental snapshots.",
        meets: Meets::Refused,
    },
    Difference {
        name: "slot of an idle outbox",
        debezium: "The confirmed position stays at the last published event while the log grows; lsn.flush.mode=connector_and_driver publishes heartbeats that nobody asked for.",
        outboxd: "The confirmed position moves while the outbox is idle, without heartbeats.",
        meets: Meets::Always,
    },
    Difference {
        name: "table that is not there yet",
        debezium: "The task fails.",
        outboxd: "The relay waits for the table, and publishes what is in it.",
        meets: Meets::When(|met| met.tables.is_some_and(Vec::is_empty)),
    },
    Difference {
        name: "times before 1582-10-15 inside arrays",
        debezium: "Java's old calendar moves them by up to ten days and more; the same value alone is not moved.",
        outboxd: "They are what they are alone.",
        meets: Meets::When(|met| met.reads(UsedColumn::is_array_of_times)),
    },
    Difference {
        name: "truncates",
        debezium: "skipped.operations=none lets a TRUNCATE stop the task.",
        outboxd: "A TRUNCATE publishes nothing and stops nothing.",
        meets: Meets::Noted(|note| note.place.ends_with("skipped.operations")),
    },
    Difference {
        name: "unknown options",
        debezium: "Passed over in silence.",
        outboxd: "Refused at start, with the nearest known name.",
        meets: Meets::Refused,
    },
    Difference {
        name: "update of a primary key",
        debezium: "The event is published a second time, as a new one under its new id.",
        outboxd: "It is an update like any other: dropped, or blocked where updates are fatal.",
        meets: Meets::Always,
    },
    Difference {
        name: "values changed by the connector",
        debezium: "column.mask and column.truncate change what the router reads.",
        outboxd: "Refused at start.",
        meets: Meets::Refused,
    },
    Difference {
        name: "values in arrays of arrays",
        debezium: "Inner arrays get the shape of the first; the other values are lost.",
        outboxd: "Every value is kept.",
        meets: Meets::When(|met| met.expands()),
    },
];

/// The differences that this configuration meets.
pub(super) fn met(met: &Met<'_>) -> Vec<&'static Difference> {
    let is_met = |difference: &&Difference| match difference.meets {
        Meets::Always => true,
        Meets::When(meets) => meets(met),
        Meets::Refused => false,
        Meets::Noted(is_such) => met.config.notes.iter().any(is_such),
    };
    DIFFERENCES.iter().filter(is_met).collect()
}

impl Met<'_> {
    fn has(&self, is_such: impl Fn(&UsedColumn) -> bool) -> bool {
        self.used.iter().any(is_such)
    }

    fn payload(&self, is_such: impl Fn(&UsedColumn) -> bool) -> bool {
        self.has(|column| column.role == ColumnRole::Payload && is_such(column))
    }

    /// A column whose values go through a converter of Kafka Connect's.
    fn reads(&self, is_such: impl Fn(&UsedColumn) -> bool) -> bool {
        self.has(|column| {
            let converter = self.converter(&column.role);
            converter.is_some_and(|converter| *converter != Converter::Raw) && is_such(column)
        })
    }

    const fn converter(&self, role: &ColumnRole) -> Option<&Converter> {
        let converters = &self.config.router.converters;
        match role {
            ColumnRole::Key => Some(&converters.key),
            ColumnRole::Payload | ColumnRole::Envelope(_) => Some(&converters.value),
            ColumnRole::Id | ColumnRole::Header(_) => Some(&converters.header),
            ColumnRole::Route
            | ColumnRole::Timestamp
            | ColumnRole::SchemaVersion
            | ColumnRole::Partition => None,
        }
    }

    fn prints(&self, is_such: impl Fn(&UsedColumn) -> bool) -> bool {
        self.has(|column| {
            let converter = self.converter(&column.role);
            matches!(converter, Some(Converter::String | Converter::Simple)) && is_such(column)
        })
    }

    fn prints_byte_arrays(&self) -> bool {
        const IN_BYTES: [&str; 3] = [
            "io.debezium.data.VariableScaleDecimal",
            "io.debezium.data.Bits",
            "io.debezium.data.geometry.Point",
        ];
        self.prints(|column| {
            let logical = column.connect_type.logical.as_deref();
            logical.is_some_and(|logical| IN_BYTES.contains(&logical))
        })
    }

    fn is_partitioned(&self) -> bool {
        let mut tables = self.tables.into_iter().flatten();
        tables.any(|table| table.partitions.is_some())
    }

    const fn is_binary(&self) -> bool {
        matches!(
            self.config.router.converters.value,
            Converter::BinaryData { .. }
        )
    }

    const fn expands(&self) -> bool {
        self.config.router.expand_json
    }

    const fn writes_schemas(&self) -> bool {
        matches!(
            self.config.router.converters.value,
            Converter::Json(JsonOptions { schemas: true, .. })
        )
    }

    fn dates_by_other_columns(&self) -> bool {
        let router = &self.config.router;
        let mode = router.types.time_precision;
        let by_mode = matches!(mode, TimePrecision::Connect | TimePrecision::IsoString);
        let is_other = |column: &UsedColumn| {
            column.role == ColumnRole::Timestamp && !column.sql_type.ends_with("without time zone")
        };
        router.timestamp_field.is_some() && (by_mode || self.has(is_other))
    }
}

impl UsedColumn {
    /// The logical type of an array's items.
    fn items(&self) -> Option<&str> {
        self.connect_type.items.as_ref()?.logical.as_deref()
    }

    fn is_enum_array(&self) -> bool {
        self.items() == Some("io.debezium.data.Enum")
    }

    fn is_array_of_times(&self) -> bool {
        let is_time = |name: &str| {
            let of_debezium = name.starts_with("io.debezium.time.");
            of_debezium || name.starts_with("org.apache.kafka.connect.data.")
        };
        self.items()
            .is_some_and(|name| is_time(name) && !name.ends_with("Decimal"))
    }
}
