//! The fuzz targets' properties on random and damaged bytes, the same ones in every run.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::support::mutation::{Random, damaged, random_bytes};
use crate::support::{fuzz_entry, golden};

/// How many cases each of the two tests tries.
const CASES: &str = "OUTBOXD_FUZZ_CASES";
const DEFAULT_CASES: u64 = 5_000_000;
/// The one case to try again.
const CASE: &str = "OUTBOXD_FUZZ_CASE";

#[test]
fn any_bytes_are_a_pgoutput_message_or_a_refusal() {
    let corpus: Vec<_> = golden::captures()
        .into_iter()
        .flat_map(|capture| capture.messages)
        .map(|message| message.body)
        .collect();
    corpus.iter().for_each(|body| fuzz_entry::pgoutput(body));
    run(
        "any_bytes_are_a_pgoutput_message_or_a_refusal",
        &corpus,
        fuzz_entry::pgoutput,
    );
}

#[test]
fn any_bytes_are_frames_or_a_refusal() {
    let corpus = frames();
    corpus.iter().for_each(|bytes| fuzz_entry::frame(bytes));
    run(
        "any_bytes_are_frames_or_a_refusal",
        &corpus,
        fuzz_entry::frame,
    );
}

/// Every third case is random, the others are damaged pieces of the corpus.
fn run(test: &str, corpus: &[Vec<u8>], entry: fn(&[u8])) {
    let current = Cell::new(0);
    let mut bytes = Vec::new();
    let all = || {
        for case in cases() {
            current.set(case);
            let mut random = Random::new(case);
            if case % 3 == 0 {
                random_bytes(&mut random, corpus, &mut bytes);
            } else {
                damaged(&mut random, corpus, &mut bytes);
            }
            entry(&bytes);
        }
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(all)) {
        let case = current.get();
        eprintln!(
            "case {case} failed on the bytes \"{}\"",
            bytes.escape_ascii()
        );
        eprintln!("replay it: {CASE}={case} cargo test --test offline fuzz::{test}");
        resume_unwind(panic);
    }
}

fn cases() -> Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        )
    };
    match number(CASE) {
        Some(case) => case..case + 1,
        None => 0..number(CASES).unwrap_or(DEFAULT_CASES),
    }
}

/// What a session receives, from the greeting to a stream of captured messages.
fn frames() -> Vec<Vec<u8>> {
    let greeting: [(u8, &[u8]); 12] = [
        (b'R', b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"),
        (b'R', b"\0\0\0\x05salt"),
        (b'R', b"\0\0\0\0"),
        (b'S', b"server_version\x0018.1\0"),
        (b'K', b"\0\0\x10\0\0\0\0\x07"),
        (b'N', b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0"),
        (
            b'E',
            b"SERROR\0VERROR\0C55006\0Mslot is active\0Dby 7\0Hwait\0\0",
        ),
        (
            b'T',
            b"\0\x01systemid\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0",
        ),
        (b'D', b"\0\x02\0\0\0\x017\xff\xff\xff\xff"),
        (b'C', b"IDENTIFY_SYSTEM\0"),
        (b'Z', b"I"),
        (b'W', b"\0\0\0"),
    ];
    let mut pieces: Vec<_> = greeting.map(|(tag, body)| framed(tag, body)).into();
    pieces.push(framed(b'd', b"k\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\x01"));
    for captured in golden::captures()
        .into_iter()
        .flat_map(|capture| capture.messages)
    {
        let head = [
            b"w".as_slice(),
            &captured.lsn.as_u64().to_be_bytes(),
            &[0; 16],
        ]
        .concat();
        pieces.push(framed(b'd', &[head, captured.body].concat()));
    }
    // Neighbours together, so that damage in one frame meets the next.
    let pairs = pieces.windows(2).map(<[_]>::concat);
    let pairs: Vec<_> = pairs.collect();
    [pieces, pairs].concat()
}

fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag], length.to_be_bytes().as_slice(), body].concat()
}
