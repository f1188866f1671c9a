//! A leaf: after its backend's delay it scores stories of one shard for a user and returns the best.

use steelyard_features::VECTOR;
use steelyard_serve::Delay;
use steelyard_statistics::Random;
use steelyard_thrift::{Reader, Writer};
use xxhash_rust::xxh3::xxh3_64;

use crate::compression::Packer;
use crate::messages::{Blob, LeafRequest, write_results};
use crate::service::{Refusal, Service, StageClock, StageTimes};
use crate::work::{Items, mix, score_shard};

/// What a leaf is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct LeafWork {
    /// Bytes of the table of stories.
    pub item_bytes: u64,
    /// Seed of the table and of the delays.
    pub seed: u64,
    /// What the simulated backend takes.
    pub delay: Delay,
}

/// The stages of a leaf's work.
const STAGES: [&str; 5] = ["queue", "backend", "decompress", "score", "compress"];
const DECOMPRESS: usize = 2;
const SCORE: usize = 3;
const COMPRESS: usize = 4;

/// The leaf service.
#[derive(Debug)]
pub struct Leaf {
    work: LeafWork,
    items: Items,
}

impl Leaf {
    /// A leaf with its table filled.
    pub fn new(work: LeafWork) -> Self {
        Self {
            items: Items::new(work.item_bytes, work.seed),
            work,
        }
    }
}

impl Service for Leaf {
    const METHOD: &'static str = "score";
    const STAGES: &'static [&'static str] = &STAGES;
    const HAS_BACKEND: bool = true;
    type Request = LeafRequest;
    type Room = Packer;

    fn read(reader: &mut Reader<'_>) -> Result<LeafRequest, Refusal> {
        LeafRequest::read(reader)
    }

    fn delay_ns(&self, request: &LeafRequest) -> u64 {
        // By user and shard, so that the delays of a run can be had again, whatever the order of requests.
        let seed = mix(request.user ^ mix(self.work.seed ^ u64::from(request.shard) << 32));
        self.work.delay.draw_ns(&mut Random::new(seed))
    }

    fn room(&self) -> Packer {
        Packer::new()
    }

    fn work(
        &self,
        request: &LeafRequest,
        clock: &mut StageClock,
        packer: &mut Packer,
    ) -> Result<Blob, Refusal> {
        let features = packer
            .unpack(
                request.compression,
                &request.features,
                request.uncompressed_bytes,
            )
            .ok_or_else(|| {
                Refusal::Bad("features do not unpack to the announced size".to_owned())
            })?;
        let Some((vector, text)) = features.split_first_chunk::<VECTOR>() else {
            return Err(Refusal::Bad(format!(
                "features are {} bytes, below {VECTOR}",
                features.len()
            )));
        };
        clock.end(DECOMPRESS);
        let (scored, all_scores) = score_shard(
            &self.items,
            request.user ^ xxh3_64(text),
            request.shard,
            &vector.map(|byte| byte as i8),
            request.candidates,
            request.results,
        );
        clock.end(SCORE);
        let mut bytes = Vec::with_capacity(scored.len() * 16);
        write_results(&scored, &mut bytes);
        let blob = Blob {
            checksum: xxh3_64(&bytes),
            compression: request.compression,
            stories: scored.len(),
            uncompressed_bytes: bytes.len(),
            bytes: packer.pack(request.compression, &bytes),
            all_scores,
        };
        clock.end(COMPRESS);
        Ok(blob)
    }

    fn write(response: &Blob, stages: &StageTimes, fields: &mut Writer<'_>) {
        response.write(fields);
        fields.field_i32(5, response.uncompressed_bytes as i32);
        stages.write(6, fields);
        fields.field_i64(7, response.all_scores as i64);
    }
}
