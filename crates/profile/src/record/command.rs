//! Starts the command that is to be sampled, held until sampling is ready for it.

use std::io::{self, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::ProfileError;

/// Time a command has to end by itself when the recording ends before it.
const GRACE: Duration = Duration::from_secs(5);

/// Starts `words` and calls `ready` with its process id before it executes anything of its own.
///
/// The child is forked by the calling thread, whose end the kernel would signal to it (parent-death signal), and
/// waits in a pipe; `ready` runs in a helper thread, since starting returns only after the program was
/// executed.
pub fn start<T: Send>(
    words: &[String],
    ready: impl FnOnce(u32) -> Result<T, ProfileError> + Send,
) -> Result<(Child, T), ProfileError> {
    let (program, arguments) = words.split_first().ok_or_else(|| ProfileError::Command {
        command: String::new(),
        source: io::Error::from(io::ErrorKind::InvalidInput),
    })?;
    let failed = |source| ProfileError::Command {
        command: program.clone(),
        source,
    };
    let (mut id_reader, id_writer) = pipe().map_err(failed)?;
    let (go_reader, mut go_writer) = pipe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments);
    let (id_out, go_in, go_out) = (
        id_writer.as_raw_fd(),
        go_reader.as_raw_fd(),
        go_writer.as_raw_fd(),
    );
    // SAFETY: between fork and exec only async-signal-safe calls are made.
    unsafe {
        command.pre_exec(move || {
            steelyard_launch::unblock()?;
            steelyard_launch::restore_file_size_signal();
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // Its own copy of the writing end would keep the pipe from ending.
            libc::close(go_out);
            let id = libc::getpid().to_ne_bytes();
            if libc::write(id_out, id.as_ptr().cast(), id.len()) != id.len() as isize {
                return Err(io::Error::last_os_error());
            }
            let mut go = 0_u8;
            if libc::read(go_in, (&raw mut go).cast(), 1) != 1 {
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
            Ok(())
        });
    }
    std::thread::scope(|scope| {
        let helper = scope.spawn(move || {
            let mut id = [0; 4];
            // No id comes when the fork fails.
            id_reader.read_exact(&mut id).ok()?;
            let result = ready(u32::from_ne_bytes(id));
            if result.is_ok() {
                let _ = go_writer.write_all(b"g");
            }
            Some(result)
        });
        let child = command.spawn();
        drop((id_writer, go_reader));
        let prepared = helper.join().expect("preparing does not panic");
        match (child, prepared) {
            (Ok(child), Some(Ok(prepared))) => Ok((child, prepared)),
            (_, Some(Err(error))) => Err(error),
            (Err(source), _) => Err(failed(source)),
            (Ok(_), None) => Err(failed(io::Error::from(io::ErrorKind::BrokenPipe))),
        }
    })
}

/// Ends the command if it has not ended, and says how it did.
pub fn end(child: &mut Child) -> Option<i32> {
    if let Ok(Some(status)) = child.try_wait() {
        return Some(code(status));
    }
    // SAFETY: the child has not been waited for, so that its id is still its own.
    unsafe {
        libc::kill(child.id() as libc::pid_t, libc::SIGTERM);
        // A stopped command takes no signal but this one and SIGKILL.
        libc::kill(child.id() as libc::pid_t, libc::SIGCONT);
    }
    let end = Instant::now() + GRACE;
    while Instant::now() < end {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(code(status));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait().ok().map(code)
}

/// An exit status as shells report it: 128 + signal for a command ended by one.
fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
