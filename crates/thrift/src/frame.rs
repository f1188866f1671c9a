//! The framed transport: every message after its length in four bytes, highest first.

use std::io::{self, Read};

use crate::ThriftError;

/// Bytes before each message.
pub const PREFIX_BYTES: usize = 4;
/// The bound that other implementations set (thrift's `DEFAULT_MAX_FRAME_SIZE` in Java is 16,384,000).
pub const FRAME_BYTES_MAX: u32 = 16_384_000;
/// A buffer larger than this is given back once it is empty: one large message must not cost memory for ever.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Room made for an announced length before its bytes have come.
const TRUSTED_BYTES: usize = 1 << 16;

/// Appends one frame; `body` appends the message. A message above 4 GiB is a bug of the caller.
#[inline]
pub fn write_frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    body(out);
    let length = out.len() - start - PREFIX_BYTES;
    let prefix = u32::try_from(length).expect("a message above 4 GiB cannot be framed");
    out[start..start + PREFIX_BYTES].copy_from_slice(&prefix.to_be_bytes());
}

/// A frame and what comes after it.
type Split<'b> = (&'b [u8], &'b [u8]);

/// Finds frames in pieces cut anywhere.
#[derive(Debug)]
pub struct FrameBuffer {
    max: u32,
    /// The beginning of a frame whose end has not come.
    partial: Vec<u8>,
}

impl Default for FrameBuffer {
    fn default() -> Self {
        Self::new(FRAME_BYTES_MAX)
    }
}

impl FrameBuffer {
    /// A buffer for frames of at most `max` bytes.
    pub fn new(max: u32) -> Self {
        Self {
            max,
            partial: Vec::new(),
        }
    }

    /// Whether the beginning of a frame waits for its end.
    pub fn is_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Takes all of `input` and gives every frame it completes to `on_frame`, in order. Frames that lie whole in
    /// `input` are not copied. After an error the connection is of no further use.
    pub fn take<E: From<ThriftError>>(
        &mut self,
        input: &[u8],
        mut on_frame: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = input;
        while !rest.is_empty() {
            if self.partial.is_empty() {
                match self.split(rest)? {
                    Some((frame, after)) => {
                        on_frame(frame)?;
                        rest = after;
                    }
                    None => {
                        self.partial.extend_from_slice(rest);
                        break;
                    }
                }
                continue;
            }
            // As many bytes as the prefix, and then the frame, still lack.
            let whole = match self.partial.first_chunk::<PREFIX_BYTES>() {
                None => PREFIX_BYTES,
                Some(prefix) => PREFIX_BYTES + self.check(*prefix)?,
            };
            let lacking = whole - self.partial.len();
            self.partial.reserve(lacking.min(TRUSTED_BYTES));
            let take = rest.len().min(lacking);
            self.partial.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
            if let Some((frame, _)) = self.split(&self.partial)? {
                on_frame(frame)?;
                if self.partial.capacity() > KEPT_BYTES_MAX {
                    self.partial = Vec::new();
                }
                self.partial.clear();
            }
        }
        Ok(())
    }

    /// The first frame in `bytes` and what is after it; None when its end has not come.
    fn split<'b>(&self, bytes: &'b [u8]) -> Result<Option<Split<'b>>, ThriftError> {
        let Some((prefix, body)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        Ok(body.split_at_checked(self.check(*prefix)?))
    }

    fn check(&self, prefix: [u8; PREFIX_BYTES]) -> Result<usize, ThriftError> {
        let bytes = u32::from_be_bytes(prefix);
        if bytes > self.max {
            return Err(ThriftError::Frame {
                bytes,
                max: self.max,
            });
        }
        Ok(bytes as usize)
    }
}

/// Reads one frame from a blocking source into `frame`, which is cleared before; false when the source ended
/// before the frame began. A frame above `max` bytes or one that breaks off is an error, and memory grows only
/// with the bytes that come.
pub fn read_frame(source: &mut impl Read, frame: &mut Vec<u8>, max: u32) -> io::Result<bool> {
    frame.clear();
    let mut prefix = [0; PREFIX_BYTES];
    let mut have = 0;
    while have < PREFIX_BYTES {
        match source.read(&mut prefix[have..]) {
            Ok(0) if have == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let bytes = u32::from_be_bytes(prefix);
    if bytes > max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            ThriftError::Frame { bytes, max },
        ));
    }
    let read = source.take(u64::from(bytes)).read_to_end(frame)?;
    if read < bytes as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}
