//! Codes of PostgreSQL's manual, appendix A.

pub const PROTOCOL_VIOLATION: &str = "08P01";
pub const INVALID_CATALOG_NAME: &str = "3D000";
pub const UNDEFINED_OBJECT: &str = "42704";
pub const DUPLICATE_OBJECT: &str = "42710";
pub const OBJECT_IN_USE: &str = "55006";
pub const OBJECT_NOT_IN_PREREQUISITE_STATE: &str = "55000";
pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
pub const LOCK_NOT_AVAILABLE: &str = "55P03";
pub const QUERY_CANCELED: &str = "57014";
pub const CANNOT_CONNECT_NOW: &str = "57P03";

/// The condition that a code names, or that its class does: what can be said of an error whose text
/// may quote a row's values.
pub fn meaning(code: &str) -> &'static str {
    match code {
        "22P02" => "invalid text representation",
        "22P05" => "untranslatable character",
        "23502" => "not-null violation",
        "23503" => "foreign key violation",
        "23505" => "unique violation",
        "23514" => "check violation",
        "25006" => "read-only transaction",
        "25P03" => "idle-in-transaction timeout",
        "25P04" => "transaction timeout",
        "40001" => "serialization failure",
        "40P01" => "deadlock detected",
        INSUFFICIENT_PRIVILEGE => "insufficient privilege",
        "42601" => "syntax error",
        "42703" => "undefined column",
        "42883" => "undefined function",
        "42P01" => "undefined table",
        "53100" => "disk full",
        "53200" => "out of memory",
        "53300" => "too many connections",
        LOCK_NOT_AVAILABLE => "lock not available",
        QUERY_CANCELED => "query canceled",
        "57P01" => "the server ends the session (admin shutdown)",
        "57P02" => "the server ends the session after a crash",
        CANNOT_CONNECT_NOW => "the server starts or stops",
        "57P05" => "idle-session timeout",
        "58030" => "I/O error",
        _ => class(code),
    }
}

fn class(code: &str) -> &'static str {
    match code.get(..2) {
        Some("08") => "connection exception",
        Some("0A") => "feature not supported",
        Some("21") => "cardinality violation",
        Some("22") => "data exception",
        Some("23") => "integrity constraint violation",
        Some("25") => "invalid transaction state",
        Some("28") => "invalid authorization",
        Some("2F") => "SQL routine exception",
        Some("38") => "external routine exception",
        Some("39") => "external routine invocation exception",
        Some("40") => "transaction rollback",
        Some("42") => "syntax error or access rule violation",
        Some("53") => "insufficient resources",
        Some("54") => "program limit exceeded",
        Some("55") => "object not in prerequisite state",
        Some("57") => "operator intervention",
        Some("58") => "system error",
        Some("P0") => "PL/pgSQL error",
        Some("XX") => "internal error",
        _ => "error",
    }
}

/// Whether it tells of the server and not of what a query computes, where the server says it: a
/// function can say it, too.
pub fn concerns_the_server(code: &str) -> bool {
    let classes = ["08", "40", "53", "57", "58"];
    code.get(..2).is_some_and(|class| classes.contains(&class))
}
