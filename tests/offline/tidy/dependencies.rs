//! What we build on: where it comes from, and under which terms.

use std::process::Command;

use serde_json::Value;

/// Terms that ask for no more than to be named.
const ACCEPTABLE: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "BSL-1.0",
];

/// Of alternatives one is enough; of terms that are joined all count.
fn is_acceptable(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    plain.split(" AND ").all(|joined| {
        let mut alternatives = joined.split(" OR ").map(str::trim);
        alternatives.any(|terms| ACCEPTABLE.contains(&terms))
    })
}

#[test]
fn every_dependency_comes_from_the_registry_under_acceptable_terms() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version=1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50);
    let faults: Vec<String> = packages.iter().filter_map(fault).collect();
    assert_eq!(faults, [""; 0]);
}

fn fault(package: &Value) -> Option<String> {
    let name = package["name"].as_str()?;
    if name == "outboxd" {
        return None;
    }
    let source = package["source"].as_str().unwrap_or("a folder");
    if !source.starts_with("registry+https://github.com/rust-lang/crates.io-index") {
        return Some(format!("{name} comes from {source}"));
    }
    match package["license"].as_str() {
        Some(license) if is_acceptable(license) => None,
        license => Some(format!("{name} has the terms {license:?}")),
    }
}

#[test]
fn terms_are_read_as_alternatives_and_as_joined() {
    for (expression, expected) in [
        ("MIT", true),
        ("MIT/Apache-2.0", true),
        ("MIT OR GPL-3.0", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
    ] {
        assert_eq!(is_acceptable(expression), expected, "{expression}");
    }
}
