// Every type of the protocol once, in the shapes that differ on the wire.
struct Inner {
  1: i64 number,
  2: bool yes,
}

struct Everything {
  1: bool yes,
  2: bool no,
  3: byte small,
  4: i16 short_number,
  5: i32 number,
  6: i64 long_number,
  7: double real,
  8: string text,
  9: binary blob,
  10: Inner inner,
  11: list<i32> few,
  12: list<string> many,
  13: map<string, i64> pairs,
  14: map<i32, bool> nothing,
  15: list<bool> flags,
  16: list<Inner> inners,
  200: i32 far,
  201: i64 negative,
  202: list<list<i16>> nested,
}

service Peer {
  Everything echo(1: Everything everything),
}
