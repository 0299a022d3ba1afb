//! `docs/messages.md` has every message that ends a session or blocks, with detail, hint and the
//! section of the runbook: made from one sample of each variant of the error types.

mod samples;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use outboxd::observe::Problem;

const MADE_FROM_HERE_ON: &str = "<!-- made from the error types -->\n\n";
const WRITE: &str = "OUTBOXD_WRITE_GOLDEN";

/// One variant with what it says, and where the runbook speaks of it.
struct Sample {
    variant: String,
    section: &'static str,
    problem: Problem,
}

/// The samples of one error type.
struct Family {
    title: &'static str,
    source: &'static str,
    name: &'static str,
    samples: Vec<Sample>,
}

fn project(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The first word of an enum's `Debug` is its variant.
fn variant(error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    let word = text.split(|c: char| !c.is_ascii_alphanumeric()).next();
    word.unwrap_or_default().to_owned()
}

/// The variants of an enum as its source has them.
fn variants(source: &str, name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(project(source)).unwrap();
    let start = format!("pub enum {name} {{\n");
    let (_, rest) = text
        .split_once(&start)
        .unwrap_or_else(|| panic!("no {name}"));
    let (body, _) = rest.split_once("\n}").unwrap();
    body.lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|line| {
            let word = line.split(|c: char| !c.is_ascii_alphanumeric()).next();
            word.unwrap_or_default().to_owned()
        })
        .collect()
}

#[test]
fn every_variant_of_every_error_has_a_sample() {
    for family in samples::families() {
        let sampled: BTreeSet<_> = family.samples.iter().map(|s| s.variant.clone()).collect();
        let known = variants(family.source, family.name);
        assert!(!known.is_empty());
        assert_eq!(
            sampled, known,
            "{} in tests/offline/messages/samples.rs",
            family.name
        );
    }
}

#[test]
fn every_message_is_one_line_without_a_full_stop_and_hints_are_sentences() {
    for sample in samples::families()
        .into_iter()
        .flat_map(|family| family.samples)
    {
        let Problem {
            message,
            detail,
            hint,
        } = sample.problem;
        assert!(
            !message.contains('\n') && !message.ends_with('.'),
            "{message}"
        );
        for sentence in [detail, hint].into_iter().flatten() {
            assert!(!sentence.contains('\n'), "{sentence}");
        }
    }
}

/// Beside a slot with which nothing is wrong, and the driver's own words.
const WITHOUT_HINT: [&str; 2] = ["Usable", "Sql"];

#[test]
fn every_message_says_what_to_do() {
    let samples = samples::families()
        .into_iter()
        .flat_map(|family| family.samples);
    let silent: Vec<_> = samples
        .filter(|sample| sample.problem.hint.is_none())
        .map(|sample| sample.variant)
        .filter(|variant| !WITHOUT_HINT.contains(&variant.as_str()))
        .collect();
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn the_messages_are_documented_as_they_are() {
    let path = project("docs/messages.md");
    let text = fs::read_to_string(&path).unwrap();
    let (by_hand, found) = text.split_once(MADE_FROM_HERE_ON).expect("the mark");
    let reference = reference();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, format!("{by_hand}{MADE_FROM_HERE_ON}{reference}")).unwrap();
        return;
    }
    assert_eq!(
        found, reference,
        "run: {WRITE}=1 cargo test --test offline messages"
    );
}

fn reference() -> String {
    let mut text = String::new();
    for family in samples::families() {
        writeln!(text, "## {}\n", family.title).unwrap();
        text += "| message | detail | hint | see |\n|---|---|---|---|\n";
        for sample in family.samples {
            let cell = |text: Option<String>| text.unwrap_or_default().replace('|', "\\|");
            let Problem {
                message,
                detail,
                hint,
            } = sample.problem;
            let (message, detail, hint) = (cell(Some(message)), cell(detail), cell(hint));
            let section = sample.section;
            let title = section.replace('-', " ");
            let link = format!("[{title}](operating.md#{section})");
            writeln!(text, "| {message} | {detail} | {hint} | {link} |").unwrap();
        }
        text.push('\n');
    }
    let length = text.trim_end().len();
    text.truncate(length);
    text + "\n"
}
