//! Thrift compact protocol, framed: what a client and a server put on the wire.
