//! Commands that end by themselves, before servers that do not answer: what they wait for is told, a
//! signal ends it, and what is no text ends in words.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStringExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Takes connections, and says nothing.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn outboxd(args: &[&str], settings: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboxd"));
    command.env_clear().args(args);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command.stdin(Stdio::null());
    command
}

/// What is said on standard error up to a line of this kind.
fn said_up_to(child: &mut Child, wanted: &str) -> BufReader<std::process::ChildStderr> {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(wanted) {
        let read = lines.read_line(&mut said).unwrap();
        assert!(read > 0, "{wanted}: {said}");
    }
    lines
}

fn stopped(mut child: Child, mut rest: impl Read, name: &str) -> (ExitStatus, String) {
    let kill = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let asked = Instant::now();
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}: {said}");
    (status, said)
}

#[test]
fn every_command_says_what_it_waits_for_and_ends_at_a_signal() {
    let (_listener, port) = silent();
    let url = format!("postgres.url=postgresql://relay@127.0.0.1:{port}/shop?sslmode=disable");
    let settings = [
        &url,
        "kafka.bootstrap.servers=127.0.0.1:1",
        "postgres.connect_timeout=60s",
    ];
    let of_server = "outboxd: still asking PostgreSQL for ";
    let commands: [(&[&str], &str, &str); 7] = [
        (&["check"], of_server, "TERM"),
        (&["setup", "--apply"], of_server, "TERM"),
        (&["slot", "drop", "--yes", "outbox"], of_server, "INT"),
        (&["slot", "advance", "--to=current"], of_server, "TERM"),
        (&["snapshot"], of_server, "TERM"),
        (&["shadow"], of_server, "INT"),
        (
            &["redrive", "--topic", "dead"],
            "outboxd: still asking Kafka for the group's position (1 s)",
            "TERM",
        ),
    ];
    let begun = commands.map(|(args, waits, signal)| {
        let mut command = outboxd(args, &settings);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        (args, waits, signal, command.spawn().unwrap())
    });
    for (args, waits, signal, mut child) in begun {
        let rest = said_up_to(&mut child, waits);
        let (status, said) = stopped(child, rest, signal);
        assert_eq!(status.code(), Some(1), "{args:?}: {said}");
        let last = "outboxd: stopped by a signal before the work was done\nDETAIL:  ";
        assert!(said.contains(last), "{args:?}: {said}");
        assert!(!said.contains("by itself"), "{args:?}: {said}");
    }
}

#[test]
fn a_name_that_kafka_does_not_allow_blames_no_broker() {
    let settings = ["postgres.user=relay", "kafka.bootstrap.servers=127.0.0.1:1"];
    for args in [
        &["redrive", "--topic", "bad topic"][..],
        &["redrive", "--topic", ""],
        &["check", "--topic", "a/b"],
    ] {
        let output = outboxd(args, &settings).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains("a topic's name has 1 to 249"), "{said}");
    }
}

#[test]
fn what_a_snapshot_cannot_do_is_said_before_anybody_is_asked() {
    let settings = ["postgres.user=relay", "kafka.bootstrap.servers=127.0.0.1:1"];
    for (args, expected) in [
        (
            ["--where", "true) or (true"],
            "outboxd: --where is no SQL that stands for itself: a ')' closes what it has not opened\nDETAIL:  At character 5: \") or (true\".\nHINT:  --where takes what stands in a SELECT of the outbox table behind WHERE",
        ),
        (
            ["--where", "id = $1"],
            "it has a parameter, which nothing fills in\nDETAIL:  At character 6: \"$1\".",
        ),
        (
            ["--order-by", "seq LIMIT 1"],
            "outboxd: --order-by is no SQL that stands for itself: another clause begins in it\n",
        ),
        (
            ["--header", "id"],
            "--header: every record has a header \"id\" of its own\nHINT:  ",
        ),
        (
            ["--run-id", "a\nb"],
            "outboxd: --run-id is empty, or has a line break",
        ),
    ] {
        let output = outboxd(&["snapshot", args[0], args[1]], &settings)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn what_is_no_text_ends_in_words() {
    let bytes = || OsString::from_vec(b"a\xff".to_vec());
    let commands: [&[&str]; 7] = [
        &["snapshot", "--where"],
        &["redrive", "--event-id"],
        &["shadow", "--slot"],
        &["slot", "drop", "--yes"],
        &["slot", "advance", "--to"],
        &["setup", "--as"],
        &["check", "--topic"],
    ];
    for args in commands {
        let output = outboxd(args, &[]).arg(bytes()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{args:?}: {said}");
    }
    let setup = || outboxd(&["setup"], &["postgres.user=relay", "postgres.port=1"]);
    let output = setup().env("ELSEWHERE", bytes()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = setup().env("OUTBOXD_SLOT_NAME", bytes()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(
        said.contains("OUTBOXD_SLOT_NAME: the value is not UTF-8"),
        "{said}"
    );
}

#[test]
fn a_reader_that_went_away_is_no_panic() {
    let nowhere = [
        "postgres.url=postgres://relay@127.0.0.1:1/shop",
        "kafka.bootstrap.servers=127.0.0.1:1",
    ];
    for (args, expected) in [
        (&["setup"][..], 0),
        (&["setup", "--apply"], 1),
        (&["snapshot"], 1),
        (&["shadow"], 1),
        (&["slot", "drop", "--yes", "outbox"], 1),
        (&["slot", "advance", "--to", "0/1"], 1),
    ] {
        let mut command = outboxd(args, &nowhere);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{args:?}");
    }
}

/// As far as a server that wants a password.
fn ask_for_a_password(mut socket: TcpStream) {
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let rest = usize::try_from(u32::from_be_bytes(length)).unwrap() - 4;
    socket.read_exact(&mut vec![0; rest]).unwrap();
    // AuthenticationCleartextPassword
    socket.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 3]).unwrap();
    let mut more = Vec::new();
    drop(socket.read_to_end(&mut more));
}

#[test]
fn an_administrator_without_a_password_is_told_where_to_write_it() {
    let (listener, port) = silent();
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            ask_for_a_password(listener.accept().unwrap().0);
        }
    });
    let url = format!("--as=postgresql://admin@127.0.0.1:{port}/shop?sslmode=disable");
    for (args, prefix) in [(&["setup"][..], "-- "), (&["setup", "--apply"], "HINT:  ")] {
        let mut command = outboxd(args, &["postgres.user=relay"]);
        let output = command.arg(&url).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let hint = format!("{prefix}Write the password into the URL of --as (");
        assert!(said.contains("and none is set"), "{said}");
        assert!(said.contains(&hint), "{said}");
    }
    server.join().unwrap();
}
