//! What the catalog says of a table that the stream has described, while its rows wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;

use super::error::tried_again;
use super::streaming::Loop;
use super::{Relay, RelayError};
use crate::outbox::TypeCatalog;
use crate::postgres::catalog::StreamedTable;
use crate::postgres::{self, PostgresError};

/// The session for the next time, and what the catalog says.
pub(super) type Described = (Option<Client>, Result<TypeCatalog, PostgresError>);
pub(super) type Describing = Pin<Box<dyn Future<Output = Described> + Send>>;

/// A change of the table may hold its lock for a while.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(30);
const DESCRIBE_PAUSE: Duration = Duration::from_secs(1);

async fn ask(table: StreamedTable, options: &postgres::Options, kept: Option<Client>) -> Described {
    let read = async {
        let client = match kept.filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => postgres::connect(options).await?,
        };
        let types = table.describe(&client).await?;
        Ok((client, types))
    };
    match tokio::time::timeout(DESCRIBE_TIMEOUT, read).await {
        Ok(Ok((client, types))) => (Some(client), Ok(types)),
        Ok(Err(error)) => (None, Err(error)),
        Err(_) => {
            let after = DESCRIBE_TIMEOUT;
            (None, Err(PostgresError::Silent { after }))
        }
    }
}

/// Ends when the answer is there; never without a question.
pub(super) async fn described(describing: &mut Option<Describing>) -> Described {
    match describing {
        Some(describing) => describing.await,
        None => std::future::pending().await,
    }
}

impl Relay {
    /// Begins to read what the catalog says of a table that the stream has just described.
    pub(super) fn describe(&self, state: &mut Loop, after: Duration) {
        if state.describing.is_some() {
            return;
        }
        if let Some(relation) = self.outbound.pipeline.undescribed() {
            tracing::debug!(table = relation.qualified_name(), "reading its types");
            self.watch.look_now();
            let source = &state.source;
            let table = StreamedTable {
                relation: Arc::clone(relation),
                filter: self.config.tables.clone(),
                publication: self.config.publication.name.to_string(),
                is_ours: source.tables.iter().any(|table| table.holds(relation.oid)),
                only_ours: source.only_ours,
                is_alike: self.outbound.pipeline.could_route(relation),
            };
            let (options, kept) = (state.source.options.clone(), state.catalog.take());
            state.describing = Some(Box::pin(async move {
                tokio::time::sleep(after).await;
                ask(table, &options, kept).await
            }));
        }
    }

    /// A question that failed is asked again: the stream is well, and its rows wait for the answer.
    pub(super) fn learn(&mut self, state: &mut Loop, types: Result<TypeCatalog, PostgresError>) {
        match types {
            Ok(types) => {
                self.outbound.pipeline.learn_types(types);
                if self.repeated.recovered() {
                    tracing::info!("recovered: the catalog was read");
                    self.view.set_problem(None);
                }
            }
            Err(error) => {
                let error = RelayError::from(error);
                let problem = tried_again(error.problem());
                let now = std::time::Instant::now();
                if let Some(unsaid) = self.repeated.say(&error.kind(), now) {
                    self.view.report(&problem, unsaid);
                }
                self.view.set_problem(Some(problem));
                self.describe(state, self.config.relay.backoff_max.min(DESCRIBE_PAUSE));
            }
        }
    }
}
