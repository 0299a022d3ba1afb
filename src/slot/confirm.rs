//! Nobody gives a slot up by a key that was pressed too often.

use std::io::{BufRead, IsTerminal, Write};

use crate::observe::Problem;

/// `yes` is the name on the command line; without it the name is asked for, where somebody can
/// answer.
pub(super) async fn confirm(name: &str, yes: Option<&str>, what: &str) -> Result<(), Problem> {
    let answer = match yes {
        Some(yes) => Some(yes.to_owned()),
        None if std::io::stdin().is_terminal() => {
            let mut terminal = std::io::stderr();
            let asked = write!(terminal, "Type the slot's name to {what}: ");
            asked.and_then(|()| terminal.flush()).map_err(unheard)?;
            // On a thread of its own: a signal is heard while somebody thinks.
            let typed = tokio::task::spawn_blocking(typed);
            let typed = typed.await.map_err(std::io::Error::other);
            Some(typed.flatten().map_err(unheard)?)
        }
        None => None,
    };
    decide(name, answer.as_deref())
}

/// One line without its end, which is no part of an answer.
fn typed() -> std::io::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn unheard(error: std::io::Error) -> Problem {
    Problem::new(format!("the answer cannot be read: {error}"))
}

fn decide(name: &str, answer: Option<&str>) -> Result<(), Problem> {
    let problem = |message: String, hint: String| Problem {
        hint: Some(hint),
        ..Problem::new(message)
    };
    match answer {
        Some(answer) if answer == name => Ok(()),
        Some(_) => Err(problem(
            "not confirmed: that is not the slot's name, and nothing was done".to_owned(),
            format!("The slot is named {name}."),
        )),
        None => Err(problem(
            "not confirmed: standard input is no terminal, and nothing was done".to_owned(),
            format!("Confirm it on the command line: --yes {name}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_slots_own_name_confirms() {
        assert_eq!(decide("outbox", Some("outbox")), Ok(()));
        for answer in [
            "", "y", "yes", "Outbox", "outbox2", "outbox ", " outbox", "outbox\n",
        ] {
            let refused = decide("outbox", Some(answer)).unwrap_err();
            assert_eq!(refused.hint.as_deref(), Some("The slot is named outbox."));
        }
        let refused = decide("outbox", None).unwrap_err();
        let hint = "Confirm it on the command line: --yes outbox";
        assert_eq!(refused.hint.as_deref(), Some(hint));
    }
}
