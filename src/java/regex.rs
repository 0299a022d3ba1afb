//! Java's regular expressions in the words of the engine here.
//!
//! Syntax is the same but for what follows. In Java `\d`, `\w`, `\s`, `\b`, the POSIX classes and
//! `(?i)` know ASCII only, `.` stops at six line ends, `\h` is a blank, `\v` a line end, `\Q…\E`
//! quotes, and what is no repetition in braces is refused.

use std::iter::Peekable;
use std::str::Chars;

/// The same pattern for `fancy_regex`, or why Java would not take it. With `any_case`, as compiled
/// with `CASE_INSENSITIVE`.
pub(crate) fn translate(pattern: &str, any_case: bool) -> Result<String, String> {
    let flags = Flags {
        ignore_case: any_case,
        ..Flags::default()
    };
    let mut translation = Translation {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len() + 16),
        flags,
        outer: Vec::new(),
        names: Vec::new(),
    };
    translation.pattern()?;
    if translation.flags.comments {
        // A comment would reach into what follows.
        translation.out.push('\n');
    }
    Ok(translation.out)
}

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    ignore_case: bool,
    unicode_case: bool,
    dot_all: bool,
    unix_lines: bool,
    unicode_classes: bool,
    comments: bool,
}

struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    flags: Flags,
    /// The flags to go back to, by open group.
    outer: Vec<Flags>,
    names: Vec<String>,
}

const LINE_ENDS: &str = r"\n\r\x{85}\x{2028}\x{2029}";

impl Translation<'_> {
    fn pattern(&mut self) -> Result<(), String> {
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '(' => self.open()?,
                ')' => {
                    self.flags = self.outer.pop().unwrap_or(self.flags);
                    self.out.push(')');
                }
                '{' => self.repetition()?,
                '.' if self.flags.dot_all => self.out.push_str("(?s:.)"),
                '.' if self.flags.unix_lines => self.out.push_str(r"[^\n]"),
                '.' => self.out.push_str(&format!("[^{LINE_ENDS}]")),
                '#' if self.flags.comments => {
                    self.rest.by_ref().find(|character| *character == '\n');
                }
                other => self.literal(other),
            }
        }
        Ok(())
    }

    fn literal(&mut self, character: char) {
        let ascii_case = self.flags.ignore_case && !self.flags.unicode_case;
        if ascii_case && !character.is_ascii() {
            self.out.push_str(&format!("(?-i:{character})"));
        } else {
            self.out.push(character);
        }
    }

    /// Behind `{`.
    fn repetition(&mut self) -> Result<(), String> {
        let text: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
        let (from, to) = text.split_once(',').unwrap_or((&text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if from.is_empty() || !digits(from) || !digits(to) {
            return Err("a brace that is no repetition".to_owned());
        }
        self.out.push_str(&format!("{{{text}}}"));
        Ok(())
    }

    /// Behind `(`.
    fn open(&mut self) -> Result<(), String> {
        if self.rest.next_if_eq(&'?').is_none() {
            self.outer.push(self.flags);
            self.out.push('(');
            return Ok(());
        }
        match self.rest.peek() {
            Some('<') => {
                self.outer.push(self.flags);
                self.rest.next();
                self.out.push_str("(?<");
                match self.rest.peek() {
                    Some('=' | '!') => Ok(()),
                    _ => self.name(),
                }
            }
            Some(':' | '=' | '!' | '>') => {
                self.outer.push(self.flags);
                self.out.push_str("(?");
                self.out.extend(self.rest.next());
                Ok(())
            }
            _ => self.flags(),
        }
    }

    /// Behind `(?<`, up to and with `>`.
    fn name(&mut self) -> Result<(), String> {
        let name: String = self.rest.by_ref().take_while(|c| *c != '>').collect();
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_name {
            return Err(format!(
                "\"{name}\" is no name of a group: letters and digits are"
            ));
        }
        if self.names.contains(&name) {
            return Err(format!("two groups have the name \"{name}\""));
        }
        self.out.push_str(&name);
        self.out.push('>');
        self.names.push(name);
        Ok(())
    }

    /// Behind `(?`: flags for the rest of the group, or for a group of their own.
    fn flags(&mut self) -> Result<(), String> {
        let (before, mut on) = (self.flags, true);
        let mut passed_on = [String::new(), String::new()];
        loop {
            let flag = self.rest.next().ok_or("a group that does not end")?;
            let target = match flag {
                '-' => {
                    on = false;
                    continue;
                }
                ')' | ':' => {
                    let [set, cleared] = passed_on;
                    let dash = if cleared.is_empty() { "" } else { "-" };
                    let flags = format!("{set}{dash}{cleared}");
                    if flag == ':' {
                        self.outer.push(before);
                        self.out.push_str(&format!("(?{flags}:"));
                    } else if !flags.is_empty() {
                        self.out.push_str(&format!("(?{flags})"));
                    }
                    return Ok(());
                }
                'i' => &mut self.flags.ignore_case,
                'u' => &mut self.flags.unicode_case,
                's' => &mut self.flags.dot_all,
                'd' => &mut self.flags.unix_lines,
                'U' => &mut self.flags.unicode_classes,
                'x' => &mut self.flags.comments,
                'm' => &mut true,
                other => return Err(format!("\"(?{other}\" begins no group")),
            };
            *target = on;
            if matches!(flag, 'i' | 'x' | 'm') {
                passed_on[usize::from(!on)].push(flag);
            }
        }
    }

    /// Behind `[`, up to and with its `]`.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        // A bracket in first place stands for itself.
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str(r"\]");
        }
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape(true)?,
                '[' => self.class()?,
                ']' => {
                    self.out.push(']');
                    return Ok(());
                }
                // Two of them, or a colon behind a bracket, mean something here and not in Java.
                '-' | '~' if self.out.ends_with(character) => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                ':' if self.out.ends_with('[') => self.out.push_str(":-:"),
                other => self.out.push(other),
            }
        }
        Err("a class that does not end".to_owned())
    }

    /// Behind a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let kind = self.rest.next().ok_or("a backslash at the end")?;
        match kind {
            'Q' => self.quote(),
            'u' => self.unit()?,
            '0' => self.octal()?,
            'c' => {
                let control = self.rest.next().ok_or("\\c without a character")?;
                self.code(u32::from(control) ^ 64);
            }
            'p' | 'P' => self.property(kind == 'P', in_class)?,
            'N' | 'X' => return Err(format!("\\{kind} is not supported")),
            'Z' => self
                .out
                .push_str(&format!(r"(?=(?:\r\n|[{LINE_ENDS}])?\z)")),
            'd' | 'D' | 'w' | 'W' | 's' | 'S' if self.flags.unicode_classes => {
                self.out.push('\\');
                self.out.push(kind);
            }
            other => match set(other) {
                Some((set, negated)) => self.set(set, negated, in_class),
                None => {
                    self.out.push('\\');
                    self.out.push(other);
                }
            },
        }
        Ok(())
    }

    fn set(&mut self, set: &str, negated: bool, in_class: bool) {
        self.out.push_str(&match (in_class, negated) {
            (true, false) => set.to_owned(),
            (_, true) => format!("[^{set}]"),
            (false, false) => format!("[{set}]"),
        });
    }

    fn code(&mut self, code: u32) {
        self.out.push_str(&format!("\\x{{{code:X}}}"));
    }

    /// Four digits; two surrogates are one character.
    fn unit(&mut self) -> Result<(), String> {
        let high = self.four_digits()?;
        let mut ahead = self.rest.clone();
        let paired = (0xD800..0xDC00).contains(&high)
            && ahead.next() == Some('\\')
            && ahead.next() == Some('u');
        if !paired {
            self.code(high);
            return Ok(());
        }
        self.rest = ahead;
        let low = self.four_digits()?;
        self.code(0x1_0000 + ((high - 0xD800) << 10) + low.saturating_sub(0xDC00));
        Ok(())
    }

    fn four_digits(&mut self) -> Result<u32, String> {
        let digits: String = self.rest.by_ref().take(4).collect();
        u32::from_str_radix(&digits, 16).map_err(|_| "\\u without four digits".to_owned())
    }

    /// Up to three digits, at most 377.
    fn octal(&mut self) -> Result<(), String> {
        let mut code = None;
        for _ in 0..3 {
            let before = code.unwrap_or(0);
            let digit = self.rest.peek().and_then(|digit| digit.to_digit(8));
            match digit.filter(|digit| before * 8 + digit <= 0o377) {
                Some(digit) => code = Some(before * 8 + digit),
                None => break,
            }
            self.rest.next();
        }
        self.code(code.ok_or("\\0 without a digit")?);
        Ok(())
    }

    /// Up to `\E`, character by character as itself.
    fn quote(&mut self) {
        while let Some(character) = self.rest.next() {
            if character == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            if character.is_ascii_punctuation() || character.is_ascii_whitespace() {
                self.out.push('\\');
            }
            self.literal(character);
        }
    }

    /// Behind `\p` or `\P`.
    fn property(&mut self, negated: bool, in_class: bool) -> Result<(), String> {
        let name: String = match self.rest.next() {
            Some('{') => self.rest.by_ref().take_while(|c| *c != '}').collect(),
            letter => letter.into_iter().collect(),
        };
        if name.starts_with("In") {
            let name = format!("\\p{{{name}}}");
            return Err(format!("blocks of characters are not supported: {name}"));
        }
        let posix = posix(&name).filter(|_| !self.flags.unicode_classes);
        match (posix, name.as_str()) {
            (Some(set), _) => self.set(set, negated, in_class),
            (None, name) => {
                let name = match name {
                    "javaUpperCase" | "Upper" => "Uppercase",
                    "javaLowerCase" | "Lower" => "Lowercase",
                    "javaAlphabetic" | "Alpha" => "Alphabetic",
                    other => other.strip_prefix("Is").unwrap_or(other),
                };
                let letter = if negated { 'P' } else { 'p' };
                self.out.push_str(&format!("\\{letter}{{{name}}}"));
            }
        }
        Ok(())
    }
}

/// The predefined classes that Java has otherwise, and whether it is their complement.
const fn set(kind: char) -> Option<(&'static str, bool)> {
    const BLANKS: &str = r"\t\x20\xA0\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
    const VERTICAL: &str = r"\n\x0B\f\r\x{85}\x{2028}\x{2029}";
    const WORD: &str = "a-zA-Z0-9_";
    const SPACE: &str = r"\t\n\x0B\f\r\x20";
    Some(match kind {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        'w' => (WORD, false),
        'W' => (WORD, true),
        's' => (SPACE, false),
        'S' => (SPACE, true),
        'h' => (BLANKS, false),
        'H' => (BLANKS, true),
        'v' => (VERTICAL, false),
        'V' => (VERTICAL, true),
        _ => return None,
    })
}

/// POSIX classes know ASCII only.
fn posix(name: &str) -> Option<&'static str> {
    Some(match name {
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "ASCII" => r"\x00-\x7F",
        "Alpha" => "a-zA-Z",
        "Digit" => "0-9",
        "Alnum" => "a-zA-Z0-9",
        "Punct" => r"!-/\x3A-@\[-`\{-~",
        "Graph" => "!-~",
        "Print" => r"\x20-~",
        "Blank" => r"\x20\t",
        "Cntrl" => r"\x00-\x1F\x7F",
        "XDigit" => "0-9a-fA-F",
        "Space" => r"\x20\t\n\x0B\f\r",
        _ => return None,
    })
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
            (r"(?U)\w+", "Заказ", true),
            (r"[\w.]+", "a.b", true),
            (r"\d", "٣", false),
            (r".*", "a\u{2028}b", false),
            (r".*", "a\u{b}b", true),
            (r"(?s).*", "a\nb", true),
            (r"((?s)a.)(.)", "a\n\n", false),
            (r"(?s:a.)b", "a\nb", true),
            (r"(?d).*", "a\rb", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"[^\d]+", "abc", true),
            (r"[\D&&[^x]]+", "abx", false),
            (r"[]a]+", "a]", true),
            (r"[[:alpha:]]+", "order", false),
            (r"(?<first>a)\k<first>", "aa", true),
            (r"(?!internal).+", "internal.x", false),
            (r"a++b", "aab", true),
            (r"\p{Alpha}+", "é", false),
            (r"\p{Punct}+", "$:[", true),
            (r"[\p{L}_]+", "é_", true),
            (r"\p{IsLatin}+", "é", true),
            (r"(?i)ÉORDER", "Éorder", true),
            (r"(?i)É", "é", false),
            (r"(?iu)É", "é", true),
            (r"\0101\x42\u0043\uD83D\uDE00", "ABC😀", true),
            (r"(?x) o r d e r  # c.(", "order", true),
            (r"a\vb", "a\nb", true),
            (r"a{2}b{1,}", "aab", true),
        ] {
            let translated = translate(pattern, false).unwrap();
            let regex = Regex::new(&format!("^(?:{translated})\\z")).unwrap();
            let found = regex.is_match(text).unwrap();
            assert_eq!(found, matches, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn what_java_refuses_is_refused() {
        for pattern in [
            "{",
            "a{x}",
            "a{,2}",
            "(?<a_b>x)",
            "(?<1a>x)",
            "(?<a>x)(?<a>y)",
            "(?P<n>x)",
            "[a",
            "a\\",
            "(?y)",
            r"\0",
        ] {
            assert!(translate(pattern, false).is_err(), "{pattern}");
        }
    }

    #[test]
    fn what_java_takes_and_is_rare_is_refused_by_name() {
        for (pattern, reason) in [
            (r"\X+", r"\X is not supported"),
            (r"\N{DIGIT ONE}", r"\N is not supported"),
            (
                r"[\p{InGreek}]",
                r"blocks of characters are not supported: \p{InGreek}",
            ),
        ] {
            assert_eq!(translate(pattern, false), Err(reason.to_owned()));
        }
    }
}
