//! Ends from outside what a session waits for in the server.

use std::io;

use tokio_postgres::{CancelToken, Client};

use super::Host;
use super::connect;
use super::session;
use super::socket::Socket;

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

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}
