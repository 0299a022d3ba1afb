//! Files of the project, and source code without its comments and tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A source file of the product.
pub(super) struct Source {
    /// Below `src`.
    pub(super) path: String,
    /// Without comments and tests.
    pub(super) code: String,
    /// With comments and without tests.
    pub(super) lines: usize,
}

impl Source {
    /// The folder or file directly below `src` that it belongs to.
    pub(super) fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// The module whose parent is the crate itself.
    pub(super) fn is_top_of_room(&self) -> bool {
        self.path == format!("{}.rs", self.room()) || self.path == format!("{}/mod.rs", self.room())
    }

    /// A path that begins with `path` stands in the code.
    pub(super) fn names(&self, path: &str) -> bool {
        let whole = format!("{path}::");
        self.code.match_indices(&whole).any(|(at, _)| {
            let before = self.code[..at].chars().next_back();
            before.is_none_or(|before| !before.is_alphanumeric() && !"_:".contains(before))
        })
    }

    /// The rooms behind every `crate::`.
    pub(super) fn named_rooms(&self) -> BTreeSet<String> {
        let mut rooms = BTreeSet::new();
        for (at, found) in self.code.match_indices("crate::") {
            let rest = &self.code[at + found.len()..];
            if let Some(group) = rest.strip_prefix('{') {
                rooms.extend(first_names(group));
            } else {
                rooms.insert(identifier(rest).to_owned());
            }
        }
        rooms
    }
}

fn identifier(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The first names of the paths in a `use` group, up to its closing brace.
fn first_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(identifier(group[start..at].trim_start()).to_owned());
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Every file of `src` that is part of the product.
pub(super) fn production_sources() -> Vec<Source> {
    let paths = files("src").into_iter();
    let paths = paths.filter(|path| path.ends_with(".rs") && !is_test_file(path));
    let sources: Vec<_> = paths.map(|path| source(&path)).collect();
    assert!(!sources.is_empty());
    sources
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn source(path: &str) -> Source {
    let text = String::from_utf8(read(path)).unwrap();
    let lines = without_tests(&text);
    let is_code = |line: &&&str| !line.trim_start().starts_with("//");
    let code: Vec<&str> = lines.iter().filter(is_code).copied().collect();
    Source {
        path: path.strip_prefix("src/").unwrap().to_owned(),
        code: code.join("\n"),
        lines: lines.len(),
    }
}

/// Leaves out each item behind `#[cfg(test)]`. rustfmt has run: an item ends with a semicolon on its
/// first line, or with a brace as far in as it began.
fn without_tests(text: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        for line in lines.by_ref() {
            let is_attribute = line.trim_start().starts_with("#[");
            if line == end
                || (line.trim_end().ends_with(';') && !is_attribute && is_at(line, indent))
            {
                break;
            }
        }
    }
    kept
}

fn is_at(line: &str, indent: usize) -> bool {
    line.len() - line.trim_start().len() == indent
}

/// The project's files below a folder, as paths from its root, sorted; without what is built.
pub(super) fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(folder, &mut found);
    found.sort();
    found
}

fn collect(folder: &str, found: &mut Vec<String>) {
    const BUILT: [&str; 4] = [".git", "target", "corpus", "artifacts"];
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if BUILT.contains(&&*name) {
            continue;
        }
        let path = if folder.is_empty() {
            name
        } else {
            format!("{folder}/{name}")
        };
        if entry.file_type().unwrap().is_dir() {
            collect(&path, found);
        } else {
            found.push(path);
        }
    }
}

pub(super) fn read(path: &str) -> Vec<u8> {
    fs::read(root().join(path)).unwrap()
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn tests_and_comments_are_left_out_of_a_source() {
    let text = "use a::b;\n#[cfg(test)]\nmod tests;\n// note\nfn f() {\n    g();\n}\n\n\
                #[cfg(test)]\nmod more {\n    fn h() {}\n}\nfn i() {}\n";
    assert_eq!(
        without_tests(text),
        [
            "use a::b;",
            "// note",
            "fn f() {",
            "    g();",
            "}",
            "",
            "fn i() {}"
        ]
    );
}

#[test]
fn rooms_are_found_in_paths_and_groups() {
    let source = Source {
        path: "relay/mod.rs".to_owned(),
        code: "use crate::lsn::Lsn;\nuse crate::{ack::{A, B}, kafka, self};\nmycrate::x; \
               tokio_postgres::connect()"
            .to_owned(),
        lines: 3,
    };
    let rooms = ["ack", "kafka", "lsn", "self", "x"].map(str::to_owned);
    assert_eq!(source.named_rooms(), rooms.into());
    assert!(source.names("tokio_postgres"));
    assert!(!source.names("postgres"));
    assert!(!source.names("tokio"));
    assert!(source.is_top_of_room());
}
