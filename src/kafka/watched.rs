//! A sink for records that somebody looks at instead of publishing them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use super::delivery::{DeliveryReport, Fate};
use super::publisher::{Command, Reports};
use crate::router::Record;

/// A record is acknowledged once it is taken. The channel's bound holds the stream back.
pub(super) fn run(out: &SyncSender<Arc<Record>>, commands: &Receiver<Command>, reports: &Reports) {
    while let Ok(command) = commands.recv() {
        match command {
            Command::Send(batch) => {
                for (ticket, record) in batch {
                    let fate = Fate::Acknowledged { partition: 0 };
                    let taken = out.send(record).is_ok();
                    if !taken || reports.send(DeliveryReport { ticket, fate }).is_err() {
                        return;
                    }
                }
            }
            Command::Resume
            | Command::Topic(_)
            | Command::Refused(_)
            | Command::AllSettled
            | Command::Deserted => {}
            Command::Close(_) => return,
        }
    }
}
