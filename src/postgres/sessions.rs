//! The sessions that are open. A backend that waits (for a lock, for old transactions, for a sort)
//! does not see that its client is gone: whoever goes before the answer has to cancel it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::Canceller;

/// Every session of the options that it belongs to. Clones are the same list.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<Vec<Open>>>);

struct Open {
    canceller: Canceller,
    lives: Weak<()>,
}

/// A session is open for as long as somebody has it.
#[derive(Debug)]
pub(super) struct Alive(#[expect(dead_code, reason = "held, not read")] Arc<()>);

/// For all of them together.
const PATIENCE: Duration = Duration::from_secs(2);
/// In which the tasks of sessions that nobody uses any more come to their end.
const TURNS: usize = 4;

impl Sessions {
    pub(super) fn add(&self, canceller: Canceller) -> Alive {
        let alive = Arc::new(());
        let lives = Arc::downgrade(&alive);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|session| session.lives.strong_count() > 0);
        open.push(Open { canceller, lives });
        Alive(alive)
    }

    /// Asks the server to cancel what these sessions wait for. One that waits for nothing does not
    /// mind.
    pub async fn cancel(&self) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let cancelling = self.open().into_iter().map(|canceller| {
            tokio::spawn(async move {
                let cancelled = timeout(PATIENCE, canceller.cancel()).await;
                tracing::debug!(?cancelled, "what a session waited for was cancelled");
            })
        });
        for cancelled in cancelling.collect::<Vec<_>>() {
            drop(cancelled.await);
        }
    }

    fn open(&self) -> Vec<Canceller> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lives = open
            .iter()
            .filter(|session| session.lives.strong_count() > 0);
        lives.map(|session| session.canceller.clone()).collect()
    }
}

/// What is open is no part of what is wanted.
impl PartialEq for Sessions {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Sessions {}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sessions", self.open().len())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::postgres::Host;

    #[tokio::test]
    async fn what_is_open_is_cancelled_and_what_was_closed_is_forgotten() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = || Host::Tcp {
            host: "127.0.0.1".to_owned(),
            port: server.local_addr().unwrap().port(),
        };
        let sessions = Sessions::default();
        let closed = sessions.add(Canceller::new(host(), 1, 10));
        let open = sessions.add(Canceller::new(host(), 2, 20));
        drop(closed);
        let heard = async {
            let (mut socket, _) = server.accept().await.unwrap();
            let mut request = [0; 16];
            socket.read_exact(&mut request).await.unwrap();
            request
        };
        let (request, ()) = tokio::join!(heard, sessions.cancel());
        // Length, the code of a cancel request, process id and key.
        let numbers = [16, 80_877_102, 2, 20].map(i32::to_be_bytes).concat();
        assert_eq!(request.to_vec(), numbers);
        let more = timeout(Duration::from_millis(20), server.accept()).await;
        assert!(more.is_err(), "of the one that is open only");
        drop(open);
        assert_eq!(format!("{sessions:?}"), "0 sessions");
    }
}
