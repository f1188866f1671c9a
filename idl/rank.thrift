// FeedSim's ranking service: framed transport, compact protocol, TLS 1.3.
//
// Blobs are compressed inside the messages, so that any Thrift client can call it. Times are nanoseconds.

/** How the bytes of a blob are compressed. Snappy: the raw format, without frames. Zstd: one frame. */
enum Compression {
  NONE = 0,
  SNAPPY = 1,
  ZSTD = 2,
}

/** Time that a request spent in one stage. */
struct StageTime {
  /** Such as `features`. */
  1: string name,
  /** By the clock. */
  2: i64 wall_ns,
  /** Of a CPU, by the thread that worked on the request. */
  3: i64 cpu_ns,
}

struct RankRequest {
  /** Whose feed. */
  1: i64 user_id,
  /** How many stories are wanted at most; 0: as many as the server is set to. */
  2: i32 stories,
  /** How the stories are to be compressed. */
  3: Compression compression,
}

struct RankResponse {
  /** XXH3-64 over the work of every stage: a function of user_id, stories and the service's work settings. */
  1: i64 checksum,
  2: Compression compression,
  /** A `Stories`, compact protocol, compressed. */
  3: binary stories,
  4: i32 story_count,
  5: list<StageTime> stages,
  /** Size of `stories` before compression. */
  6: i32 uncompressed_bytes,
}

struct Story {
  1: i64 id,
  2: i32 score,
  3: string author,
  4: string text,
  5: list<i64> liked_by,
}

/** A feed, best story first. */
struct Stories {
  1: list<Story> stories,
}

service Ranker {
  RankResponse rank(1: RankRequest request),
}

struct LeafRequest {
  1: i64 user_id,
  /** Which part of all stories to search. */
  2: i32 shard,
  /** How many stories to score. */
  3: i32 candidates,
  /** How many of them to return. */
  4: i32 results,
  /** How `features` is, and the results are to be, compressed. */
  5: Compression compression,
  /** The user: 64 signed bytes of features, then the profile's text. */
  6: binary features,
  /** Size of `features` before compression. */
  7: i32 uncompressed_bytes,
}

struct LeafResponse {
  /** XXH3-64 over `results` before compression. */
  1: i64 checksum,
  2: Compression compression,
  /** A `Results`, compact protocol, compressed. */
  3: binary results,
  4: i32 result_count,
  5: i32 uncompressed_bytes,
  6: list<StageTime> stages,
  /** Hash over the scores of all candidates, those that are not returned too. */
  7: i64 all_scores,
}

/** Stories and their scores, best first. */
struct Results {
  1: list<i64> story_ids,
  2: list<i32> scores,
}

service Leaf {
  LeafResponse score(1: LeafRequest request),
}
