//! Values that a column could hold, for a row that nobody has inserted yet.

use super::catalog::{TypeCatalog, TypeKind};
use super::oid;
use super::types::{Base, element, root};

/// A text of this type as PostgreSQL prints it: `wish` itself where the type takes any text, as long
/// as it allows. `None` where nothing but NULL is certain.
pub fn plausible_text(
    oid: u32,
    modifier: i32,
    catalog: &TypeCatalog,
    wish: &str,
) -> Option<String> {
    let Base { oid, modifier } = root(Base { oid, modifier }, catalog)?;
    if element(oid, catalog).is_some() {
        return Some("{}".to_owned());
    }
    if oid < oid::FIRST_NORMAL {
        return builtin(oid, modifier, wish);
    }
    let found = catalog.get_type(oid)?;
    match (&found.kind, found.name.as_str()) {
        (TypeKind::Enum { labels }, _) => labels.first().cloned(),
        (TypeKind::Base, "citext") => Some(wish.to_owned()),
        (TypeKind::Base, "ltree") => Some("a.b".to_owned()),
        (TypeKind::Base, "hstore") => Some(String::new()),
        _ => None,
    }
}

fn builtin(oid: u32, modifier: i32, wish: &str) -> Option<String> {
    let text = match oid {
        oid::TEXT | oid::NAME | oid::XML | oid::TSVECTOR => wish,
        oid::VARCHAR | oid::BPCHAR | oid::CHAR => return Some(sized(oid, modifier, wish)),
        oid::JSON | oid::JSONB if wish.starts_with('{') => wish,
        oid::JSON | oid::JSONB => "{}",
        oid::BOOL => "t",
        oid::INT2 | oid::INT4 | oid::INT8 | oid::OID => "1",
        oid::FLOAT4 | oid::FLOAT8 => "1.5",
        oid::NUMERIC => return Some(zero(modifier)),
        oid::MONEY => "$1.00",
        oid::BYTEA => "\\x00",
        oid::BIT => return Some("1".repeat(usize::try_from(modifier).unwrap_or(1))),
        oid::VARBIT => "1",
        oid::DATE => "2026-01-02",
        oid::TIME => "03:04:05",
        oid::TIMETZ => "03:04:05+00",
        oid::TIMESTAMP => "2026-01-02 03:04:05",
        oid::TIMESTAMPTZ => "2026-01-02 03:04:05+00",
        oid::INTERVAL => "01:02:03",
        oid::UUID => "00000000-0000-4000-8000-000000000000",
        oid::POINT => "(1,2)",
        _ => return None,
    };
    Some(text.to_owned())
}

/// The modifier of character types is 4 more than their length.
fn sized(oid: u32, modifier: i32, wish: &str) -> String {
    let length = match oid {
        oid::CHAR => Some(1),
        _ => usize::try_from(modifier)
            .ok()
            .and_then(|packed| packed.checked_sub(4)),
    };
    let Some(length) = length else {
        return wish.to_owned();
    };
    let text: String = wish.chars().take(length).collect();
    match oid {
        // Blanks fill it up.
        oid::BPCHAR => format!("{text:<length$}"),
        _ => text,
    }
}

/// A zero fits whatever the precision.
fn zero(modifier: i32) -> String {
    match usize::try_from(modifier)
        .ok()
        .and_then(|packed| packed.checked_sub(4))
    {
        Some(packed) => format!("{:.*}", packed & 0xFFFF, 0.0),
        None => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{CatalogType, ColumnType, Source, TypeOptions};

    #[test]
    fn what_is_made_up_reads_as_a_value_of_its_type() {
        let mut catalog = TypeCatalog::default();
        let mut add = |oid, name: &str, kind| {
            let name = name.to_owned();
            catalog.add_type(oid, CatalogType { name, kind });
        };
        let labels = vec!["order".to_owned(), "customer".to_owned()];
        add(20_000, "kind", TypeKind::Enum { labels });
        add(
            20_001,
            "short",
            TypeKind::Domain {
                base: oid::VARCHAR,
                type_modifier: 7,
            },
        );
        add(20_002, "shape", TypeKind::Other);
        let made = |oid, modifier| plausible_text(oid, modifier, &catalog, "order");
        for (oid, modifier, expected) in [
            (oid::TEXT, -1, Some("order")),
            (oid::VARCHAR, 7, Some("ord")),
            (oid::BPCHAR, 12, Some("order   ")),
            (oid::CHAR, -1, Some("o")),
            (oid::NUMERIC, (3 << 16 | 2) + 4, Some("0.00")),
            (oid::NUMERIC, -1, Some("0")),
            (oid::BIT, 3, Some("111")),
            (oid::JSONB, -1, Some("{}")),
            (1009, -1, Some("{}")),
            (20_000, -1, Some("order")),
            (20_001, -1, Some("ord")),
            (20_002, -1, None),
        ] {
            assert_eq!(made(oid, modifier).as_deref(), expected, "{oid}");
        }
        for oid in 16..4_000 {
            let column = ColumnType::of(oid, -1, &catalog, &TypeOptions::default());
            if let (Some(column), Some(text)) = (column, made(oid, -1)) {
                let read = column.read(&text, Source::Stream);
                assert!(read.is_ok(), "{oid}: {text}: {read:?}");
            }
        }
    }
}
