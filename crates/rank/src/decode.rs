//! Everything that bytes from the network go through before work begins, for the fuzzer and for tests.

use steelyard_thrift::FrameBuffer;

use crate::compression::{Compression, Packer};
use crate::leaf::Leaf;
use crate::messages::{BLOB_BYTES_MAX, Blob, read_results};
use crate::net::serve::parse;
use crate::root::Root;

/// Takes bytes as a root, a leaf and a root's side towards its leaves would; how many calls were understood.
pub fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut frames = FrameBuffer::new(1 << 20);
    let mut packer = Packer::new();
    let mut understood = 0;
    for piece in pieces {
        let taken = frames.take(piece, |frame| {
            let root = parse::<Root>(frame)?;
            let leaf = parse::<Leaf>(frame)?;
            understood += usize::from(root.1.is_ok()) + usize::from(leaf.1.is_ok());
            if let Ok(request) = leaf.1 {
                // Unpacked only when small: the bound itself is tested elsewhere.
                let length = request.uncompressed_bytes.min(4096);
                packer.unpack(request.compression, &request.features, length);
            }
            Ok::<(), steelyard_thrift::ThriftError>(())
        });
        if taken.is_err() {
            break;
        }
    }
    understood
}

/// Takes bytes as an answer of a leaf; how many stories it holds.
pub fn decode_answer(message: &[u8]) -> Result<usize, String> {
    let blob = Blob::read_answer(message)?;
    assert!(blob.uncompressed_bytes <= BLOB_BYTES_MAX);
    let mut stories = Vec::new();
    if blob.compression == Compression::None {
        read_results(&blob.bytes, &mut stories).map_err(|error| error.to_string())?;
    }
    Ok(stories.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{LeafRequest, write_results};
    use crate::work::Scored;
    use proptest::prelude::*;
    use steelyard_thrift::{Message, MessageKind};

    fn request() -> LeafRequest {
        LeafRequest {
            user: 7,
            shard: 3,
            candidates: 100,
            results: 10,
            compression: Compression::None,
            features: vec![1; 64],
            uncompressed_bytes: 64,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut frame = Vec::new();
        request().write(&mut frame, 12);
        let (seqid, read) = parse::<Leaf>(&frame[4..]).unwrap();
        assert_eq!((seqid, read), (12, Ok(request())));
        let scored: Vec<Scored> = (0..5)
            .map(|at| Scored {
                id: u64::MAX - at,
                score: -(at as i32),
            })
            .collect();
        let mut bytes = Vec::new();
        write_results(&scored, &mut bytes);
        let mut found = vec![scored[0]];
        read_results(&bytes, &mut found).unwrap();
        assert_eq!(found[1..], scored, "results are appended");
        let blob = Blob {
            checksum: 1,
            compression: Compression::None,
            stories: 5,
            uncompressed_bytes: bytes.len(),
            bytes,
            all_scores: 0,
        };
        let mut message = Vec::new();
        let reply = Message {
            kind: MessageKind::Reply,
            seqid: 1,
            name: "score",
        };
        reply.write(&mut message, |result| {
            result.field_struct(0, |fields| {
                blob.write(fields);
                fields.field_i32(5, blob.uncompressed_bytes as i32);
            });
        });
        assert_eq!(Blob::read_answer(&message), Ok(blob));
        assert_eq!(decode_answer(&message), Ok(5));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 1usize..50) {
            prop_assert_eq!(decode([&bytes[..]]), decode(bytes.chunks(cut)));
            let _ = decode_answer(&bytes);
        }

        #[test]
        fn a_call_with_a_changed_byte_is_survived(at in 4usize..120, value in any::<u8>()) {
            let mut frame = Vec::new();
            request().write(&mut frame, 12);
            let place = at % frame.len();
            frame[place] = value;
            decode([&frame[..]]);
            let _ = decode_answer(&frame);
        }
    }
}
