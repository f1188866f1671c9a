//! Frames over TCP and TLS, for many connections in one thread: sockets that never block, epoll, and the two loops
//! that use them (`serve` for those who call us, `fanout` for those whom we call).
//!
//! Not here: what the messages say, and the work that they cause.

mod epoll;
pub mod fanout;
pub mod serve;
mod transport;
