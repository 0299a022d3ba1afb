//! The last word of a relay that cannot run.

use std::net::TcpListener;
use std::process::{Command, Output};

/// A relay whose HTTP address is taken.
fn ended(format: &str, extra: &[&str]) -> Output {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("http.listen={}", taken.local_addr().unwrap());
    let format = format!("log.format={format}");
    Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .env_clear()
        .args(["run", "--sink", "stdout", "--set", "postgres.user=relay"])
        .args(["--set", &listen, "--set", &format])
        .args(extra)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn with_a_json_log_the_reason_is_an_event_of_it() {
    let output = ended("json", &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    let events: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("every line is JSON"))
        .collect();
    let last = events.last().expect("it says why");
    assert_eq!(last["level"], "ERROR");
    assert_eq!(last["exit_status"], 1);
    assert_eq!(
        last["hint"],
        "Set http.listen to a free address, or to nothing."
    );
    assert!(
        last["message"].as_str().unwrap().contains("127.0.0.1"),
        "{last}"
    );
}

#[test]
fn with_a_log_of_text_the_reason_stands_in_lines_for_a_person() {
    let output = ended("text", &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    let lines: Vec<_> = said.lines().rev().take(2).collect();
    assert_eq!(
        lines[0],
        "HINT:  Set http.listen to a free address, or to nothing."
    );
    assert!(lines[1].starts_with("outboxd: "), "{said}");
}

#[test]
fn a_control_character_of_a_setting_does_not_reach_the_terminal() {
    let output = ended("text", &["--set", "slot.name=a\u{1b}[2J"]);
    assert_eq!(output.status.code(), Some(78));
    let said = said(&output);
    assert!(
        said.contains("slot.name") && !said.contains('\u{1b}'),
        "{said:?}"
    );
}

#[test]
fn a_check_for_programs_says_in_json_what_is_wrong_with_the_configuration() {
    let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .env_clear()
        .args(["check", "--format", "json", "--set", "postgres.user=relay"])
        .args([
            "--set",
            "kafka.bootstrap.servers=k:9092",
            "--set",
            "kafka.acks=1",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        report,
        serde_json::json!({
            "outcome": "error",
            "checks": [{
                "section": "Configuration",
                "name": "--set kafka.acks",
                "outcome": "error",
                "found": "property \"acks\" must stay at \"all\": a record counts as delivered when every in-sync replica has it",
                "remedy": null,
                "sql": null,
                "command": null,
            }],
        })
    );
}

#[test]
fn help_is_a_command_too() {
    for args in [&["help"][..], &["help", "check"], &["--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Usage: outboxd"), "{text}");
    }
}

/// Linux's device that is always full.
fn full() -> std::fs::File {
    let options = std::fs::OpenOptions::new().write(true).open("/dev/full");
    options.unwrap()
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    for format in ["json", "text"] {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = format!("http.listen={}", taken.local_addr().unwrap());
        let format = format!("log.format={format}");
        let status = Command::new(env!("CARGO_BIN_EXE_outboxd"))
            .env_clear()
            .args(["run", "--sink", "stdout", "--set", "postgres.user=relay"])
            .args(["--set", &listen, "--set", &format])
            .stderr(full())
            .status()
            .unwrap();
        // As with a log: a panic would be 101.
        assert_eq!(status.code(), Some(1), "{format}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    let connector = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/connectors/01-article.json"
    );
    let nowhere = "--set=postgres.url=postgres://relay@127.0.0.1:1/shop";
    let commands: [&[&str]; 3] = [
        &["setup", nowhere],
        &["status", nowhere],
        &["convert", connector],
    ];
    for args in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
            .env_clear()
            .args(args)
            .stdout(full())
            .output()
            .unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.contains("the result cannot be written to standard output"),
            "{args:?}: {said}"
        );
    }
}
