//! The messages that `scripts/capture` took from real servers.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use outboxd::lsn::Lsn;

/// One scenario on one version of PostgreSQL.
pub struct Capture {
    pub path: PathBuf,
    /// The version and the statements, as lines that start with `#`.
    heading: Vec<String>,
    pub messages: Vec<Captured>,
    /// What the server's own test_decoding said of the same statements.
    pub witness: Vec<String>,
}

/// A message as `pg_logical_slot_get_binary_changes` returned it.
pub struct Captured {
    pub lsn: Lsn,
    pub body: Vec<u8>,
    /// The lines that describe it.
    pub expected: String,
}

impl Capture {
    /// Version and scenario, for messages of tests.
    pub fn name(&self) -> String {
        let major = self.path.parent().and_then(Path::file_name);
        let scenario = self.path.file_stem();
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap().to_string_lossy().into_owned();
        format!("{}/{}", text(major), text(scenario))
    }

    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        let mut capture = Self {
            path,
            heading: Vec::new(),
            messages: Vec::new(),
            witness: Vec::new(),
        };
        for line in text.lines() {
            capture.take_line(line);
        }
        capture
    }

    fn take_line(&mut self, line: &str) {
        if line.starts_with('#') {
            self.heading.push(line.to_owned());
        } else if let Some(said) = line.strip_prefix("witness ") {
            self.witness.push(said.to_owned());
        } else if let Some(message) = line.strip_prefix("wal ") {
            let (lsn, hex) = message.split_once(' ').unwrap();
            self.messages.push(Captured {
                lsn: lsn.parse().unwrap(),
                body: from_hex(hex),
                expected: String::new(),
            });
        } else {
            let expected = line.strip_prefix("  ").expect("an indented line");
            writeln!(self.messages.last_mut().unwrap().expected, "{expected}").unwrap();
        }
    }

    /// The file's text with `describe`'s lines under each message.
    pub fn with_expected(&self, describe: impl Fn(&Captured) -> String) -> String {
        let mut text = String::new();
        for line in &self.heading {
            writeln!(text, "{line}").unwrap();
        }
        for message in &self.messages {
            writeln!(text, "wal {} {}", message.lsn, to_hex(&message.body)).unwrap();
            for line in describe(message).lines() {
                writeln!(text, "  {line}").unwrap();
            }
        }
        for line in &self.witness {
            writeln!(text, "witness {line}").unwrap();
        }
        text
    }
}

pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pgoutput")
}

/// The major versions of PostgreSQL that were captured.
pub const MAJORS: [&str; 3] = ["14", "15", "18"];

/// Every capture, in the order of versions and names.
pub fn captures() -> Vec<Capture> {
    let files = MAJORS
        .iter()
        .flat_map(|major| list(&directory().join(major)));
    files.map(Capture::read).collect()
}

/// A folder's files, sorted.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
