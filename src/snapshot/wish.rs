//! What the command line asks for, found to be possible before anybody is asked.

use std::num::NonZeroU32;
use std::time::SystemTime;

use bytes::Bytes;

use crate::cli::SnapshotArgs;
use crate::config::Config;
use crate::observe::Problem;
use crate::postgres::snapshot::Selection;
use crate::relay::RelayError;
use crate::router::{ColumnRole, Header, Options};

#[derive(Debug)]
pub struct Wish {
    pub(super) selection: Selection,
    pub(super) rate: Option<NonZeroU32>,
    pub(super) dry_run: bool,
    pub(super) skips: bool,
    /// On each record, where it is to have one.
    pub(super) mark: Option<Mark>,
}

/// Known by its name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) run_id: String,
}

impl Wish {
    pub fn of(config: &Config, args: &SnapshotArgs) -> Result<Self, Problem> {
        let (condition, order_by) = (args.condition.as_deref(), args.order_by.as_deref());
        let selection = Selection::new(condition, order_by, args.limit)
            .map_err(|error| RelayError::from(error).problem())?;
        Ok(Self {
            selection,
            rate: args.rate,
            dry_run: args.dry_run,
            skips: args.skip_unroutable || args.dry_run,
            mark: mark(&config.router, &args.header, args.run_id.as_deref())?,
        })
    }

    pub(super) fn header(&self) -> Option<Header> {
        self.mark.as_ref().map(|mark| Header {
            name: mark.name.as_str().into(),
            value: Some(Bytes::copy_from_slice(mark.run_id.as_bytes())),
        })
    }
}

fn mark(options: &Options, name: &str, run_id: Option<&str>) -> Result<Option<Mark>, Problem> {
    let refused = |message: String, hint: &str| Problem {
        hint: Some(hint.to_owned()),
        ..Problem::new(message)
    };
    if let Some(run_id) = run_id
        && (run_id.trim().is_empty() || run_id.contains(char::is_control))
    {
        return Err(refused(
            "--run-id is empty, or has a line break or another control character".to_owned(),
            "Give it a text that can be searched for, or leave it out: it is the time and four random digits then.",
        ));
    }
    if name.is_empty() {
        return Ok(None);
    }
    if name.contains(char::is_control) {
        return Err(refused(
            "--header has a line break or another control character".to_owned(),
            OTHER_NAME,
        ));
    }
    if is_taken(options, name) {
        return Err(refused(
            format!("--header: every record has a header \"{name}\" of its own"),
            OTHER_NAME,
        ));
    }
    Ok(Some(Mark {
        name: name.to_owned(),
        run_id: run_id.map_or_else(new_run_id, str::to_owned),
    }))
}

const OTHER_NAME: &str =
    "Name another one; without the option it is outboxd.replay, and an empty name leaves it out.";

/// By the router's own headers, and by what consumers and `redrive` know others by.
fn is_taken(options: &Options, name: &str) -> bool {
    let reserved = ["__debezium.", "outboxd.dead_letter."];
    let mut columns = options.columns().into_iter();
    name == "id"
        || reserved.iter().any(|prefix| name.starts_with(prefix))
        || columns.any(|(_, _, role, _)| role == ColumnRole::Header(name.to_owned()))
}

/// Another one at each run, which people can place.
fn new_run_id() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    format!("{now}-{:04x}", rand::random::<u16>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    fn options() -> Options {
        let set = [
            "postgres.user=relay",
            "kafka.bootstrap.servers=localhost:1",
            "outbox.headers=seq,kind:type",
        ];
        let sources = Sources {
            set: set.map(str::to_owned).to_vec(),
            needs_kafka: true,
            ..Sources::default()
        };
        let config = load(&sources, std::iter::empty()).unwrap_or_else(|error| panic!("{error}"));
        config.router
    }

    #[test]
    fn a_run_is_not_marked_by_a_header_that_records_have_already() {
        let options = options();
        let marked = |name: &str, run_id| mark(&options, name, run_id);
        let taken = |name: &str| marked(name, None).unwrap_err().message;
        assert_eq!(
            taken("id"),
            "--header: every record has a header \"id\" of its own"
        );
        for name in ["seq", "type", "__debezium.context.runId"] {
            assert!(taken(name).contains(name), "{name}");
        }
        for name in ["kind", "Id", "outboxd.replay"] {
            let found = marked(name, Some("run 1")).unwrap().unwrap();
            assert_eq!(
                (found.name.as_str(), found.run_id.as_str()),
                (name, "run 1")
            );
        }
        assert_eq!(marked("", Some("run 1")), Ok(None));
        assert!(!marked("a", None).unwrap().unwrap().run_id.is_empty());
    }

    #[test]
    fn a_run_id_can_be_read_in_a_line() {
        let options = options();
        for run_id in ["", "  ", "a\nb", "a\u{1b}[2J"] {
            for name in ["outboxd.replay", ""] {
                let refused = mark(&options, name, Some(run_id)).unwrap_err();
                assert!(
                    refused.message.starts_with("--run-id is empty"),
                    "{run_id:?}"
                );
            }
        }
        let refused = mark(&options, "a\nb", None).unwrap_err();
        assert!(refused.message.starts_with("--header has a line break"));
    }
}
