//! Java's regular expressions in the words of the engine here.
//!
//! Syntax is the same but for what follows: in Java, `\d`, `\w`, `\s` and `\b` know ASCII only, `.`
//! stops at six line ends, `\h` is a blank, and `\Q…\E` quotes.

/// The same pattern for `fancy_regex`.
pub(crate) fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    // Brackets that are open: what stands in a class means something else.
    let mut class_depth = 0_u32;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('Q') => quote(&mut characters, &mut out),
                Some(kind) => escape(kind, class_depth > 0, &mut out),
                None => out.push('\\'),
            },
            '.' if class_depth == 0 => out.push_str(r"[^\n\r\x{85}\x{2028}\x{2029}]"),
            '[' => {
                class_depth += 1;
                out.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A bracket in first place stands for itself.
                if characters.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            ']' => {
                class_depth = class_depth.saturating_sub(1);
                out.push(']');
            }
            other => out.push(other),
        }
    }
    out
}

fn escape(kind: char, in_class: bool, out: &mut String) {
    const BLANKS: &str = r"\t \xA0\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
    let (set, negated) = match kind {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        'w' => ("a-zA-Z0-9_", false),
        'W' => ("a-zA-Z0-9_", true),
        's' => (r"\t\n\x0B\f\r ", false),
        'S' => (r"\t\n\x0B\f\r ", true),
        'h' => (BLANKS, false),
        'H' => (BLANKS, true),
        'Z' => return out.push_str(r"(?=(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z)"),
        other => {
            out.push('\\');
            return out.push(other);
        }
    };
    match (in_class, negated) {
        (true, false) => out.push_str(set),
        (_, true) => out.push_str(&format!("[^{set}]")),
        (false, false) => out.push_str(&format!("[{set}]")),
    }
}

/// Up to `\E`, character by character as itself.
fn quote(characters: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    while let Some(character) = characters.next() {
        if character == '\\' && characters.next_if_eq(&'E').is_some() {
            return;
        }
        if character.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fancy_regex::Regex;

    #[test]
    fn patterns_match_what_they_match_in_java() {
        for (pattern, text, matches) in [
            (r"\w+", "Order", true),
            (r"\w+", "Заказ", false),
            (r"[\w.]+", "a.b", true),
            (r"\d", "٣", false),
            (r".*", "a\u{2028}b", false),
            (r".*", "a\u{b}b", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"[^\d]+", "abc", true),
            (r"[\D&&[^x]]+", "abx", false),
            (r"[]a]+", "a]", true),
            (r"(?<first>a)\k<first>", "aa", true),
            (r"(?!internal).+", "internal.x", false),
            (r"a++b", "aab", true),
        ] {
            let regex = Regex::new(&format!("^(?:{})\\z", translate(pattern))).unwrap();
            assert_eq!(
                regex.is_match(text).unwrap(),
                matches,
                "{pattern} on {text:?}"
            );
        }
    }
}
