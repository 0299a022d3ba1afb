//! The one object that Kafka Connect writes with Java's serialization: a standalone worker's
//! `HashMap<byte[], byte[]>` of offsets. (Java Object Serialization Specification, version 5; seen
//! with JDK 17.)

use std::fmt;

/// The entries as they stand in the file. A value may be null.
pub type ByteMap = Vec<(Option<Vec<u8>>, Option<Vec<u8>>)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SerializedError {
    Short {
        at: usize,
    },
    Unexpected {
        at: usize,
        expected: &'static str,
    },
    /// Bytes behind the map.
    Trailing {
        at: usize,
    },
}

const HEADER: &[u8] = &[0xAC, 0xED, 0x00, 0x05];
/// An object of a class that is described here: HashMap, its serial version, its two fields.
const HASH_MAP: &[u8] = b"sr\x00\x11java.util.HashMap\x05\x07\xDA\xC1\xC3\x16\x60\xD1\x03\x00\x02\
    F\x00\x0AloadFactorI\x00\x09thresholdxp";
/// Load factor and threshold.
const FIELDS_BYTES: usize = 8;
/// A block of eight bytes: the buckets and the number of entries.
const BLOCK: &[u8] = &[0x77, 0x08];
const BUCKETS_BYTES: usize = 4;
/// `byte[]`, where it is met first.
const BYTE_ARRAY_CLASS: &[u8] = b"r\x00\x02[B\xAC\xF3\x17\xF8\x06\x08\x54\xE0\x02\x00\x00xp";
const NULL: u8 = 0x70;
const REFERENCE: u8 = 0x71;
const ARRAY: u8 = 0x75;
const END: u8 = 0x78;
/// The first number that a reference can have.
const FIRST_HANDLE: u32 = 0x7E_0000;
/// After those of the map's class and of the map.
const BYTE_ARRAY_HANDLE: u32 = FIRST_HANDLE + 2;

/// Reads such a file. What is claimed to be longer than the file is refused before room is made.
pub fn read_byte_map(bytes: &[u8]) -> Result<ByteMap, SerializedError> {
    let mut cursor = Cursor { bytes, at: 0 };
    cursor.expect(HEADER, "the header of a Java object")?;
    cursor.expect(HASH_MAP, "a HashMap")?;
    cursor.take(FIELDS_BYTES)?;
    cursor.expect(BLOCK, "the size of the HashMap")?;
    cursor.take(BUCKETS_BYTES)?;
    let count = cursor.u32()?;
    let mut arrays = Arrays::default();
    let mut map = ByteMap::new();
    for _ in 0..count {
        map.push((cursor.array(&mut arrays)?, cursor.array(&mut arrays)?));
    }
    cursor.expect(&[END], "the end of the HashMap")?;
    if cursor.at < bytes.len() {
        return Err(SerializedError::Trailing { at: cursor.at });
    }
    Ok(map)
}

/// Those that were read: one that occurs again is written as a reference.
#[derive(Default)]
struct Arrays {
    class_is_known: bool,
    read: Vec<Vec<u8>>,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], SerializedError> {
        let short = SerializedError::Short { at: self.at };
        let end = self.at.checked_add(count).ok_or_else(|| short.clone())?;
        let taken = self.bytes.get(self.at..end).ok_or(short)?;
        self.at = end;
        Ok(taken)
    }

    fn expect(&mut self, wanted: &[u8], expected: &'static str) -> Result<(), SerializedError> {
        let at = self.at;
        if self.take(wanted.len())? == wanted {
            return Ok(());
        }
        Err(SerializedError::Unexpected { at, expected })
    }

    fn u32(&mut self) -> Result<u32, SerializedError> {
        let bytes = self.take(4)?;
        let number = bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        Ok(number)
    }

    fn array(&mut self, arrays: &mut Arrays) -> Result<Option<Vec<u8>>, SerializedError> {
        let at = self.at;
        let unexpected = |expected| SerializedError::Unexpected { at, expected };
        match self.take(1)? {
            [NULL] => Ok(None),
            [REFERENCE] => {
                let first = BYTE_ARRAY_HANDLE + 1;
                let index = self.u32()?.checked_sub(first).map(|index| index as usize);
                let array = index.and_then(|index| arrays.read.get(index));
                let array = array.ok_or_else(|| unexpected("an array that was read before"))?;
                Ok(Some(array.clone()))
            }
            [ARRAY] => {
                self.array_class(arrays)?;
                let length = self.u32()? as usize;
                let array = self.take(length)?.to_vec();
                arrays.read.push(array.clone());
                Ok(Some(array))
            }
            _ => Err(unexpected("a byte array")),
        }
    }

    fn array_class(&mut self, arrays: &mut Arrays) -> Result<(), SerializedError> {
        if !arrays.class_is_known {
            arrays.class_is_known = true;
            return self.expect(BYTE_ARRAY_CLASS, "the class of byte arrays");
        }
        let [a, b, c, d] = BYTE_ARRAY_HANDLE.to_be_bytes();
        self.expect(&[REFERENCE, a, b, c, d], "the class of byte arrays")
    }
}

impl fmt::Display for SerializedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { at } => write!(f, "it ends too early, at byte {at}"),
            Self::Unexpected { at, expected } => {
                write!(f, "it does not have {expected} at byte {at}")
            }
            Self::Trailing { at } => write!(f, "something follows at byte {at}"),
        }
    }
}

impl std::error::Error for SerializedError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by JDK 17: two entries, one with a null value, one with its key as its value.
    const FILE: &[u8] = include_bytes!("../../tests/data/connect/offsets.ser");

    fn text(bytes: &Option<Vec<u8>>) -> Option<&str> {
        bytes
            .as_deref()
            .map(|bytes| std::str::from_utf8(bytes).unwrap())
    }

    #[test]
    fn what_java_has_written_is_read() {
        let map = read_byte_map(FILE).unwrap();
        let mut texts: Vec<_> = map.iter().map(|(k, v)| (text(k), text(v))).collect();
        texts.sort_unstable();
        let key = r#"["shop",{"server":"prefix"}]"#;
        let expected = [
            (Some(key), Some(r#"{"lsn":26384752}"#)),
            (Some("gone"), None),
            (Some("same"), Some("same")),
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_anywhere_is_refused_or_read_within_its_bounds() {
        for end in 0..FILE.len() {
            assert!(read_byte_map(&FILE[..end]).is_err(), "cut at {end}");
        }
        for at in 0..FILE.len() {
            for byte in [0, 1, 0x70, 0x71, 0x75, 0x7F, 0xFF] {
                let mut damaged = FILE.to_vec();
                damaged[at] = byte;
                if let Ok(map) = read_byte_map(&damaged) {
                    assert!(map.len() <= FILE.len());
                }
            }
        }
        let mut longer = FILE.to_vec();
        longer.push(0);
        let at = FILE.len();
        assert_eq!(
            read_byte_map(&longer),
            Err(SerializedError::Trailing { at })
        );
    }
}
