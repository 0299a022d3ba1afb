//! What is said of the SQL that the operator gives to choose rows.

use crate::wire::OneLine;

/// Options of the command line that are SQL.
pub(super) const WHERE: &str = "--where";
pub(super) const ORDER_BY: &str = "--order-by";

/// How much of a text is shown from the place on that the server names.
const SHOWN_CHARS: usize = 40;

pub(super) fn place_in(text: &str, at: usize) -> String {
    let rest: String = text.chars().skip(at.saturating_sub(1)).collect();
    if rest.trim().is_empty() {
        return format!("At its end, behind \"{}\".", OneLine(text));
    }
    let shown: String = rest.chars().take(SHOWN_CHARS).collect();
    let more = if rest.chars().count() > SHOWN_CHARS {
        "…"
    } else {
        ""
    };
    format!("At character {at}: \"{}{more}\".", OneLine(&shown))
}

pub(super) fn of_selection(option: &str) -> String {
    let place = match option {
        WHERE => " behind WHERE",
        _ => " behind ORDER BY",
    };
    format!(
        "{option} takes what stands in a SELECT of the outbox table{place}; quote it for the shell."
    )
}
