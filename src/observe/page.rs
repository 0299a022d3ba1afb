//! The page at `/`: one file with everything in it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use openssl::sha::sha256;

pub(super) const HTML: &str = include_str!("page.html");

/// Nothing may be loaded from elsewhere, and no script or style runs but the page's own, which are
/// known by their hashes: text that got into the page by mistake would stay text.
pub(super) fn policy() -> String {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash_of("script"),
        hash_of("style"),
    )
}

fn hash_of(element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let content = HTML
        .split_once(&open)
        .and_then(|(_, rest)| rest.split_once(&close));
    let content = content.map_or("", |(content, _)| content);
    format!(
        "sha256-{}",
        BASE64_STANDARD.encode(sha256(content.as_bytes()))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        for outside in ["http:", "https:", "//", "src=", "@import", "url("] {
            assert!(!HTML.contains(outside), "{outside}");
        }
    }

    /// What a relay shows comes from tables, topics and servers that others write to.
    #[test]
    fn text_goes_into_the_page_as_text() {
        let ways = [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "onclick",
            "onload",
            "onerror",
            "style=",
            "javascript:",
        ];
        let found: Vec<_> = ways.iter().filter(|way| HTML.contains(**way)).collect();
        assert_eq!(found, Vec::<&&str>::new());
        for element in ["script", "style"] {
            assert_eq!(HTML.matches(&format!("<{element}")).count(), 1);
            assert_eq!(HTML.matches(&format!("<{element}>")).count(), 1);
        }
    }

    #[test]
    fn the_policy_knows_script_and_style_by_their_hashes() {
        let policy = policy();
        let empty = BASE64_STANDARD.encode(sha256(b""));
        assert_eq!(policy.matches("sha256-").count(), 2);
        assert!(
            !policy.contains(&empty) && !policy.contains("unsafe"),
            "{policy}"
        );
    }
}
