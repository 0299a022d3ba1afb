//! Standard error for a program that must not stand still because nobody reads it: a collector that
//! hangs would stop the stream, the probes and the signals with the first line that its pipe has no
//! room for.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A pipe that has any room has it for a page (`pipe(7)`), so that a write of one does not wait.
const PIECE_BYTES: usize = 4096;
const PATIENCE: Duration = Duration::from_millis(100);

/// What became of the lines before this one.
#[derive(Debug, Default)]
pub(super) struct Reception {
    left_out: AtomicU64,
    /// Whoever writes has it from the look for room to the end of the line: two that see the same
    /// room must not both take it.
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    is_stuck: bool,
    /// The line before was cut off.
    is_broken: bool,
}

impl Reception {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

    /// False where a piece of it was left out.
    fn put(&mut self, place: &mut Place, line: &[u8]) -> io::Result<bool> {
        for (index, piece) in line.chunks(PIECE_BYTES).enumerate() {
            let patience = if place.is_stuck {
                Duration::ZERO
            } else {
                PATIENCE
            };
            place.is_stuck = !is_writable(&self.out, patience);
            if place.is_stuck {
                place.is_broken |= index > 0;
                return Ok(false);
            }
            self.out.write_all(piece)?;
        }
        Ok(true)
    }

    /// False where the line was left out, in whole or in part.
    fn write_line(&mut self, place: &mut Place, line: &[u8]) -> io::Result<bool> {
        if place.is_broken {
            if !self.put(place, b"\n")? {
                return Ok(false);
            }
            place.is_broken = false;
        }
        let left_out = self.reception.left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            if !self.put(place, (self.confess)(left_out).as_bytes())? {
                return Ok(false);
            }
            self.reception
                .left_out
                .fetch_sub(left_out, Ordering::Relaxed);
        }
        self.put(place, line)
    }
}

impl<W: Write + AsFd> Write for Patient<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let reception = Arc::clone(&self.reception);
        if !self.write_line(&mut reception.place(), line)? {
            reception.left_out.fetch_add(1, Ordering::Relaxed);
        }
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
    fn a_line_that_was_cut_off_is_ended_before_the_next() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut log = Patient::new(writer, Arc::default(), |left_out| {
            format!("{left_out} left out\n")
        });
        let long = format!("{}\n", "x".repeat(1 << 20));
        log.write_all(long.as_bytes()).unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        while log.reception.left_out.load(Ordering::Relaxed) > 0 {
            log.write_all(b"again\n").unwrap();
        }
        drop(log);
        let text = reading.join().unwrap();
        let mut lines = text.lines();
        assert!(lines.next().unwrap().bytes().all(|byte| byte == b'x'));
        assert!(lines.next().unwrap().ends_with(" left out"));
        assert!(lines.all(|line| line == "again"));
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
