use std::collections::BTreeMap;

use tokio_postgres::Client;

use super::Event;

/// The consumer of the design: it takes an event only when its version is higher than what it holds for
/// that key. Whatever happened on the way, it ends with what the source's table has.
#[derive(Debug, Default)]
pub struct Follower {
    rows: BTreeMap<String, (i64, String)>,
    pub refused: u64,
}

impl Follower {
    /// The event has the header `seq` and a JSON payload with `status`.
    pub fn apply(&mut self, event: &Event) {
        let key = event.key.clone().unwrap();
        let payload: serde_json::Value =
            serde_json::from_str(event.value.as_deref().unwrap()).unwrap();
        let status = payload["status"].as_str().unwrap().to_owned();
        let held = self.rows.entry(key).or_default();
        if event.seq() > held.0 {
            *held = (event.seq(), status);
        } else {
            self.refused += 1;
        }
    }

    pub fn rows(&self) -> &BTreeMap<String, (i64, String)> {
        &self.rows
    }

    /// The source is the shop's table.
    pub async fn assert_equals_source(&self, client: &Client) {
        let orders = "SELECT id, version, status FROM orders WHERE version > 0";
        let source: BTreeMap<String, (i64, String)> = client
            .query(orders, &[])
            .await
            .unwrap()
            .iter()
            .map(|row| (row.get(0), (row.get(1), row.get(2))))
            .collect();
        assert_eq!(self.rows, source, "what the consumer holds");
    }
}
