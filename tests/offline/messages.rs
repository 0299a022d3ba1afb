//! `docs/messages.md` has every message that ends a session or blocks, with detail, hint and the
//! section of the runbook: made from one sample of each variant of the error types.

mod kafka;
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

struct Family {
    title: &'static str,
    /// Absent where the messages are of no error.
    of: Option<ErrorType>,
    samples: Vec<Sample>,
}

/// An enum, of which each variant has a sample.
struct ErrorType {
    source: &'static str,
    name: &'static str,
    /// Variants around errors that have a family of their own.
    elsewhere: &'static [&'static str],
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
        let Some(of) = family.of else {
            continue;
        };
        let sampled = family.samples.iter().map(|sample| sample.variant.clone());
        let elsewhere = of.elsewhere.iter().map(|variant| (*variant).to_owned());
        let known = variants(of.source, of.name);
        assert!(!known.is_empty());
        assert_eq!(
            sampled.chain(elsewhere).collect::<BTreeSet<_>>(),
            known,
            "{} in tests/offline/messages/samples.rs",
            of.name
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
fn no_error_promises_what_only_a_relay_that_goes_on_can_keep() {
    let families = samples::families().into_iter();
    let samples = families
        .filter(|family| family.of.is_some())
        .flat_map(|family| family.samples);
    for sample in samples {
        let hint = sample.problem.hint.unwrap_or_default();
        for promise in ["by itself", "tried again", "connected to again"] {
            assert!(!hint.contains(promise), "{}: {hint}", sample.variant);
        }
    }
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

/// The texts of the source that become a problem's message, without what is filled in.
fn told(source: &str) -> Vec<Vec<String>> {
    let product = source.split("#[cfg(test)]").next().unwrap_or_default();
    let begin = ["Problem::new(", "problem(", "message: "];
    let found = begin.iter().flat_map(|begin| product.split(begin).skip(1));
    found
        .filter_map(|rest| {
            let rest = rest.trim_start();
            let rest = rest.strip_prefix("format!(").map_or(rest, str::trim_start);
            let text = rest.strip_prefix('"')?.replace("\\\"", "\u{1}");
            let text = text.split('"').next()?.replace('\u{1}', "\"");
            let fixed = text.split(['{', '}']).step_by(2);
            Some(fixed.map(str::to_owned).collect())
        })
        .collect()
}

#[test]
fn what_is_told_is_read_from_the_source() {
    let source = r#"
        Problem::new("gone")
        problem(
            format!("slot \"{name}\" is at {lsn}"), None)
        Problem { message: error.to_string() }
        #[cfg(test)] Problem::new("of a test")
    "#;
    let slot = ["slot \"", "\" is at ", ""].map(str::to_owned).to_vec();
    assert_eq!(told(source), [vec!["gone".to_owned()], slot]);
}

fn has_in_order(line: &str, pieces: &[String]) -> bool {
    let mut rest = line;
    pieces.iter().all(|piece| match rest.split_once(piece) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn no_message_is_without_a_line_in_the_document() {
    let document = fs::read_to_string(project("docs/messages.md")).unwrap();
    let rows = || document.lines().filter(|line| line.starts_with('|'));
    let mut files = Vec::new();
    sources(&project("src"), &mut files);
    let messages: Vec<_> = files
        .iter()
        .filter(|text| text.contains("Problem"))
        .flat_map(|text| told(text))
        .collect();
    assert!(messages.len() > 20, "{messages:?}");
    let missing: Vec<_> = messages
        .iter()
        .filter(|pieces| !rows().any(|line| has_in_order(line, pieces)))
        .collect();
    assert_eq!(missing, Vec::<&Vec<String>>::new(), "in docs/messages.md");
}
