//! One connection that does what is done once before a load: blocking, with the codecs that the load uses.
//!
//! In: a codec whose whole work is its handshake. Out: nothing, or why it did not come to its end. Not here: the
//! handshakes of the load's own connections, which the engine drives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Codec;
use crate::io::connect_blocking;
use crate::{Address, LoadError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may think about one step: changes of a schema take their time.
const SILENCE: Duration = Duration::from_secs(30);

/// Connects to `target` and drives `codec` until it is ready.
pub fn drive(target: &Address, codec: &mut dyn Codec) -> Result<(), LoadError> {
    let failed = |source| LoadError::Connect {
        target: target.to_string(),
        source,
    };
    // The type's reads and writes are those of any stream socket, a Unix one included.
    let connected = connect_blocking(target, CONNECT_TIMEOUT);
    let mut socket = TcpStream::from(connected.map_err(failed)?);
    let prepared = socket
        .set_nonblocking(false)
        .and_then(|()| socket.set_read_timeout(Some(SILENCE)))
        .and_then(|()| socket.set_write_timeout(Some(SILENCE)));
    prepared.map_err(failed)?;
    let (mut out, mut input) = (Vec::new(), vec![0; 64 << 10]);
    codec.open(&mut out);
    while !codec.ready() {
        if let Err(kind) = exchange(&mut socket, codec, &mut out, &mut input) {
            return Err(LoadError::Handshake {
                target: target.to_string(),
                why: codec.complaint().unwrap_or(kind).to_owned(),
            });
        }
    }
    Ok(())
}

/// Sends what the codec has to say and waits for an answer.
fn exchange(
    socket: &mut TcpStream,
    codec: &mut dyn Codec,
    out: &mut Vec<u8>,
    input: &mut [u8],
) -> Result<(), &'static str> {
    let begin = Instant::now();
    socket
        .write_all(out)
        .map_err(|error| crate::io::closed_kind(&error))?;
    out.clear();
    let read = socket.read(input).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock if begin.elapsed() >= SILENCE => "handshake-timeout",
        std::io::ErrorKind::Interrupted => "interrupted",
        _ => crate::io::closed_kind(&error),
    })?;
    if read == 0 {
        return Err("connection-closed");
    }
    let mut answers = Vec::new();
    codec
        .decode(&input[..read], out, &mut answers)
        .map_err(|error| error.kind)
}
