//! A little shop: every change of an order and its event are one transaction, and the event's row
//! does not outlive it. PostgreSQL's log is then the only copy of the event.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::Client;

use super::error::{DemoError, During};

const SCHEMA: &str = "
CREATE TABLE orders (
  id      text   PRIMARY KEY,
  status  text   NOT NULL,
  version bigint NOT NULL DEFAULT 1
);
CREATE TABLE outbox (
  id            uuid   PRIMARY KEY,
  aggregatetype text   NOT NULL,
  aggregateid   text   NOT NULL,
  seq           bigint NOT NULL,
  type          text   NOT NULL,
  payload       jsonb  NOT NULL
);
";
const CREATE_ORDER: &str =
    "INSERT INTO orders (id, status) VALUES ($1, $2) RETURNING version, gen_random_uuid()::text";
/// The version comes from the row's own lock: writers of one order get them in commit order.
const CHANGE_ORDER: &str = "UPDATE orders SET status = $2, version = version + 1 WHERE id = $1
 RETURNING version, gen_random_uuid()::text";
const INSERT_EVENT: &str =
    "INSERT INTO outbox (id, aggregatetype, aggregateid, seq, type, payload)
 VALUES ($1::text::uuid, 'order', $2, $3, $4, jsonb_build_object('order', $2::text, 'status', $5::text))";
const DELETE_EVENT: &str = "DELETE FROM outbox WHERE id = $1::text::uuid";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Created,
    Shipped,
    Delivered,
}

impl Change {
    const fn status(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Shipped => "shipped",
            Self::Delivered => "delivered",
        }
    }

    const fn event_type(self) -> &'static str {
        match self {
            Self::Created => "OrderCreated",
            Self::Shipped => "OrderShipped",
            Self::Delivered => "OrderDelivered",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    order: u32,
    change: Change,
    /// Otherwise it is rolled back, and its event must never be seen.
    commits: bool,
}

impl Step {
    pub(super) const fn commits(self) -> bool {
        self.commits
    }
}

/// Orders come one after the other; each is shipped when a few more have come, and delivered when
/// a few more have been shipped. One in eight changes fails once before it works.
pub(super) fn plan(orders: u32) -> Vec<Step> {
    const SHIPPED_AFTER: u32 = 4;
    const DELIVERED_AFTER: u32 = 9;
    const FAILS_EVERY: usize = 8;
    let changes = (0..orders + DELIVERED_AFTER).flat_map(|at| {
        let due = [
            (Some(at), Change::Created),
            (at.checked_sub(SHIPPED_AFTER), Change::Shipped),
            (at.checked_sub(DELIVERED_AFTER), Change::Delivered),
        ];
        due.into_iter()
            .filter_map(|(order, change)| Some((order?, change)))
    });
    let mut steps = Vec::new();
    for (order, change) in changes.filter(|(order, _)| *order < orders) {
        let step = |commits| Step {
            order,
            change,
            commits,
        };
        if steps.len() % FAILS_EVERY == FAILS_EVERY - 1 {
            steps.push(step(false));
        }
        steps.push(step(true));
    }
    steps
}

/// What the shop has done, told after the fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Committed {
        id: String,
        order: String,
        version: i64,
    },
    RolledBack {
        id: String,
    },
}

pub(super) async fn open(client: &Client) -> Result<(), DemoError> {
    client
        .batch_execute(SCHEMA)
        .await
        .during("the shop's tables")
}

/// One step after the other, `pace` apart. A receiver that is gone ends it.
pub(super) async fn run(
    mut client: Client,
    steps: Vec<Step>,
    pace: Duration,
    notes: mpsc::Sender<Note>,
) -> Result<(), DemoError> {
    let mut clock = tokio::time::interval(pace);
    for step in steps {
        clock.tick().await;
        let note = take(&mut client, step).await.during("the shop")?;
        if notes.send(note).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn take(client: &mut Client, step: Step) -> Result<Note, tokio_postgres::Error> {
    let order = format!("ORD-{:04}", step.order + 1);
    let status = step.change.status();
    let change = match step.change {
        Change::Created => CREATE_ORDER,
        Change::Shipped | Change::Delivered => CHANGE_ORDER,
    };
    let transaction = client.transaction().await?;
    let row = transaction.query_one(change, &[&order, &status]).await?;
    let (version, id): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
    let event_type = step.change.event_type();
    transaction
        .execute(INSERT_EVENT, &[&id, &order, &version, &event_type, &status])
        .await?;
    transaction.execute(DELETE_EVENT, &[&id]).await?;
    if !step.commits {
        transaction.rollback().await?;
        return Ok(Note::RolledBack { id });
    }
    transaction.commit().await?;
    Ok(Note::Committed { id, order, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_created_shipped_and_delivered_once_in_this_order() {
        let steps = plan(30);
        for order in 0..30 {
            let changes: Vec<_> = steps
                .iter()
                .filter(|step| step.order == order && step.commits)
                .map(|step| step.change)
                .collect();
            assert_eq!(
                changes,
                [Change::Created, Change::Shipped, Change::Delivered]
            );
        }
        assert_eq!(steps.iter().filter(|step| step.commits).count(), 90);
    }

    #[test]
    fn what_is_rolled_back_is_tried_again_at_once() {
        let steps = plan(30);
        let failed: Vec<_> = (0..steps.len()).filter(|at| !steps[*at].commits).collect();
        assert_eq!(failed, [7, 15, 23, 31, 39, 47, 55, 63, 71, 79, 87, 95]);
        for at in failed {
            let again = Step {
                commits: true,
                ..steps[at]
            };
            assert_eq!(steps[at + 1], again);
        }
    }
}
