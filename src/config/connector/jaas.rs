//! `sasl.jaas.config`: `module required name="value" …;`.

use crate::secret::Secret;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Secret,
}

/// Errors never show the text: it holds the password.
pub(super) fn parse(text: &str) -> Result<Login, String> {
    let mut tokens = Tokens(text.trim());
    let module = tokens.next()?.unwrap_or_default();
    match module.rsplit('.').next().unwrap_or("") {
        "PlainLoginModule" | "ScramLoginModule" => {}
        "" => return Err("names no login module".to_owned()),
        other => {
            return Err(format!(
                "login module {other} is not supported; PlainLoginModule and ScramLoginModule are"
            ));
        }
    }
    tokens.next()?;
    let (mut user, mut password) = (None, None);
    while let Some(name) = tokens.next()? {
        if tokens.next()?.as_deref() != Some("=") {
            return Err(format!("option \"{name}\" has no value"));
        }
        let value = tokens
            .next()?
            .ok_or_else(|| format!("option \"{name}\" has no value"))?;
        match name.as_str() {
            "username" => user = Some(value),
            "password" => password = Some(Secret::new(value)),
            _ => {}
        }
    }
    match (user, password) {
        (Some(user), Some(password)) => Ok(Login { user, password }),
        (None, _) => Err("has no username".to_owned()),
        (_, None) => Err("has no password".to_owned()),
    }
}

/// Words, quoted strings and `=`; a semicolon ends them.
struct Tokens<'a>(&'a str);

impl Tokens<'_> {
    fn next(&mut self) -> Result<Option<String>, String> {
        let text = self.0.trim_start();
        let Some(first) = text.chars().next().filter(|first| *first != ';') else {
            return Ok(None);
        };
        if first == '=' {
            self.0 = &text[1..];
            return Ok(Some("=".to_owned()));
        }
        if first != '"' && first != '\'' {
            let ends = |c: char| c.is_whitespace() || matches!(c, '=' | ';');
            let end = text.find(ends).unwrap_or(text.len());
            self.0 = &text[end..];
            return Ok(Some(text[..end].to_owned()));
        }
        let mut value = String::new();
        let mut characters = text.char_indices().skip(1);
        while let Some((index, character)) = characters.next() {
            match character {
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                quote if quote == first => {
                    self.0 = &text[index + 1..];
                    return Ok(Some(value));
                }
                other => value.push(other),
            }
        }
        Err("a quote is not closed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_are_found_however_they_are_quoted() {
        let login = |text: &str| parse(text).map(|l| (l.user, l.password.expose().to_owned()));
        let pair = |user: &str, password: &str| Ok((user.to_owned(), password.to_owned()));
        assert_eq!(
            login(
                "org.apache.kafka.common.security.scram.ScramLoginModule required \
                 username=\"relay\" password=\"s3;\\\"cret\";"
            ),
            pair("relay", "s3;\"cret")
        );
        assert_eq!(
            login("x.PlainLoginModule required\n  password='a=b'\n  username=u serviceName = k ;"),
            pair("u", "a=b")
        );
    }

    #[test]
    fn faults_do_not_show_the_password() {
        for (text, expected) in [
            (
                "x.ScramLoginModule required password=\"hunter2\";",
                "has no username",
            ),
            (
                "x.ScramLoginModule required username=u password=\"hunter2",
                "a quote is not closed",
            ),
            (
                "x.OAuthBearerLoginModule required a=\"hunter2\";",
                "login module OAuthBearerLoginModule is not supported; PlainLoginModule and ScramLoginModule are",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected);
        }
    }
}
