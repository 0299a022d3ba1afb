//! Column defaults that are constants.

/// The literal in a default as `pg_get_expr` prints it, in the type's text form: `'new'::text`,
/// `42`, `true`, `'-1'::integer`. `None` for null, for functions and for everything else that has
/// to be evaluated.
pub(super) fn literal(expression: &str) -> Option<String> {
    let expression = strip_parentheses(expression.trim());
    let (literal, rest) = if let Some(quoted) = expression.strip_prefix('\'') {
        unquote(quoted)?
    } else {
        let end = expression.find("::").unwrap_or(expression.len());
        let (word, rest) = expression.split_at(end);
        (plain_word(word)?, rest)
    };
    casts_only(rest).then_some(literal)
}

/// `((0)::numeric)` and the like: the parentheses that the server puts around a cast.
fn strip_parentheses(expression: &str) -> String {
    let mut text = expression.to_owned();
    while let Some(inner) = text.strip_prefix('(') {
        let Some(close) = inner.find(')') else { break };
        let (inside, rest) = inner.split_at(close);
        // A quote may hide a parenthesis; only simple words are taken out of theirs.
        if inside.contains(['\'', '"', '(']) {
            break;
        }
        text = format!("{inside}{}", &rest[1..]);
    }
    text
}

fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut literal = String::new();
    let mut characters = quoted.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character != '\'' {
            literal.push(character);
        } else if characters.next_if(|(_, next)| *next == '\'').is_some() {
            literal.push('\'');
        } else {
            return Some((literal, &quoted[at + 1..]));
        }
    }
    None
}

fn plain_word(word: &str) -> Option<String> {
    match word {
        "true" | "false" => Some(word.to_owned()),
        number => {
            let numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
            let starts = number.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.'));
            (starts && number.chars().all(numeric)).then(|| number.to_owned())
        }
    }
}

/// Nothing, or `::type` any number of times. A type's name has no operator and no function call;
/// its modifier, as in `character varying(10)` and `numeric(10,2)`, has digits only.
fn casts_only(rest: &str) -> bool {
    if rest.is_empty() {
        return true;
    }
    let Some(casts) = rest.strip_prefix("::") else {
        return false;
    };
    casts.split("::").all(|name| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || " _.\"[](),".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn literals_come_out_of_their_casts() {
        for (expression, expected) in [
            ("'new'::text", "new"),
            ("'it''s'::character varying", "it's"),
            ("'{\"a\": 1}'::jsonb", "{\"a\": 1}"),
            ("42", "42"),
            ("'-1'::integer", "-1"),
            ("0.50", "0.50"),
            ("(0)::numeric", "0"),
            ("true", "true"),
            ("''::text", ""),
            ("'a::b'::text", "a::b"),
            ("'{}'::text[]", "{}"),
            ("'x'::\"My Schema\".\"Mood\"", "x"),
            (
                "'2020-01-01 00:00:00'::timestamp without time zone",
                "2020-01-01 00:00:00",
            ),
        ] {
            assert_eq!(
                literal(expression).as_deref(),
                Some(expected),
                "{expression}"
            );
        }
    }

    #[test]
    fn what_has_to_be_evaluated_is_no_constant() {
        for expression in [
            "now()",
            "gen_random_uuid()",
            "nextval('outbox_seq'::regclass)",
            "NULL::character varying",
            "('a'::text || 'b'::text)",
            "'a'::text || 'b'::text",
            "(1 + 2)",
            "CURRENT_TIMESTAMP",
            "",
            "'open",
        ] {
            assert_eq!(literal(expression), None, "{expression}");
        }
    }
}
