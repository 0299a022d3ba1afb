//! Framed messages over a socket, both directions buffered.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::PostgresError;
use super::socket::Socket;
use crate::wire::{self, Backend};

/// A socket with what was read and not yet parsed, and what is to be written and not yet sent.
#[derive(Debug)]
pub(super) struct Channel {
    socket: Socket,
    input: BytesMut,
    output: BytesMut,
    limit_bytes: usize,
}

/// One read: large enough that a busy walsender's rows come many at a time.
const READ_BYTES: usize = 128 * 1024;
/// A buffer that one large row has blown up is given back.
const KEEP_BYTES: usize = 1 << 20;

impl Channel {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket,
            input: BytesMut::new(),
            output: BytesMut::new(),
            limit_bytes: wire::LOGIN_LIMIT_BYTES,
        }
    }

    /// From here on rows may come.
    pub(super) fn logged_in(&mut self) {
        self.limit_bytes = wire::SESSION_LIMIT_BYTES;
    }

    pub(super) fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Length of the frame at the front of the input, and `None` while it is incomplete.
    pub(super) fn next_frame_bytes(&self) -> Result<Option<usize>, PostgresError> {
        Ok(wire::split(&self.input, self.limit_bytes)?.map(|frame| frame.length_bytes()))
    }

    /// Takes the frame at the front; its bytes stay valid until the next read.
    pub(super) fn take_frame(&mut self, length_bytes: usize) -> Taken<'_> {
        Taken {
            input: &mut self.input,
            length_bytes,
        }
    }

    /// Waits for more bytes, writing what is queued meanwhile. Returns how many came. Cancel-safe:
    /// bytes are either in the buffer or still in the socket.
    pub(super) async fn fill(&mut self) -> Result<usize, PostgresError> {
        if self.input.is_empty() && self.input.capacity() > KEEP_BYTES {
            self.input = BytesMut::new();
        }
        poll_fn(|context| self.poll_fill(context)).await
    }

    /// Writes what is queued, and nothing else. Cancel-safe.
    pub(super) async fn flush(&mut self) -> Result<(), PostgresError> {
        poll_fn(|context| self.poll_write(context)).await
    }

    /// Waits for the next message and gives it to `read`, writing what is queued meanwhile.
    pub(super) async fn receive<T>(
        &mut self,
        read: impl FnOnce(Backend<'_>, u8) -> Result<T, PostgresError>,
    ) -> Result<T, PostgresError> {
        let length_bytes = loop {
            match self.next_frame_bytes()? {
                Some(length_bytes) => break length_bytes,
                None => self.fill().await?,
            };
        };
        let taken = self.take_frame(length_bytes);
        let (tag, body) = taken.parts();
        read(Backend::read(tag, body)?, tag)
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, PostgresError>> {
        // A full send buffer must not keep us from reading, nor the other way round. Where writing
        // failed, what the server said before it hung up is still to be read.
        let written = self.poll_write(context);
        self.input.reserve(READ_BYTES);
        let read = pin!(self.socket.read_buf(&mut self.input)).poll(context);
        match (read, written) {
            (Poll::Ready(Ok(0)), _) => Poll::Ready(Err(PostgresError::Closed)),
            (Poll::Ready(Ok(read)), _) => Poll::Ready(Ok(read)),
            (_, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
            (Poll::Ready(Err(source)), _) => Poll::Ready(Err(PostgresError::broken(source))),
            (Poll::Pending, _) => Poll::Pending,
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), PostgresError>> {
        while !self.output.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_write(context, &self.output)) {
                Ok(0) => return Poll::Ready(Err(PostgresError::Closed)),
                Ok(written) => self.output.advance(written),
                Err(source) => return Poll::Ready(Err(PostgresError::broken(source))),
            }
        }
        Pin::new(&mut self.socket)
            .poll_flush(context)
            .map_err(PostgresError::broken)
    }
}

/// A frame at the front of the input that is dropped from it when this is.
pub(super) struct Taken<'a> {
    input: &'a mut BytesMut,
    length_bytes: usize,
}

impl Taken<'_> {
    /// Tag and body.
    pub(super) fn parts(&self) -> (u8, &[u8]) {
        let tag = self.input.first().copied().unwrap_or_default();
        (
            tag,
            self.input.get(5..self.length_bytes).unwrap_or_default(),
        )
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.input.advance(self.length_bytes);
    }
}
