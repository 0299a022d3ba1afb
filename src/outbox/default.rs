//! Column defaults: what Debezium publishes where a nullable column is NULL.

use super::catalog::{TypeCatalog, TypeKind};
use super::oid;
use super::read::Source;
use super::schema::Kind;
use super::types::ColumnType;
use super::value::Value;

/// The default as Debezium 3.6.1 reads it from the catalog's expression: the first quoted text or
/// the bare word, for a function a fixed value of the type (an empty text, 0, 1970), for
/// everything else none.
pub(crate) fn default_value(
    expression: &str,
    type_oid: u32,
    column: &ColumnType,
    catalog: &TypeCatalog,
) -> Option<Value<'static>> {
    let text = match catalog.get_type(type_oid).map(|found| &found.kind) {
        Some(TypeKind::Enum { .. }) => enum_label(expression)?,
        _ => {
            let placeholder = placeholder(type_oid)?;
            if is_function(expression) {
                placeholder
            } else {
                literal(expression)?
            }
        }
    };
    let value = match type_oid {
        oid::BOOL => Value::Bool(text.eq_ignore_ascii_case("true")),
        _ => column.read(text, Source::Snapshot).ok()?,
    };
    // A struct cannot be a default in Connect (KAFKA-12694).
    (!matches!(column.schema.kind, Kind::Struct(_)) && !value.is_null()).then(|| value.into_owned())
}

/// What stands for a function's result. Types without one have no defaults in Debezium.
const fn placeholder(type_oid: u32) -> Option<&'static str> {
    Some(match type_oid {
        oid::BIT => "00",
        oid::VARBIT | oid::INT2 | oid::INT4 | oid::INT8 => "0",
        oid::BOOL => "false",
        oid::BPCHAR | oid::VARCHAR | oid::TEXT | oid::XML => "",
        oid::NUMERIC | oid::FLOAT4 | oid::FLOAT8 => "0.0",
        oid::JSON | oid::JSONB => "{}",
        oid::UUID => "00000000-0000-0000-0000-000000000000",
        oid::DATE => "1970-01-01",
        oid::TIME => "00:00:00",
        oid::TIMESTAMP => "1970-01-01 00:00:00",
        oid::TIMESTAMPTZ => "1970-01-01 00:00:00+00",
        oid::INTERVAL => "00:00:00",
        _ => return None,
    })
}

/// `name(…)`, perhaps in a parenthesis, or one of SQL's words for the time.
fn is_function(expression: &str) -> bool {
    let text = expression.strip_prefix('(').unwrap_or(expression);
    let name_end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
        .unwrap_or(text.len());
    let call = name_end > 0 && text[name_end..].starts_with('(') && text[name_end..].contains(')');
    call || [
        "current_timestamp",
        "current_time",
        "current_date",
        "localtime",
        "localtimestamp",
    ]
    .contains(&expression.to_ascii_lowercase().as_str())
}

fn literal(expression: &str) -> Option<&str> {
    match expression.split_once('\'') {
        Some((_, quoted)) => quoted.split_once('\'').map(|(literal, _)| literal),
        None => (!expression.starts_with("NULL::")).then_some(expression.trim()),
    }
}

fn enum_label(expression: &str) -> Option<&str> {
    let (label, _) = expression.rsplit_once("::")?;
    label.strip_prefix('\'')?.strip_suffix('\'')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{CatalogType, TypeOptions};

    const ENUM: u32 = 20_000;
    const DOMAIN: u32 = 20_001;

    fn default(type_oid: u32, modifier: i32, expression: &str) -> Option<Value<'static>> {
        let mut catalog = TypeCatalog::default();
        let labels = vec!["sad".to_owned()];
        for (oid, name, kind) in [
            (ENUM, "mood", TypeKind::Enum { labels }),
            (
                DOMAIN,
                "d",
                TypeKind::Domain {
                    base: oid::INT4,
                    type_modifier: -1,
                },
            ),
        ] {
            let name = name.to_owned();
            catalog.add_type(oid, CatalogType { name, kind });
        }
        let options = TypeOptions::default();
        let column = ColumnType::of(type_oid, modifier, &catalog, &options).unwrap();
        default_value(expression, type_oid, &column, &catalog)
    }

    #[test]
    fn literals_are_the_default() {
        let text = |text: &'static str| Some(Value::text(text));
        let none = -1;
        assert_eq!(default(oid::TEXT, none, "'x'::text"), text("x"));
        assert_eq!(default(oid::TEXT, none, "'x''y'::text"), text("x"));
        assert_eq!(
            default(oid::TEXT, none, "('a'::text || 'b'::text)"),
            text("a")
        );
        assert_eq!(
            default(oid::INT4, none, "'-5'::integer"),
            Some(Value::Int(-5))
        );
        assert_eq!(default(oid::BOOL, none, "true"), Some(Value::Bool(true)));
        assert_eq!(
            default(oid::DATE, none, "'2020-01-02'::date"),
            Some(Value::Int(18_263))
        );
        assert_eq!(
            default(oid::INTERVAL, none, "'1 day'::interval"),
            Some(Value::Int(86_400_000_000))
        );
        assert_eq!(default(ENUM, none, "'sad'::mood"), text("sad"));
        assert_eq!(
            default(oid::BIT, 3, "'101'::\"bit\""),
            Some(Value::Bytes(vec![5]))
        );
    }

    #[test]
    fn functions_have_a_fixed_value_of_their_type() {
        let text = |text: &'static str| Some(Value::text(text));
        assert_eq!(default(oid::TEXT, -1, "upper('a'::text)"), text(""));
        assert_eq!(
            default(oid::INT8, -1, "nextval('s'::regclass)"),
            Some(Value::Int(0))
        );
        assert_eq!(
            default(oid::TIMESTAMPTZ, -1, "now()"),
            text("1970-01-01T00:00:00.000000Z")
        );
        assert_eq!(default(oid::DATE, -1, "CURRENT_DATE"), Some(Value::Int(0)));
        assert_eq!(
            default(oid::UUID, -1, "gen_random_uuid()"),
            text("00000000-0000-0000-0000-000000000000")
        );
    }

    #[test]
    fn everything_else_has_none() {
        for (type_oid, expression) in [
            (oid::TEXT, "NULL::text"),
            (oid::INT4, "(1 + 2)"),
            (oid::INT4, "NULL::integer"),
            (oid::BYTEA, "'\\x00'::bytea"),
            (oid::NUMERIC, "1.50"),
            (oid::POINT, "'(1,2)'::point"),
            (DOMAIN, "3"),
            (1009, "'{a}'::text[]"),
        ] {
            assert_eq!(default(type_oid, -1, expression), None, "{expression}");
        }
    }
}
