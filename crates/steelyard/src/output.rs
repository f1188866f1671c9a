//! Standard output of the executables. Its reader may end before the writer does: `| head` is no failure.

use std::fmt;
use std::io::{self, BufWriter, Write, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Exit, Failure};

/// The reader of standard output has ended. [`crate::run`] ends the program with 0 and prints nothing.
#[derive(Debug)]
pub(crate) struct ReaderEnded;

impl fmt::Display for ReaderEnded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the reader of standard output has ended")
    }
}

impl std::error::Error for ReaderEnded {}

/// Whether the program was started without a standard output (`>&-`).
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's runtime, which opens /dev/null in the place of a standard output that is closed: what is
/// written there would be lost without an error.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: asks about a descriptor, which may be closed, and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Fails where the program was started without a standard output.
pub fn opened() -> io::Result<()> {
    if WAS_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(())
}

/// Writes `content` to standard output.
pub fn print(content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    opened().map_err(failure)?;
    let mut out = BufWriter::with_capacity(1 << 16, stdout().lock());
    content(&mut out)
        .and_then(|()| out.flush())
        .map_err(failure)
}

/// Writes `document` to standard output as one line of JSON.
pub fn print_json(document: &impl serde::Serialize) -> Result<(), Failure> {
    print(|out| {
        serde_json::to_writer(&mut *out, document)?;
        writeln!(out)
    })
}

/// The failure that an error of writing to standard output is.
pub fn failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::new(Exit::Ok, ReaderEnded);
    }
    let error = anyhow::Error::new(error).context("cannot write to standard output");
    Failure::new(Exit::Failed, error)
}
