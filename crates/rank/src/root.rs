//! The root: everything that ranking one user's feed takes.
//!
//! Invariant: the checksum is a function of the user, the number of stories and the work settings of root and leaves:
//! it covers the features, every candidate's score, every ranked story's with its place, the walk through the graph, and every byte of the text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use steelyard_features::{Profile, extract};
use steelyard_serve::Mailbox;
use steelyard_thrift::{Reader, Writer};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::compression::{Compression, Packer};
use crate::messages::{Blob, LeafRequest, RankRequest, read_results};
use crate::net::fanout::{self, Batch, Call};
use crate::service::{Refusal, Service, StageClock, StageTimes};
use crate::work::{
    Activations, Embeddings, Graph, Network, ROW, Scored, Story, best_first, compose, mix,
    write_stories,
};

/// What a root is to do for each request.
#[derive(Debug, Clone, PartialEq)]
pub struct RootWork {
    /// Feature extractors that are called: the instruction footprint.
    pub feature_functions: usize,
    /// Calls of them.
    pub feature_calls: usize,
    /// Calls of leaves.
    pub fan_out: usize,
    /// Stories that each call has scored.
    pub leaf_candidates: usize,
    /// Stories that each call returns, which are then ranked.
    pub leaf_results: usize,
    /// Bytes of the table of embeddings.
    pub embedding_bytes: u64,
    /// Rows of it for each story.
    pub embedding_lookups: usize,
    /// Width of the network's first hidden layer.
    pub network_width: usize,
    /// Bytes of the graph of objects.
    pub graph_bytes: u64,
    /// Objects visited.
    pub chase_steps: usize,
    /// Stories in an answer unless the request says otherwise.
    pub stories: usize,
    /// Words in a story.
    pub story_words: usize,
    /// Seed of the tables.
    pub seed: u64,
}

/// The stages of a root's work.
const STAGES: [&str; 9] = [
    "queue",
    "features",
    "fan_out",
    "embedding",
    "network",
    "graph",
    "compose",
    "serialize",
    "compress",
];
const FEATURES: usize = 1;
const FAN_OUT: usize = 2;
const EMBEDDING: usize = 3;
const NETWORK: usize = 4;
const GRAPH: usize = 5;
const COMPOSE: usize = 6;
const SERIALIZE: usize = 7;
const COMPRESS: usize = 8;

/// Where the root's calls go.
#[derive(Debug)]
pub struct Leaves {
    /// The fan-out threads and how many connections each has.
    pub threads: Vec<(Arc<Mailbox<fanout::Post>>, usize)>,
    /// How blobs to and from leaves are compressed.
    pub compression: Compression,
    /// The next sequence number.
    pub seqid: AtomicU32,
    /// The next connection.
    pub turn: AtomicU32,
}

impl Leaves {
    /// The thread and connection of a turn: every connection in turn.
    fn connection(&self, turn: u32) -> (usize, usize) {
        let total: usize = self.threads.iter().map(|thread| thread.1).sum();
        let mut place = turn as usize % total;
        for (thread, (_, connections)) in self.threads.iter().enumerate() {
            if place < *connections {
                return (thread, place);
            }
            place -= connections;
        }
        unreachable!("a place below the sum is in one of the threads")
    }
}

/// The root service.
#[derive(Debug)]
pub struct Root {
    work: RootWork,
    leaves: Leaves,
    embeddings: Embeddings,
    network: Network,
    graph: Graph,
}

/// What a worker keeps.
#[derive(Default)]
pub struct Room {
    packer: Packer,
    activations: Activations,
    pooled: Vec<[i16; ROW]>,
    scored: Vec<Scored>,
    /// Hash over all that the leaves scored.
    all_scores: u64,
}

impl Root {
    /// A root with its tables filled.
    pub fn new(work: RootWork, leaves: Leaves) -> Self {
        Self {
            embeddings: Embeddings::new(work.embedding_bytes, work.embedding_lookups, work.seed),
            network: Network::new(work.network_width, work.seed),
            graph: Graph::new(work.graph_bytes, work.seed),
            work,
            leaves,
        }
    }

    /// Asks every shard's leaf for its best stories: all calls are under way at once.
    fn fan_out(
        &self,
        user: u64,
        profile: &Profile,
        vector: &[i8; ROW],
        room: &mut Room,
    ) -> Result<(), Refusal> {
        let mut features = Vec::with_capacity(ROW + profile.text.len());
        features.extend(vector.iter().map(|&value| value as u8));
        features.extend_from_slice(&profile.text);
        let packed = room.packer.pack(self.leaves.compression, &features);
        let batch = Arc::new(Batch::new(self.work.fan_out));
        let mut posts: Vec<Vec<Call>> = self.leaves.threads.iter().map(|_| Vec::new()).collect();
        for shard in 0..self.work.fan_out {
            let request = LeafRequest {
                user,
                shard: shard as u32,
                candidates: self.work.leaf_candidates,
                results: self.work.leaf_results,
                compression: self.leaves.compression,
                features: packed.clone(),
                uncompressed_bytes: features.len(),
            };
            // 31 bits: a sequence number is not negative.
            let seqid = (self.leaves.seqid.fetch_add(1, Relaxed) & 0x7fff_ffff) as i32;
            let (thread, connection) = self
                .leaves
                .connection(self.leaves.turn.fetch_add(1, Relaxed));
            let mut frame = Vec::with_capacity(packed.len() + 64);
            request.write(&mut frame, seqid);
            posts[thread].push(Call {
                connection,
                seqid,
                frame,
                batch: batch.clone(),
                index: shard,
            });
        }
        for (calls, (mailbox, _)) in posts.into_iter().zip(&self.leaves.threads) {
            if !calls.is_empty() {
                mailbox.post(|post| post.calls.extend(calls));
            }
        }
        let answers = batch.wait().map_err(Refusal::Leaf)?;
        room.scored.clear();
        room.all_scores = 0;
        for answer in &answers {
            let blob = Blob::read_answer(answer).map_err(Refusal::Leaf)?;
            room.all_scores = mix(room.all_scores ^ blob.all_scores);
            let results = room
                .packer
                .unpack(blob.compression, &blob.bytes, blob.uncompressed_bytes)
                .filter(|results| xxh3_64(results) == blob.checksum)
                .ok_or_else(|| {
                    Refusal::Leaf("a leaf's answer does not match its checksum".to_owned())
                })?;
            read_results(&results, &mut room.scored)
                .map_err(|error| Refusal::Leaf(format!("a leaf's answer is malformed: {error}")))?;
        }
        Ok(())
    }
}

impl Service for Root {
    const METHOD: &'static str = "rank";
    const STAGES: &'static [&'static str] = &STAGES;
    const HAS_BACKEND: bool = false;
    type Request = RankRequest;
    type Room = Room;

    fn read(reader: &mut Reader<'_>) -> Result<RankRequest, Refusal> {
        RankRequest::read(reader)
    }

    fn delay_ns(&self, _: &RankRequest) -> u64 {
        0
    }

    fn room(&self) -> Room {
        Room::default()
    }

    fn work(
        &self,
        request: &RankRequest,
        clock: &mut StageClock,
        room: &mut Room,
    ) -> Result<Blob, Refusal> {
        let profile = Profile::of(request.user);
        let features = extract(
            &profile,
            self.work.feature_functions,
            self.work.feature_calls,
        );
        clock.end(FEATURES);
        self.fan_out(request.user, &profile, &features.vector, room)?;
        clock.end(FAN_OUT);
        room.pooled.clear();
        room.pooled.extend(
            room.scored
                .iter()
                .map(|story| self.embeddings.pool(story.id)),
        );
        clock.end(EMBEDDING);
        for (story, pooled) in room.scored.iter_mut().zip(&room.pooled) {
            let score = self
                .network
                .score(&features.vector, pooled, &mut room.activations);
            story.score = story.score.wrapping_add(score);
        }
        room.scored.sort_unstable_by(best_first);
        clock.end(NETWORK);
        let mut checksum = Xxh3::new();
        checksum.update(&features.checksum.to_le_bytes());
        checksum.update(&room.all_scores.to_le_bytes());
        for story in &room.scored {
            checksum.update(&story.id.to_le_bytes());
            checksum.update(&story.score.to_le_bytes());
        }
        let walk = self
            .graph
            .walk(mix(request.user ^ features.checksum), self.work.chase_steps);
        checksum.update(&walk.to_le_bytes());
        clock.end(GRAPH);
        let wanted = match request.stories {
            0 => self.work.stories,
            stories => stories,
        };
        let stories: Vec<Story> = room
            .scored
            .iter()
            .take(wanted)
            .map(|scored| compose(scored, self.work.story_words))
            .collect();
        clock.end(COMPOSE);
        let mut bytes = Vec::new();
        write_stories(&stories, &mut bytes);
        checksum.update(&bytes);
        clock.end(SERIALIZE);
        let blob = Blob {
            checksum: checksum.digest(),
            compression: request.compression,
            stories: stories.len(),
            uncompressed_bytes: bytes.len(),
            bytes: room.packer.pack(request.compression, &bytes),
            all_scores: 0,
        };
        clock.end(COMPRESS);
        Ok(blob)
    }

    fn write(response: &Blob, stages: &StageTimes, fields: &mut Writer<'_>) {
        response.write(fields);
        stages.write(5, fields);
        fields.field_i32(6, response.uncompressed_bytes as i32);
    }
}
