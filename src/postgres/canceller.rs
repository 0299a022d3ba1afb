//! Ends from outside what a session waits for in the server.

use std::io;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_postgres::{CancelToken, Client};

use super::Host;
use super::connect;
use super::session;
use super::socket::Socket;

const PATIENCE: Duration = Duration::from_secs(2);

/// Of one session, over a connection of its own.
#[derive(Clone, Debug)]
pub struct Canceller {
    /// The very address that the session has.
    host: Host,
    key: Key,
}

#[derive(Clone)]
enum Key {
    Ours {
        process_id: i32,
        secret_key: i32,
    },
    /// The driver keeps the numbers to itself.
    Drivers(CancelToken),
}

impl Canceller {
    pub(super) const fn new(host: Host, process_id: i32, secret_key: i32) -> Self {
        let key = Key::Ours {
            process_id,
            secret_key,
        };
        Self { host, key }
    }

    pub(super) fn of(host: Host, client: &Client) -> Self {
        let key = Key::Drivers(client.cancel_token());
        Self { host, key }
    }

    pub async fn cancel(&self) -> io::Result<()> {
        match &self.key {
            Key::Ours {
                process_id,
                secret_key,
            } => connect::cancel(&self.host, *process_id, *secret_key).await,
            Key::Drivers(token) => {
                let socket = Socket::open(&self.host, connect::CANCEL_WITHIN).await?;
                session::cancel(token, socket).await
            }
        }
    }
}

/// A backend that waits (for a lock, for old transactions) does not see that its client is gone:
/// whoever is dropped before the answer has it cancelled.
#[derive(Debug)]
#[must_use = "it cancels when it is dropped"]
pub struct CancelOnDrop(Option<Canceller>);

impl CancelOnDrop {
    pub const fn new(canceller: Canceller) -> Self {
        Self(Some(canceller))
    }

    /// The answer has come.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(canceller), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            let cancelled = tokio::time::timeout(PATIENCE, canceller.cancel()).await;
            tracing::debug!(?cancelled, "what a session waited for was cancelled");
        });
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn whoever_is_dropped_before_the_answer_has_the_wait_cancelled() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let guard = |process_id| {
            let host = Host::Tcp {
                host: "127.0.0.1".to_owned(),
                port,
            };
            CancelOnDrop::new(Canceller::new(host, process_id, 10))
        };
        guard(1).disarm();
        drop(guard(2));
        let (mut socket, _) = server.accept().await.unwrap();
        let mut request = [0; 16];
        socket.read_exact(&mut request).await.unwrap();
        // Length, the code of a cancel request, process id and key.
        let numbers = [16, 80_877_102, 2, 10].map(i32::to_be_bytes).concat();
        assert_eq!(request.to_vec(), numbers);
    }
}
