//! One message: a tag, a length that counts itself, a body.

use crate::reader::{Fault, ReadError, Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub tag: u8,
    pub body: &'a [u8],
}

impl Frame<'_> {
    const HEAD_BYTES: usize = 5;

    /// The frame's place in the buffer, head included.
    pub fn length_bytes(&self) -> usize {
        Self::HEAD_BYTES + self.body.len()
    }
}

/// A value can have 1 GiB and a row a little more; anything above is not a length.
pub const SESSION_LIMIT_BYTES: usize = 0x5000_0000;
/// Before the login is through nothing long is said, and nobody is to be believed yet.
pub const LOGIN_LIMIT_BYTES: usize = 0x1_0000;

/// The frame at the front of the buffer; `None` while bytes are missing. A body above the limit is
/// an error as soon as its length is there.
pub fn split(buffer: &[u8], limit_bytes: usize) -> Result<Option<Frame<'_>>, ReadError> {
    let Some((head, rest)) = buffer.split_first_chunk::<{ Frame::HEAD_BYTES }>() else {
        return Ok(None);
    };
    let [tag, length @ ..] = *head;
    let length = i32::from_be_bytes(length);
    let fault = |fault| Reader::new("frame", rest).fail("length", fault);
    let Ok(length_bytes) = usize::try_from(i64::from(length) - 4) else {
        return Err(fault(Fault::Negative { found: length }));
    };
    if length_bytes > limit_bytes {
        return Err(fault(Fault::TooLarge {
            limit: limit_bytes,
            found: length_bytes,
        }));
    }
    Ok(rest.get(..length_bytes).map(|body| Frame { tag, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_whole_frame_and_leaves_what_follows() {
        let bytes = b"Z\0\0\0\x05IZ";
        for missing in 0..6 {
            assert_eq!(split(&bytes[..missing], 1), Ok(None));
        }
        let frame = Frame {
            tag: b'Z',
            body: b"I",
        };
        assert_eq!(split(bytes, 1), Ok(Some(frame)));
        assert_eq!(frame.length_bytes(), 6);
    }

    #[test]
    fn a_length_that_cannot_be_is_an_error_at_once() {
        for (length, message) in [
            (3_i32, "frame: length: expected a length, found 3"),
            (-1, "frame: length: expected a length, found -1"),
            (
                i32::MAX,
                "frame: length: expected at most 1342177280 bytes, found 2147483643",
            ),
        ] {
            let mut bytes = vec![b'd'];
            bytes.extend(length.to_be_bytes());
            assert_eq!(
                split(&bytes, SESSION_LIMIT_BYTES).unwrap_err().to_string(),
                message
            );
        }
    }
}
