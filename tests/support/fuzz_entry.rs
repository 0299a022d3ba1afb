//! What must hold for any bytes: the entry of the fuzz targets and of the seeded run.

use outboxd::pgoutput::{self, DecodeError};
use outboxd::wire::{self, Backend, CopyMessage};

use super::pgoutput_encoder::encode;

/// A message is refused in words, or it is exactly what its values encode to: nothing was read past
/// the end, left out or taken for something else.
pub fn pgoutput(body: &[u8]) {
    match pgoutput::decode(body) {
        Ok(message) => {
            let encoded = encode(&message);
            // The server's own catalog has two spellings; only the empty one is ever sent.
            if encoded != body {
                assert!(body.windows(11).any(|name| name == b"pg_catalog\0"));
                let again = pgoutput::decode(&encoded).unwrap();
                assert_eq!(encode(&again), encoded);
            }
        }
        Err(DecodeError::Malformed(error)) => {
            assert!(error.to_string().starts_with("pgoutput"));
        }
        Err(DecodeError::UnknownRelation { .. }) => {
            panic!("a message alone knows of no relations")
        }
    }
}

/// Frames are cut where their lengths say, one after the other, and each is read or refused.
pub fn frame(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        match wire::split(rest, wire::SESSION_LIMIT_BYTES) {
            Ok(Some(frame)) => {
                let end = frame.length_bytes();
                assert_eq!(frame.tag, rest[0]);
                assert_eq!(frame.body, &rest[5..end]);
                assert_eq!(
                    wire::split(&rest[..end - 1], wire::SESSION_LIMIT_BYTES),
                    Ok(None),
                    "the frame is whole"
                );
                backend(frame.tag, frame.body);
                rest = &rest[end..];
            }
            Ok(None) => return,
            Err(error) => {
                assert!(error.to_string().starts_with("frame: length: "));
                return;
            }
        }
    }
}

fn backend(tag: u8, body: &[u8]) {
    match Backend::read(tag, body) {
        Ok(Backend::CopyData(data)) => match CopyMessage::read(data) {
            Ok(CopyMessage::XLogData { body, .. }) => {
                assert!(data.ends_with(body));
                pgoutput(body);
            }
            Ok(CopyMessage::Keepalive { .. }) => assert_eq!(data.len(), 18),
            Err(error) => assert!(!error.to_string().is_empty()),
        },
        Ok(Backend::DataRow(columns)) => {
            let lengths = columns.iter().map(|column| column.map_or(0, <[u8]>::len));
            assert_eq!(2 + 4 * columns.len() + lengths.sum::<usize>(), body.len());
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
