//! The structures of `idl/rank.thrift`, read and written by hand.
//!
//! Invariants: unknown fields are passed over; what is out of bounds is refused, so that no request asks for unbounded
//! work or memory.

use steelyard_thrift::{
    ApplicationException, Fields, Message, MessageKind, Reader, ThriftError, Type, Writer,
    write_frame,
};

use crate::compression::Compression;
use crate::service::Refusal;
use crate::work::Scored;

/// Stories that a request may ask for.
pub const STORIES_MAX: usize = 10_000;
/// Stories that a leaf may be asked to score.
pub const CANDIDATES_MAX: usize = 1_000_000;
/// What a blob may grow to when it is unpacked.
pub const BLOB_BYTES_MAX: usize = 16 << 20;

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankRequest {
    /// Whose feed.
    pub user: u64,
    /// Stories wanted, 0: the server's default.
    pub stories: usize,
    /// How the stories are to be compressed.
    pub compression: Compression,
}

/// A request to a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafRequest {
    /// For whom.
    pub user: u64,
    /// Which part of all stories.
    pub shard: u32,
    /// Stories to score.
    pub candidates: usize,
    /// Stories to return.
    pub results: usize,
    /// How blobs are compressed.
    pub compression: Compression,
    /// The user, compressed.
    pub features: Vec<u8>,
    /// Bytes of it before.
    pub uncompressed_bytes: usize,
}

/// A blob with what is said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// XXH3-64 over what it stands for.
    pub checksum: u64,
    /// How it is compressed.
    pub compression: Compression,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How many stories are in it.
    pub stories: usize,
    /// Bytes of it before compression.
    pub uncompressed_bytes: usize,
    /// A leaf's hash over all that it scored.
    pub all_scores: u64,
}

impl From<ThriftError> for Refusal {
    fn from(error: ThriftError) -> Self {
        Self::Bad(error.to_string())
    }
}

fn bounded(name: &str, value: i32, max: usize) -> Result<usize, Refusal> {
    usize::try_from(value)
        .ok()
        .filter(|&value| value <= max)
        .ok_or_else(|| Refusal::Bad(format!("{name} is {value}, which is not 0 to {max}")))
}

fn compression(code: i32) -> Result<Compression, Refusal> {
    Compression::from_code(code)
        .ok_or_else(|| Refusal::Bad(format!("compression {code} is not in the IDL")))
}

/// Reads field 1 of the arguments with `read`.
fn argument<T>(
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let (mut fields, mut found) = (Fields::default(), None);
    while let Some(field) = fields.next(reader)? {
        match (field.id, field.kind) {
            (1, Type::Struct) => found = Some(read(reader)?),
            (_, kind) => reader.skip(kind)?,
        }
    }
    found.ok_or_else(|| Refusal::Bad("argument 1, the request, is missing".to_owned()))
}

impl RankRequest {
    /// Reads the arguments of `rank`.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        argument(reader, |reader| {
            let (mut fields, mut user) = (Fields::default(), None);
            let (mut stories, mut compressed) = (0, Compression::None);
            while let Some(field) = fields.next(reader)? {
                match (field.id, field.kind) {
                    (1, Type::I64) => user = Some(reader.i64()? as u64),
                    (2, Type::I32) => stories = bounded("stories", reader.i32()?, STORIES_MAX)?,
                    (3, Type::I32) => compressed = compression(reader.i32()?)?,
                    (_, kind) => reader.skip(kind)?,
                }
            }
            Ok(Self {
                user: user.ok_or_else(|| Refusal::Bad("user_id is missing".to_owned()))?,
                stories,
                compression: compressed,
            })
        })
    }
}

impl LeafRequest {
    /// Reads the arguments of `score`.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        argument(reader, |reader| {
            let mut fields = Fields::default();
            let mut request = Self {
                user: 0,
                shard: 0,
                candidates: 0,
                results: 0,
                compression: Compression::None,
                features: Vec::new(),
                uncompressed_bytes: 0,
            };
            while let Some(field) = fields.next(reader)? {
                match (field.id, field.kind) {
                    (1, Type::I64) => request.user = reader.i64()? as u64,
                    (2, Type::I32) => {
                        request.shard = bounded("shard", reader.i32()?, i32::MAX as usize)? as u32;
                    }
                    (3, Type::I32) => {
                        request.candidates = bounded("candidates", reader.i32()?, CANDIDATES_MAX)?;
                    }
                    (4, Type::I32) => {
                        request.results = bounded("results", reader.i32()?, CANDIDATES_MAX)?;
                    }
                    (5, Type::I32) => request.compression = compression(reader.i32()?)?,
                    (6, Type::Binary) => request.features = reader.binary()?.to_vec(),
                    (7, Type::I32) => {
                        request.uncompressed_bytes =
                            bounded("uncompressed_bytes", reader.i32()?, BLOB_BYTES_MAX)?;
                    }
                    (_, kind) => reader.skip(kind)?,
                }
            }
            Ok(request)
        })
    }

    /// Appends the framed call; `features` are the compressed bytes.
    pub fn write(&self, out: &mut Vec<u8>, seqid: i32) {
        write_frame(out, |message| {
            let call = Message {
                kind: MessageKind::Call,
                seqid,
                name: "score",
            };
            call.write(message, |arguments| {
                arguments.field_struct(1, |fields| {
                    fields.field_i64(1, self.user as i64);
                    fields.field_i32(2, self.shard as i32);
                    fields.field_i32(3, self.candidates as i32);
                    fields.field_i32(4, self.results as i32);
                    fields.field_i32(5, self.compression as i32);
                    fields.field_binary(6, &self.features);
                    fields.field_i32(7, self.uncompressed_bytes as i32);
                });
            });
        });
    }
}

impl Blob {
    /// Writes the fields that RankResponse and LeafResponse share, up to the number of stories.
    pub fn write(&self, fields: &mut Writer<'_>) {
        fields.field_i64(1, self.checksum as i64);
        fields.field_i32(2, self.compression as i32);
        fields.field_binary(3, &self.bytes);
        fields.field_i32(4, self.stories as i32);
    }

    /// Reads a leaf's answer to `score`; an exception is an error.
    pub fn read_answer(message: &[u8]) -> Result<Self, String> {
        Self::read(message).map_err(|error| format!("a leaf's answer is malformed: {error}"))?
    }

    fn read(bytes: &[u8]) -> Result<Result<Self, String>, ThriftError> {
        let mut reader = Reader::new(bytes);
        let message = Message::read(&mut reader)?;
        match message.kind {
            MessageKind::Reply => {}
            MessageKind::Exception => {
                let exception = ApplicationException::read(&mut reader)?;
                return Ok(Err(format!("a leaf refused: {}", exception.text)));
            }
            MessageKind::Call | MessageKind::Oneway => return Err(ThriftError::Protocol),
        }
        let (mut fields, mut found) = (Fields::default(), None);
        while let Some(field) = fields.next(&mut reader)? {
            match (field.id, field.kind) {
                (0, Type::Struct) => found = Some(Self::read_fields(&mut reader)?),
                (_, kind) => reader.skip(kind)?,
            }
        }
        Ok(found.unwrap_or_else(|| Err("a leaf's answer holds no result".to_owned())))
    }

    fn read_fields(reader: &mut Reader<'_>) -> Result<Result<Self, String>, ThriftError> {
        let mut fields = Fields::default();
        let mut blob = Self {
            checksum: 0,
            compression: Compression::None,
            bytes: Vec::new(),
            stories: 0,
            uncompressed_bytes: 0,
            all_scores: 0,
        };
        let (mut code, mut stories, mut length) = (0, 0, 0);
        while let Some(field) = fields.next(reader)? {
            match (field.id, field.kind) {
                (1, Type::I64) => blob.checksum = reader.i64()? as u64,
                (2, Type::I32) => code = reader.i32()?,
                (3, Type::Binary) => blob.bytes = reader.binary()?.to_vec(),
                (4, Type::I32) => stories = reader.i32()?,
                (5, Type::I32) => length = reader.i32()?,
                (7, Type::I64) => blob.all_scores = reader.i64()? as u64,
                (_, kind) => reader.skip(kind)?,
            }
        }
        let (Some(compression), Ok(stories), Ok(length)) = (
            Compression::from_code(code),
            usize::try_from(stories),
            usize::try_from(length),
        ) else {
            return Ok(Err("a leaf's answer is out of bounds".to_owned()));
        };
        if length > BLOB_BYTES_MAX {
            return Ok(Err(format!("a leaf's answer unpacks to {length} bytes")));
        }
        blob.compression = compression;
        blob.stories = stories;
        blob.uncompressed_bytes = length;
        Ok(Ok(blob))
    }
}

/// Appends a `Results` in the compact protocol.
pub fn write_results(scored: &[Scored], out: &mut Vec<u8>) {
    Writer::new(out).structure(|fields| {
        fields.field_list(1, Type::I64, scored.len() as u32);
        for story in scored {
            fields.i64(story.id as i64);
        }
        fields.field_list(2, Type::I32, scored.len() as u32);
        for story in scored {
            fields.i32(story.score);
        }
    });
}

/// Reads a `Results` and appends its stories.
pub fn read_results(bytes: &[u8], out: &mut Vec<Scored>) -> Result<(), ThriftError> {
    let mut reader = Reader::new(bytes);
    let (mut fields, begin) = (Fields::default(), out.len());
    while let Some(field) = fields.next(&mut reader)? {
        match (field.id, field.kind) {
            (1, Type::List) => {
                let (kind, count) = reader.list()?;
                for _ in 0..count {
                    if kind != Type::I64 {
                        reader.skip(kind)?;
                        continue;
                    }
                    out.push(Scored {
                        id: reader.i64()? as u64,
                        score: 0,
                    });
                }
            }
            (2, Type::List) => {
                let (kind, count) = reader.list()?;
                for place in begin..begin + count {
                    if kind != Type::I32 {
                        reader.skip(kind)?;
                        continue;
                    }
                    let score = reader.i32()?;
                    if let Some(story) = out.get_mut(place) {
                        story.score = score;
                    }
                }
            }
            (_, kind) => reader.skip(kind)?,
        }
    }
    Ok(())
}
