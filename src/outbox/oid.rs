//! Built-in types by their fixed oid (`pg_type.dat` in PostgreSQL's source).

pub(super) const BOOL: u32 = 16;
pub(super) const BYTEA: u32 = 17;
pub(super) const CHAR: u32 = 18;
pub(super) const NAME: u32 = 19;
pub(super) const INT8: u32 = 20;
pub(super) const INT2: u32 = 21;
pub(super) const INT4: u32 = 23;
pub(super) const TEXT: u32 = 25;
pub(super) const OID: u32 = 26;
pub(super) const JSON: u32 = 114;
pub(super) const XML: u32 = 142;
pub(super) const POINT: u32 = 600;
pub(super) const FLOAT4: u32 = 700;
pub(super) const FLOAT8: u32 = 701;
pub(super) const MONEY: u32 = 790;
pub(super) const BPCHAR: u32 = 1042;
pub(super) const VARCHAR: u32 = 1043;
pub(super) const DATE: u32 = 1082;
pub(super) const TIME: u32 = 1083;
pub(super) const TIMESTAMP: u32 = 1114;
pub(super) const TIMESTAMPTZ: u32 = 1184;
pub(super) const INTERVAL: u32 = 1186;
pub(super) const TIMETZ: u32 = 1266;
pub(super) const BIT: u32 = 1560;
pub(super) const VARBIT: u32 = 1562;
pub(super) const NUMERIC: u32 = 1700;
pub(super) const UUID: u32 = 2950;
pub(super) const TSVECTOR: u32 = 3614;
pub(super) const JSONB: u32 = 3802;
/// box, lseg, path, polygon, line, circle: pgjdbc prints their numbers as Java does.
pub(super) const GEOMETRIC: [u32; 6] = [601, 602, 603, 604, 628, 718];
/// inet, cidr, macaddr, macaddr8 and the six built-in ranges.
pub(super) const PLAIN_TEXT: [u32; 10] = [869, 650, 829, 774, 3904, 3906, 3908, 3910, 3912, 3926];
/// The first type that a user can make.
pub(super) const FIRST_NORMAL: u32 = 16_384;

/// Element types of the built-in arrays that Debezium reads, and of bit and varbit.
pub(super) const ARRAYS: [(u32, u32); 31] = [
    (1000, BOOL),
    (1001, BYTEA),
    (1002, CHAR),
    (1005, INT2),
    (1007, INT4),
    (1009, TEXT),
    (1014, BPCHAR),
    (1015, VARCHAR),
    (1016, INT8),
    (1021, FLOAT4),
    (1022, FLOAT8),
    (1028, OID),
    (1041, 869),
    (651, 650),
    (1040, 829),
    (775, 774),
    (1115, TIMESTAMP),
    (1182, DATE),
    (1183, TIME),
    (1185, TIMESTAMPTZ),
    (1231, NUMERIC),
    (1270, TIMETZ),
    (2951, UUID),
    (199, JSON),
    (3807, JSONB),
    (3905, 3904),
    (3907, 3906),
    (3909, 3908),
    (3911, 3910),
    (3913, 3912),
    (3927, 3926),
];
/// bit[]: the column is in the event and always null.
pub(super) const BIT_ARRAY: u32 = 1561;
