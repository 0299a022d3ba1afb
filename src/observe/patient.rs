//! Standard error for a program that must not stand still because nobody reads it: a collector that
//! hangs would stop the stream, the probes and the signals with the first line that its pipe has no
//! room for.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A pipe that has any room has it for a page (`pipe(7)`), so that a write of one does not wait.
const PIECE_BYTES: usize = 4096;
const PATIENCE: Duration = Duration::from_millis(100);

/// What became of the lines before this one.
#[derive(Debug, Default)]
pub(super) struct Reception {
    is_stuck: AtomicBool,
    left_out: AtomicU64,
}

/// Takes a line at a time, and leaves it out where it would have to wait for longer than a moment.
pub(super) struct Patient<W> {
    out: W,
    reception: Arc<Reception>,
    /// The line that says how many were left out, in the format of the others.
    confess: fn(u64) -> String,
}

impl<W: Write + AsFd> Patient<W> {
    pub(super) fn new(out: W, reception: Arc<Reception>, confess: fn(u64) -> String) -> Self {
        Self {
            out,
            reception,
            confess,
        }
    }

    fn has_room(&self) -> bool {
        let stuck = self.reception.is_stuck.load(Ordering::Relaxed);
        let patience = if stuck { Duration::ZERO } else { PATIENCE };
        let has_room = is_writable(&self.out, patience);
        self.reception.is_stuck.store(!has_room, Ordering::Relaxed);
        has_room
    }

    fn put(&mut self, line: &[u8]) -> io::Result<()> {
        for piece in line.chunks(PIECE_BYTES) {
            if !self.has_room() {
                self.reception.left_out.fetch_add(1, Ordering::Relaxed);
                break;
            }
            self.out.write_all(piece)?;
        }
        Ok(())
    }
}

impl<W: Write + AsFd> Write for Patient<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.reception.left_out.load(Ordering::Relaxed) > 0 && self.has_room() {
            let left_out = self.reception.left_out.swap(0, Ordering::Relaxed);
            self.put((self.confess)(left_out).as_bytes())?;
        }
        self.put(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Also true of what is broken: the write tells.
fn is_writable(out: &impl AsFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    loop {
        let mut asked = [PollFd::new(out, PollFlags::OUT)];
        match poll(&mut asked, patience.as_ref()) {
            Err(Errno::INTR) => {}
            Err(_) => return true,
            Ok(ready) => return ready > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for_and_what_was_left_out_is_told() {
        let (mut reader, writer) = io::pipe().unwrap();
        let reception = Arc::new(Reception::default());
        let confess = |left_out: u64| format!("{left_out} left out\n");
        let line = format!("{}\n", "x".repeat(999));
        let mut log = Patient::new(writer, Arc::clone(&reception), confess);
        let mut written = 0;
        while reception.left_out.load(Ordering::Relaxed) < 3 {
            log.write_all(line.as_bytes()).unwrap();
            written += 1;
        }
        let mut there = vec![0; (written - 3) * line.len()];
        reader.read_exact(&mut there).unwrap();
        assert_eq!(there, line.repeat(written - 3).as_bytes());

        log.write_all(b"again\n").unwrap();
        drop(log);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "3 left out\nagain\n");
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut log = Patient::new(writer, Arc::default(), |_| String::new());
        let error = log.write_all(b"line\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
