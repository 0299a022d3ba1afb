//! The three kinds of stream behind a session.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_openssl::SslStream;

use super::Host;

/// Plain TCP, TLS over TCP, or a Unix socket (which libpq never encrypts).
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Tls(Box<SslStream<TcpStream>>),
    Unix(UnixStream),
}

const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// How long unacknowledged bytes may stay in the kernel before the connection counts as dead.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

impl Socket {
    /// Tries each address of a name in turn; one that does not answer leaves time for the others.
    pub(super) async fn open(host: &Host, within: Duration) -> io::Result<Self> {
        let (host, port) = match host {
            Host::Tcp { host, port } => (host.as_str(), *port),
            Host::Unix { directory, port } => {
                let path = directory.join(format!(".s.PGSQL.{port}"));
                return UnixStream::connect(path).await.map(Self::Unix);
            }
        };
        let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
        let share = within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return tuned(stream).map(Self::Tcp),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failure)
    }

    /// The very address that a name led to, where there is one.
    pub(super) fn peer(&self, asked: &Host) -> Host {
        let address = match self {
            Self::Tcp(stream) => stream.peer_addr(),
            Self::Tls(stream) => stream.get_ref().peer_addr(),
            Self::Unix(_) => return asked.clone(),
        };
        match address {
            Ok(address) => Host::Tcp {
                host: address.ip().to_string(),
                port: address.port(),
            },
            Err(_) => asked.clone(),
        }
    }
}

/// No delay for small writes, and a vanished peer is noticed by the kernel.
fn tuned(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(stream)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
