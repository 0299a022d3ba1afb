//! `transforms` and `predicates`: the Event Router, alone, and for the outbox table only.

use super::Out;
use super::file::Properties;
use crate::config::{Fault, Note};
use crate::java::Pattern;

/// The Event Router among the transforms.
pub(super) struct Router {
    /// `transforms.NAME.`
    pub(super) prefix: String,
}

const CLASS: &str = "io.debezium.transforms.outbox.EventRouter";

/// Tells a fault for every transform that is not the router.
pub(super) fn find_router(connector: &Properties, out: &mut Out<'_>) -> Option<Router> {
    let mut router = None;
    let mut others = false;
    let names = connector.get("transforms").unwrap_or("");
    for name in names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let prefix = format!("transforms.{name}.");
        let fault = match connector.get(&format!("{prefix}type")) {
            Some(CLASS) if router.is_none() => {
                router = Some(Router { prefix });
                continue;
            }
            Some(CLASS) => Fault::new(
                connector.place("transforms"),
                format!("\"{name}\" is a second Event Router"),
            ),
            Some(class) => Fault::new(
                connector.place("transforms"),
                format!("transform \"{name}\" ({class}) is not supported"),
            )
            .hint("The Event Router has to be the only transform."),
            None => Fault::new(
                connector.place("transforms"),
                format!("transform \"{name}\" has no type"),
            )
            .hint(format!("Set {prefix}type.")),
        };
        others = true;
        out.faults.push(fault);
    }
    if router.is_none() && !others {
        let file = connector.path.display().to_string();
        let fault = Fault::new(file, "no transform is the outbox Event Router")
            .detail("outboxd publishes outbox tables only, not changes of any table.")
            .hint(format!("Set transforms=outbox and transforms.outbox.type={CLASS}, or keep Debezium for this connector."));
        out.faults.push(fault);
    }
    router
}

/// A predicate that lets the outbox table's events through is the same as none; others are refused.
pub(super) fn apply_predicate(connector: &Properties, router: &Router, out: &mut Out<'_>) {
    let property = format!("{}predicate", router.prefix);
    let Some(name) = connector
        .get(&property)
        .map(str::trim)
        .filter(|name| !name.is_empty())
    else {
        return;
    };
    let negated = connector.is_true(&format!("{}negate", router.prefix));
    let type_name = format!("predicates.{name}.type");
    let class = connector.get(&type_name).unwrap_or("");
    let fault = match class.rsplit('.').next().unwrap_or("") {
        "" => Fault::new(
            connector.place(&property),
            format!("predicate \"{name}\" has no type"),
        )
        .hint(format!("Set {type_name}.")),
        "TopicNameMatches" => match narrow(connector, name, negated, out) {
            Ok(()) => return,
            Err(fault) => fault,
        },
        // Tombstones never reach the router's output either way.
        "RecordIsTombstone" if negated => return,
        _ => Fault::new(
            connector.place(&type_name),
            format!("predicate {class} is not supported"),
        )
        .hint("TopicNameMatches is, and RecordIsTombstone negated."),
    };
    out.faults.push(fault);
}

/// Leaves those tables in the list whose topic the predicate takes.
fn narrow(
    connector: &Properties,
    name: &str,
    negated: bool,
    out: &mut Out<'_>,
) -> Result<(), Fault> {
    let property = format!("predicates.{name}.pattern");
    let place = connector.place(&property);
    let pattern = connector.get(&property).unwrap_or("");
    let regex = Pattern::new(pattern).map_err(|error| Fault::new(&place, error.to_string()))?;
    let prefix = connector
        .get("topic.prefix")
        .or_else(|| connector.get("database.server.name"))
        .unwrap_or("");
    let (list, list_name) = match connector.get("table.include.list") {
        Some(list) => (list, "table.include.list"),
        None => (
            connector.get("table.whitelist").unwrap_or(""),
            "table.whitelist",
        ),
    };
    let mut kept = Vec::new();
    for item in list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let table = literal(item).ok_or_else(|| {
            Fault::new(
                &place,
                format!("whether it takes \"{item}\" of {list_name} cannot be told"),
            )
            .hint(format!("Name the outbox table itself in {list_name}."))
        })?;
        let topic = format!("{prefix}.{table}");
        if regex.matches(&topic) != negated {
            kept.push(item);
        } else {
            let message = format!(
                "events of \"{table}\" do not reach the Event Router and are not published"
            );
            out.notes.push(Note::warning(&place, message));
        }
    }
    if kept.is_empty() {
        let message = format!("\"{pattern}\" takes the topic of no table in {list_name}");
        return Err(Fault::new(&place, message).detail(format!(
            "The topic of a table is {prefix}.SCHEMA.TABLE here."
        )));
    }
    out.settings.set(
        "outbox.tables_include",
        kept.join(","),
        connector.origin(list_name),
    );
    Ok(())
}

/// The name that a regular expression means, where it means one: `public\.outbox`, and the dot
/// that people leave bare.
fn literal(pattern: &str) -> Option<String> {
    let mut name = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => name.push(characters.next().filter(|next| !next.is_alphanumeric())?),
            '.' => name.push('.'),
            '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            other => name.push(other),
        }
    }
    // `a.*` was caught above; a bare dot before nothing special is a dot to everybody.
    Some(name)
}
