//! Debezium's heartbeat: a record beside the events that says the connector is alive.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::converter::{Converter, Converters, JsonOptions, Mismatch};
use super::{Record, json};
use crate::outbox::{Field, Kind, Schema, Value};

/// Where heartbeats go and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    pub topic: Arc<str>,
    /// Debezium's `topic.prefix`: the heartbeat's key.
    pub server_name: String,
}

/// The converter writes bytes or numbers only, and a heartbeat is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHeartbeat {
    pub converter: &'static str,
}

impl From<Mismatch> for NoHeartbeat {
    fn from(mismatch: Mismatch) -> Self {
        Self {
            converter: mismatch.converter,
        }
    }
}

impl Heartbeat {
    pub fn record(&self, converters: &Converters, now_ms: i64) -> Result<Record, NoHeartbeat> {
        let name = Value::text(&self.server_name);
        let key = One {
            schema: "io.debezium.connector.common.ServerNameKey",
            field: "serverName",
            kind: Kind::String,
            value: &name,
        };
        let time = Value::Int(now_ms);
        let value = One {
            schema: "io.debezium.connector.common.Heartbeat",
            field: "ts_ms",
            kind: Kind::Int64,
            value: &time,
        };
        Ok(Record {
            topic: Arc::clone(&self.topic),
            partition: None,
            key: Some(key.write(&converters.key)?),
            value: Some(value.write(&converters.value)?),
            headers: SmallVec::new(),
            timestamp_ms: now_ms,
        })
    }
}

/// A struct of one field.
struct One<'a> {
    schema: &'static str,
    field: &'static str,
    kind: Kind,
    value: &'a Value<'a>,
}

impl One<'_> {
    fn write(&self, converter: &Converter) -> Result<Bytes, Mismatch> {
        let mut out = Vec::new();
        match converter.for_text()? {
            Converter::Json(options) => self.write_json(*options, &mut out),
            Converter::String | Converter::Simple => {
                let text = match self.value {
                    Value::Int(number) => number.to_string(),
                    Value::Text(text) => text.to_string(),
                    _ => String::new(),
                };
                out.extend(format!("Struct{{{}={text}}}", self.field).into_bytes());
            }
            _ => self.write_json(
                JsonOptions {
                    schemas: false,
                    ..JsonOptions::default()
                },
                &mut out,
            ),
        }
        Ok(Bytes::from(out))
    }

    fn write_json(&self, options: JsonOptions, out: &mut Vec<u8>) {
        if options.schemas {
            let field = Field::new(self.field, Schema::new(self.kind.clone()));
            let schema = Schema::logical(Kind::Struct(vec![field]), self.schema);
            out.extend_from_slice(b"{\"schema\":");
            json::write_schema(&schema, None, options.decimals, out);
            out.extend_from_slice(b",\"payload\":");
        }
        out.extend(format!("{{\"{}\":", self.field).into_bytes());
        json::write_value(self.value, options.decimals, out);
        out.push(b'}');
        if options.schemas {
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(key: Converter, value: Converter) -> Result<(String, String), NoHeartbeat> {
        let heartbeat = Heartbeat {
            topic: Arc::from("__debezium-heartbeat.lab"),
            server_name: "lab".to_owned(),
        };
        let header = Converter::Simple;
        let record = heartbeat.record(&Converters { key, value, header }, 7)?;
        let text = |bytes: Option<Bytes>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        Ok((text(record.key), text(record.value)))
    }

    #[test]
    fn key_and_value_are_what_the_converters_make_of_debeziums_structs() {
        let pair = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(
            beat(Converter::String, Converter::JSON),
            pair("Struct{serverName=lab}", "{\"ts_ms\":7}")
        );
        assert_eq!(
            beat(Converter::JSON, Converter::String),
            pair("{\"serverName\":\"lab\"}", "Struct{ts_ms=7}")
        );
        let schemas = || Converter::Json(JsonOptions::default());
        assert_eq!(
            beat(schemas(), schemas()),
            pair(
                "{\"schema\":{\"type\":\"struct\",\"fields\":[{\"type\":\"string\",\"optional\":false,\"field\":\"serverName\"}],\"optional\":false,\"name\":\"io.debezium.connector.common.ServerNameKey\",\"version\":1},\"payload\":{\"serverName\":\"lab\"}}",
                "{\"schema\":{\"type\":\"struct\",\"fields\":[{\"type\":\"int64\",\"optional\":false,\"field\":\"ts_ms\"}],\"optional\":false,\"name\":\"io.debezium.connector.common.Heartbeat\",\"version\":1},\"payload\":{\"ts_ms\":7}}"
            )
        );
        let binary = Converter::BinaryData { delegate: None };
        assert_eq!(
            beat(Converter::String, binary),
            Err(NoHeartbeat {
                converter: "BinaryDataConverter"
            })
        );
    }
}
