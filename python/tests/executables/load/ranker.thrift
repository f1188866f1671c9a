// A service in the shape of FeedSim's, as far as a load can tell.
enum Compression {
  NONE = 0,
  SNAPPY = 1,
  ZSTD = 2,
}

struct RankRequest {
  1: i64 user_id,
  2: i32 stories,
  3: Compression compression,
  4: string text,
}

struct RankResponse {
  1: i64 checksum,
  2: Compression compression,
  3: binary stories,
  4: i32 story_count,
  5: map<string, i64> stages_ns,
}

exception Overloaded {
  1: string why,
}

service Ranker {
  RankResponse rank(1: RankRequest request) throws (1: Overloaded overloaded),
  RankResponse refuse(1: RankRequest request) throws (1: Overloaded overloaded),
  RankResponse crash(1: RankRequest request),
}
