//! Links between documents, and what the documents have to speak of.

use std::path::{Component, Path, PathBuf};

use super::assert_none;
use super::sources::{files, read, root};

#[test]
fn every_relative_link_leads_to_a_file_and_its_heading() {
    let mut faults = Vec::new();
    for document in documents("") {
        let text = text(&document);
        for target in links(&text) {
            if let Err(fault) = follow(&document, &target) {
                faults.push(format!("{document}: ({target}) {fault}"));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn every_exit_status_is_documented() {
    let cli = text("src/cli.rs");
    let (_, exit) = cli.split_once("pub mod exit {").expect("the exit statuses");
    let (exit, _) = exit
        .split_once("\n}")
        .expect("the end of the exit statuses");
    let statuses: Vec<_> = exit
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const "))
        .map(|constant| constant.split_once("= ").unwrap().1.trim_end_matches(';'))
        .collect();
    assert!(statuses.len() >= 4, "{statuses:?}");

    let documents: String = documents("docs").iter().map(|path| text(path)).collect();
    let lines: Vec<_> = documents.lines().map(str::trim_start).collect();
    let faults: Vec<_> = statuses
        .iter()
        .filter(|status| {
            let row = format!("| {status} |");
            let code = format!("| `{status}` |");
            !lines
                .iter()
                .any(|line| line.starts_with(&row) || line.starts_with(&code))
        })
        .map(|status| format!("no table in docs has a row for exit status {status}"))
        .collect();
    assert_none(&faults);
}

/// Both ways: a file that is not in its table, and a test that is not there any more.
#[test]
fn every_live_test_stands_in_the_document_of_tests() {
    let document = text("docs/testing.md");
    let live = files("tests/live").into_iter();
    let live: Vec<(String, String)> = live
        .filter_map(|path| {
            let name = path.strip_prefix("tests/live/")?.strip_suffix(".rs")?;
            let is_module = !name.contains('/') && name != "main";
            is_module.then(|| (name.to_owned(), text(&path)))
        })
        .collect();
    assert!(live.len() > 20, "{}", live.len());
    let mut faults: Vec<_> = live
        .iter()
        .filter(|(name, _)| !document.contains(&format!("\n| `tests/live/{name}.rs` | ")))
        .map(|(name, _)| format!("docs/testing.md has no row for tests/live/{name}.rs"))
        .collect();
    let quoted = document.split('`').skip(1).step_by(2);
    let mut named = 0;
    for (name, test) in quoted.filter_map(|code| code.split_once("::")) {
        let Some((_, source)) = live.iter().find(|(known, _)| known == name) else {
            continue;
        };
        let begins = test.trim_end_matches('…');
        // A module's own folder is named by its path.
        if !begins.is_empty() && !begins.contains("::") {
            named += 1;
            if !source.contains(&format!("fn {begins}")) {
                faults.push(format!("docs/testing.md: {name} has no test {test}"));
            }
        }
    }
    assert!(named > 10, "{named}");
    assert_none(&faults);
}

fn documents(folder: &str) -> Vec<String> {
    let mut documents = files(folder);
    documents.retain(|path| path.ends_with(".md"));
    documents
}

fn text(path: &str) -> String {
    String::from_utf8(read(path)).unwrap()
}

/// Targets of the links outside code.
fn links(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in prose(text) {
        let mut rest = line;
        while let Some((_, behind)) = rest.split_once("](") {
            let (target, after) = behind.split_once(')').unwrap_or((behind, ""));
            targets.push(target.split(' ').next().unwrap_or_default().to_owned());
            rest = after;
        }
    }
    targets
}

/// Lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

fn follow(document: &str, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => document.to_owned(),
        path => {
            let folder = Path::new(document).parent().unwrap_or(Path::new(""));
            normal(&folder.join(path)).ok_or("leads out of the project")?
        }
    };
    if !root().join(&file).exists() {
        return Err("leads nowhere".to_owned());
    }
    if anchor.is_empty() || !file.ends_with(".md") {
        return Ok(());
    }
    let known = prose(&text(&file)).any(|line| heading_anchor(line).as_deref() == Some(anchor));
    known
        .then_some(())
        .ok_or_else(|| "leads to no heading".to_owned())
}

fn normal(path: &Path) -> Option<String> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal.to_string_lossy().into_owned())
}

/// As GitHub makes it: lower case, spaces to dashes, other signs left out.
fn heading_anchor(line: &str) -> Option<String> {
    let heading = line
        .strip_prefix('#')?
        .trim_start_matches('#')
        .strip_prefix(' ')?;
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    };
    Some(
        heading
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(letter)
            .collect(),
    )
}

#[test]
fn links_are_found_and_headings_named_as_github_names_them() {
    let text = "See [a](b.md#c-d \"title\") and [e](../f.md).\n```\n[no](code.md)\n```\n";
    assert_eq!(links(text), ["b.md#c-d", "../f.md"]);
    assert_eq!(
        heading_anchor("## Slot lost: what `now`?").as_deref(),
        Some("slot-lost-what-now")
    );
    assert_eq!(heading_anchor("text # no heading"), None);
    assert_eq!(
        normal(Path::new("docs/../README.md")).as_deref(),
        Some("README.md")
    );
    assert_eq!(normal(Path::new("../other")), None);
}
