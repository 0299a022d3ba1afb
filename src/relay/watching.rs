//! Table and publication are looked at while the stream runs: rows that flow nowhere make no sound.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};
use tokio_postgres::Client;

use super::{RelayError, View};
use crate::lsn::Lsn;
use crate::observe::Problem;
use crate::postgres::watched::{Look, Remark, Watched};
use crate::postgres::{self, ObjectError};

/// What a look has found.
pub(super) type Finding = Result<Look, ObjectError>;
pub(super) type Findings = mpsc::Receiver<Finding>;

/// Shared by the stream, which says what to look at, and by the session that looks.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    job: Mutex<Option<Job>>,
    wake: Notify,
}

/// One stream's.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The server that streams.
    pub(super) options: postgres::Options,
    watched: Watched,
    findings: mpsc::Sender<Finding>,
}

impl Watch {
    /// In place of what was looked at before. Ends when the findings are dropped.
    pub(super) fn begin(&self, options: postgres::Options, watched: Watched) -> Findings {
        let (findings, found) = mpsc::channel(1);
        let job = Job {
            options,
            watched,
            findings,
        };
        *self.job() = Some(job);
        found
    }

    /// A look is due before its time: something was described anew.
    pub(super) fn look_now(&self) {
        self.0.wake.notify_one();
    }

    pub(super) async fn called(&self) {
        self.0.wake.notified().await;
    }

    /// `None` when nobody waits for findings.
    pub(super) fn current(&self) -> Option<Job> {
        let mut job = self.job();
        if job.as_ref().is_some_and(|job| job.findings.is_closed()) {
            *job = None;
        }
        job.clone()
    }

    /// What was seen is what the next look compares with.
    fn keep(&self, seen: Job) {
        if let Some(job) = self.job().as_mut()
            && job.findings.same_channel(&seen.findings)
        {
            job.watched = seen.watched;
        }
    }

    fn job(&self) -> std::sync::MutexGuard<'_, Option<Job>> {
        self.0.job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One look. An error of the session's own is no finding.
pub(super) async fn look(
    watch: &Watch,
    mut job: Job,
    client: &Client,
) -> Result<(), postgres::PostgresError> {
    let finding = job.watched.look(client).await;
    if let Err(ObjectError::Session(error)) = finding {
        return Err(error);
    }
    // Full: the stream has not taken the last one yet, and the next look, which compares with the same
    // one, says no less. Closed: the stream has ended.
    if job.findings.try_send(finding).is_ok() {
        watch.keep(job);
    }
    Ok(())
}

/// From where to where rows may have passed by unseen.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// Before this everything was published, by the last look.
    sound_until: Option<Lsn>,
    /// Rows are hidden since, as far as is known.
    since: Option<Lsn>,
    watched: Option<Watched>,
}

impl Unseen {
    /// A stream is about to begin, and everything is published now. The positions lie around the
    /// look. Whether rows may have passed by before.
    #[must_use]
    pub(super) fn begin(
        &mut self,
        before: Lsn,
        after: Lsn,
        watched: &Watched,
        view: &View,
    ) -> bool {
        let earlier = self.watched.replace(watched.clone());
        let remarks = earlier.map(|earlier| watched.since(&earlier));
        let hidden = remarks.into_iter().flatten();
        if hidden.filter(Remark::may_have_hidden_rows).count() > 0 {
            self.since = self.since.or(self.sound_until);
        }
        let since = self.since.take();
        if let Some(since) = since {
            tell(since, after, "the stream goes on", view);
        }
        self.sound_until = Some(before);
        since.is_some()
    }

    /// Positions of another server or timeline say nothing about this one. Whether rows may have
    /// passed by there.
    #[must_use]
    pub(super) fn forget(&mut self) -> bool {
        std::mem::take(self).since.is_some()
    }

    /// Whether rows may have passed by since the look before.
    #[must_use]
    pub(super) fn note(&mut self, look: &Look, view: &View) -> bool {
        let mut told = false;
        if let Some(watched) = &mut self.watched {
            watched.publication = look.publication.clone();
        }
        for remark in &look.remarks {
            if remark.may_have_hidden_rows() {
                let since = self.sound_until.unwrap_or(look.before);
                tell(since, look.after, &remark.to_string(), view);
                told = true;
            } else {
                tracing::warn!(hint = remark.hint(), "{remark}");
            }
        }
        self.sound_until = Some(look.before);
        told
    }

    /// Adds to what is told of an error what it may have cost already.
    pub(super) fn add_to(&mut self, error: &RelayError, problem: &mut Problem) {
        let RelayError::Object(error) = error else {
            return;
        };
        if !error.hides_rows() {
            return;
        }
        self.since = self.since.or(self.sound_until);
        if let Some(since) = self.since {
            let told = format!(
                "Rows that were committed after {since} may have passed by: the stream does not have them, also later. Whichever are still in the table, a start with snapshot.mode = always publishes."
            );
            problem.detail = Some(match problem.detail.take() {
                Some(detail) => format!("{detail} {told}"),
                None => told,
            });
        }
    }
}

/// Not for a state: the stream goes on, and this stays true.
fn tell(since: Lsn, until: Lsn, what: &str, view: &View) {
    view.metrics.unseen_ranges.inc();
    tracing::error!(
        from_lsn = %since, to_lsn = %until,
        hint = "Compare the table with what Kafka has. A start with snapshot.mode = always publishes the rows that are still in the table.",
        "events may be missing: rows committed between these positions may not have been published; {what}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Metrics, Status};
    use crate::postgres::publication::tests::ours as publication;

    #[test]
    fn only_what_may_have_hidden_rows_counts_as_unseen() {
        let status = Status::new("n", "s", "p", std::time::SystemTime::UNIX_EPOCH);
        let view = View::new(Metrics::new().unwrap(), status);
        let table = || "public.outbox".to_owned();
        let look = |remarks| Look {
            before: Lsn::new(10),
            after: Lsn::new(20),
            publication: publication(),
            remarks,
            partitions: Vec::new(),
        };
        let filtered = Remark::RowFilter {
            table: table(),
            filter: Some("seq > 5".to_owned()),
        };
        let mut unseen = Unseen::default();
        assert!(!unseen.note(&look(Vec::new()), &view));
        assert!(!unseen.note(&look(vec![filtered]), &view));
        assert_eq!(view.metrics.unseen_ranges.get(), 0);
        let again = Remark::ListedAgain { table: table() };
        assert!(unseen.note(&look(vec![again]), &view));
        assert_eq!(view.metrics.unseen_ranges.get(), 1);
        // What is pending when another server comes is not told any more.
        assert!(!unseen.forget());
        unseen.since = Some(Lsn::new(10));
        assert!(unseen.forget());
    }
}
