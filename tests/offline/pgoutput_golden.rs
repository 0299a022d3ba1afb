//! Real servers' bytes against the text beside them, and against what the same server's
//! test_decoding said of the same statements.

mod describe;
mod witness;

use std::collections::BTreeSet;
use std::fs;

use outboxd::pgoutput::{Message, decode};

use self::describe::describe;
use crate::support::golden::{self, Capture, MAJORS};

/// `scripts/capture` sets it after it has taken new bytes.
const WRITE: &str = "OUTBOXD_WRITE_GOLDEN";

#[test]
fn every_captured_message_is_what_the_text_beside_it_says() {
    let captures = golden::captures();
    if std::env::var_os(WRITE).is_some() {
        for capture in captures {
            let text = capture.with_expected(|message| describe(&decode(&message.body).unwrap()));
            fs::write(&capture.path, text).unwrap();
        }
        return;
    }
    for capture in captures {
        for (index, message) in capture.messages.iter().enumerate() {
            let found = describe(&decode(&message.body).unwrap());
            assert_eq!(
                found,
                message.expected,
                "message {} of {}",
                index + 1,
                capture.name()
            );
        }
    }
}

#[test]
fn every_scenario_was_captured_on_each_version_that_has_it() {
    let scenarios = golden::list(&golden::directory().join("scenarios"));
    assert!(!scenarios.is_empty());
    let mut expected = BTreeSet::new();
    for path in scenarios {
        let text = fs::read_to_string(&path).unwrap();
        let since = text
            .lines()
            .find_map(|line| line.strip_prefix("-- since: "));
        let since: u32 = since.map_or(0, |since| since.parse().unwrap());
        for major in MAJORS {
            if major.parse::<u32>().unwrap() >= since {
                let scenario = path.file_stem().unwrap().to_string_lossy();
                expected.insert(format!("{major}/{scenario}"));
            }
        }
    }
    let captures = golden::captures();
    let found: BTreeSet<_> = captures.iter().map(Capture::name).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_kind_of_message_was_captured_on_each_version() {
    for major in MAJORS {
        let mut tags = BTreeSet::new();
        for capture in golden::captures() {
            if capture.name().starts_with(major) {
                tags.extend(capture.messages.iter().map(|message| message.body[0]));
            }
        }
        let found: Vec<_> = tags.into_iter().collect();
        assert_eq!(found.escape_ascii().to_string(), "BCDIMORTUY", "{major}");
    }
}

#[test]
fn the_servers_own_text_says_the_same_of_every_row() {
    let mut compared = 0;
    for capture in golden::captures() {
        if capture.witness.is_empty() {
            continue;
        }
        let messages = capture.messages.iter();
        let messages = messages.map(|message| decode(&message.body).unwrap());
        assert_eq!(
            witness::say(messages.collect()),
            capture.witness,
            "{}",
            capture.name()
        );
        compared += 1;
    }
    assert!(compared > 60, "only {compared} captures have a witness");
}

/// The function returns with each message the position behind what it was made from; for a commit
/// that is the end of the transaction, the position that we confirm.
#[test]
fn the_end_lsn_of_a_commit_is_the_position_that_the_server_gives_it() {
    for capture in golden::captures() {
        for captured in &capture.messages {
            if let Ok(Message::Commit(commit)) = decode(&captured.body) {
                assert_eq!(commit.end_lsn, captured.lsn, "{}", capture.name());
            }
        }
    }
}
