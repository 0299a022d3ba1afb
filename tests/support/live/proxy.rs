//! A line between a client and a server that a test can cut, stop and slow down.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::process::free_port;

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
    Both,
}

impl Direction {
    fn covers(self, other: Self) -> bool {
        self == Self::Both || self == other
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    /// New connections are reset too.
    down: bool,
    /// Connections with a lower number are reset.
    reset_before: u64,
    /// Connections with a lower number hear and say nothing any more.
    dead_before: u64,
    held: Option<Direction>,
    /// So many more bytes to the client, then a reset.
    budget: Option<u64>,
    /// At most this many bytes at a time, with a pause behind each.
    drip: Option<(usize, Duration)>,
    /// The number of the next connection.
    next: u64,
}

/// Runs on a thread of its own, so that a busy test does not slow the line down.
pub struct TcpProxy {
    port: u16,
    line: Arc<watch::Sender<Line>>,
    runtime: Option<Runtime>,
}

impl TcpProxy {
    /// Listens on a free port of the loopback and forwards to another, where nobody need listen yet.
    pub fn start(target: u16) -> Self {
        let target = SocketAddr::from(([127, 0, 0, 1], target));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let line = Arc::new(watch::Sender::new(Line::default()));
        let port = free_port();
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::clone(&line);
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, target, Arc::clone(&shared)));
            }
        });
        Self {
            port,
            line,
            runtime: Some(runtime),
        }
    }

    /// Where clients connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn change(&self, change: impl FnOnce(&mut Line)) {
        self.line.send_modify(change);
    }

    /// Resets every connection that is open; new ones are served.
    pub fn reset(&self) {
        self.change(|line| line.reset_before = line.next);
    }

    /// Resets every connection, and new ones as soon as they come, until [`TcpProxy::heal`].
    pub fn cut(&self) {
        self.change(|line| (line.down, line.reset_before) = (true, line.next));
    }

    /// Resets every connection that is open once so many more bytes went to the client.
    pub fn reset_within(&self, bytes: u64) {
        self.change(|line| line.budget = Some(bytes));
    }

    /// Forwards nothing in this direction while connections stay open and new ones are accepted:
    /// nobody is told. `Direction::Both` is a network that has gone silent.
    pub fn hold(&self, direction: Direction) {
        self.change(|line| line.held = Some(direction));
    }

    pub fn drip(&self, bytes: usize, pause: Duration) {
        self.change(|line| line.drip = Some((bytes, pause)));
    }

    /// As at the start; what was held back goes on.
    pub fn heal(&self) {
        self.change(|line| {
            *line = Line {
                next: line.next,
                reset_before: line.reset_before,
                dead_before: line.dead_before,
                ..Line::default()
            };
        });
    }

    /// As at the start for new connections; those that are open stay so and are silent for ever,
    /// as after a firewall has forgotten them.
    pub fn heal_for_new_ones(&self) {
        self.change(|line| line.dead_before = line.next);
        self.heal();
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(mut client: TcpStream, target: SocketAddr, line: Arc<watch::Sender<Line>>) {
    let mut number = 0;
    line.send_modify(|line| {
        number = line.next;
        line.next += 1;
    });
    let is_reset = move |line: &Line| line.down || number < line.reset_before;
    if is_reset(&line.borrow()) {
        return reset(&client);
    }
    let Ok(mut server) = TcpStream::connect(target).await else {
        return reset(&client);
    };
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let mut watched = line.subscribe();
    let was_reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = forward(from_client, to_server, Direction::ToServer, number, &line);
        let down = forward(from_server, to_client, Direction::ToClient, number, &line);
        tokio::select! {
            _ = watched.wait_for(is_reset) => true,
            () = up => false,
            () = down => false,
        }
    };
    if was_reset {
        reset(&client);
        reset(&server);
    }
}

/// The socket is closed with RST when it is dropped.
fn reset(stream: &TcpStream) {
    drop(SockRef::from(stream).set_linger(Some(Duration::ZERO)));
}

/// Until one end closes.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    number: u64,
    line: &watch::Sender<Line>,
) {
    let mut watched = line.subscribe();
    let open = move |line: &Line| {
        let held = line.held.is_some_and(|held| held.covers(direction));
        !held && number >= line.dead_before
    };
    let mut piece = vec![0; 64 * 1024];
    loop {
        if watched.wait_for(open).await.is_err() {
            return;
        }
        let most = line.borrow().drip.map_or(piece.len(), |(bytes, _)| bytes);
        let Ok(length @ 1..) = from.read(&mut piece[..most]).await else {
            return;
        };
        if watched.wait_for(open).await.is_err() {
            return;
        }
        let allowed = spend(line, direction, length);
        if to.write_all(&piece[..allowed]).await.is_err() {
            return;
        }
        if allowed < length {
            // What is still to come would follow a hole: the line is reset first.
            return std::future::pending().await;
        }
        let pause = line.borrow().drip.map(|(_, pause)| pause);
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

/// How many of these bytes may still pass; when none is left the line is reset.
fn spend(line: &watch::Sender<Line>, direction: Direction, length: usize) -> usize {
    let mut passed = length;
    line.send_if_modified(|line| {
        let Some(left) = line.budget.filter(|_| direction == Direction::ToClient) else {
            return false;
        };
        passed = length.min(usize::try_from(left).unwrap_or(length));
        line.budget = Some(left - passed as u64).filter(|left| *left > 0);
        if line.budget.is_none() {
            line.reset_before = line.next;
        }
        true
    });
    passed
}
