//! The protocols of the engine, by name.

/// Most requests in flight on a connection in CQL: stream ids are 15 bits.
pub const CQL_STREAMS_MAX: u32 = 32_768;

/// A protocol of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's text protocol.
    Memcached,
    /// Redis' protocol, RESP.
    Redis,
    /// HTTP/1.1.
    Http,
    /// Framed Thrift, compact protocol.
    Thrift,
    /// CQL's native protocol, version 4.
    Cql,
}

impl Protocol {
    /// As flags and records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Redis => "redis",
            Self::Http => "http",
            Self::Thrift => "thrift",
            Self::Cql => "cql",
        }
    }
}
