//! A folder of the agent's own: no other user can read it, write to it, or lead the agent out of it by a link.
//!
//! In: the path of the spool. Out: a [`Disk`] below it. Each step starts from the descriptor of the folder and goes down one
//! name at a time without following links; files and folders are made for their owner alone, whatever the umask.
//!
//! Invariants: the folder and those in it belong to the user that runs the agent and no other user may write to them; a file
//! that is opened is a regular one.
//!
//! Not here: the store, which may be another user's folder with links in it (`disk::Live`).

use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;

const FOLDER: libc::c_int =
    libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
const FILE: libc::c_int = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;

/// The folder; clones are the same folder.
#[derive(Debug, Clone)]
pub struct Private {
    path: PathBuf,
    folder: Arc<OwnedFd>,
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.into())
}

fn user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

fn open_at(
    folder: RawFd,
    name: &OsStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<File> {
    let name = CString::new(name.as_bytes())?;
    // SAFETY: the name is a C string that outlives the call.
    let raw = unsafe { libc::openat(folder, name.as_ptr(), flags, mode) };
    if raw < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::ELOOP) => refused("a symbolic link, which is not followed"),
            _ => error,
        });
    }
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(raw) })
}

/// Opens the folder `name` below `folder`, which is one of its owner's alone; `path` is what an error names.
fn enter(folder: &File, name: &OsStr, path: &Path) -> io::Result<File> {
    let below = open_at(folder.as_raw_fd(), name, FOLDER, 0).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::ENOTDIR) => refused(format!(
                "{} is a symbolic link or not a folder",
                path.display()
            )),
            _ => error,
        }
    })?;
    own(&below, true)?;
    Ok(below)
}

/// Refuses a folder that others could change, and shuts out those who could only look where `is_closed`.
fn own(folder: &File, is_closed: bool) -> io::Result<()> {
    let metadata = folder.metadata()?;
    if metadata.uid() != user() {
        return Err(refused(format!(
            "it belongs to user {}, not to user {}, who runs the agent",
            metadata.uid(),
            user()
        )));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(refused(format!(
            "others may write to it (mode {mode:04o}): chmod 0700 once its content is known to be the agent's"
        )));
    }
    if is_closed && mode & 0o777 != 0o700 {
        folder.set_permissions(Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Refuses a path whose folders another user could replace: writable by all, and not sticky as /tmp is.
fn check_above(path: &Path) -> io::Result<()> {
    for above in path.ancestors().skip(1).filter(|above| above.is_dir()) {
        let mode = fs::metadata(above)?.mode();
        if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return Err(refused(format!(
                "any user may replace it, since {} is writable by all (mode {:04o})",
                above.display(),
                mode & 0o7777
            )));
        }
    }
    Ok(())
}

impl Private {
    /// The folder at `path`, made with those above it where there is none.
    pub fn make(path: &Path) -> io::Result<Self> {
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::open(path),
            Err(error) => Err(error),
            Ok(()) => Self::at(path, true),
        }
    }

    /// The folder at `path`, which must be there. Whoever may look into it still may; the files in it stay closed to them.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::at(path, false)
    }

    fn at(path: &Path, is_new: bool) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        check_above(&path)?;
        // systemd makes a link of its own to the folder of a service with DynamicUser.
        let link = fs::symlink_metadata(&path)?;
        if link.is_symlink() && link.uid() != 0 && link.uid() != user() {
            return Err(refused(format!(
                "a symbolic link of user {}, which is not followed",
                link.uid()
            )));
        }
        let path = path.canonicalize()?;
        check_above(&path)?;
        let folder = open_at(libc::AT_FDCWD, path.as_os_str(), FOLDER, 0)?;
        own(&folder, is_new)?;
        Ok(Self {
            path,
            folder: Arc::new(folder.into()),
        })
    }

    /// The folder `name` in this one, made where there is none.
    pub fn folder(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        self.create_folder(&path)?;
        let folder = self.walk(&path)?;
        Ok(Self {
            path,
            folder: Arc::new(folder.into()),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn names<'p>(&self, path: &'p Path) -> io::Result<Vec<&'p OsStr>> {
        let below = path
            .strip_prefix(&self.path)
            .map_err(|_| refused(format!("{} is outside", path.display())))?;
        below
            .components()
            .map(|part| match part {
                Component::Normal(name) => Ok(name),
                _ => Err(refused(format!("{} is outside", path.display()))),
            })
            .collect()
    }

    /// Opens a folder below this one, name by name.
    fn walk(&self, path: &Path) -> io::Result<File> {
        let mut folder = File::from(self.folder.try_clone()?);
        for name in self.names(path)? {
            folder = enter(&folder, name, path)?;
        }
        Ok(folder)
    }

    /// The folder that `path` is in, and its name there.
    fn place(&self, path: &Path) -> io::Result<(File, CString)> {
        let name = path
            .file_name()
            .ok_or_else(|| refused(format!("{} has no name", path.display())))?;
        let folder = self.walk(path.parent().unwrap_or(Path::new("")))?;
        Ok((folder, CString::new(name.as_bytes())?))
    }

    /// Opens a regular file with these flags; one that is made is its owner's alone.
    pub fn file(&self, path: &Path, flags: libc::c_int) -> io::Result<File> {
        let (folder, name) = self.place(path)?;
        let name = OsStr::from_bytes(name.as_bytes());
        let file = open_at(folder.as_raw_fd(), name, FILE | flags, 0o600)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(refused("not a regular file"));
        }
        let writes = flags & (libc::O_WRONLY | libc::O_RDWR) != 0;
        if writes && (metadata.uid() != user() || metadata.nlink() > 1) {
            return Err(refused(
                "it belongs to another user, or has more than one hard link",
            ));
        }
        if writes && metadata.mode() & 0o777 != 0o600 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }

    /// Takes the lock of the file `name` for this process; None where another one holds it. The kernel lets go of it when the
    /// process ends, however it ends.
    pub fn lock(&self, name: &str) -> io::Result<Option<File>> {
        let file = self.file(&self.path.join(name), libc::O_RDWR | libc::O_CREAT)?;
        // SAFETY: the descriptor is open, and flock touches no memory.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(Some(file));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        }
    }
}

fn done(status: libc::c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Disk for Private {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut folder = File::from(self.folder.try_clone()?);
        for name in self.names(path)? {
            let text = CString::new(name.as_bytes())?;
            // SAFETY: the name is a C string that outlives the call.
            let made = done(unsafe { libc::mkdirat(folder.as_raw_fd(), text.as_ptr(), 0o700) });
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            folder = enter(&folder, name, path)?;
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let folder = match self.walk(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.file(path, libc::O_RDONLY)?.read_to_end(&mut content)?;
        Ok(content)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(self.file(path, libc::O_RDONLY)?.metadata()?.len())
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.file(path, libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT)?
            .write_all(bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.file(path, libc::O_WRONLY)?.set_len(length)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        if self.names(path)?.is_empty() {
            return self.walk(path)?.sync_all();
        }
        let (folder, name) = self.place(path)?;
        let name = OsStr::from_bytes(name.as_bytes());
        open_at(folder.as_raw_fd(), name, FILE | libc::O_RDONLY, 0)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((old_folder, old), (new_folder, new)) = (self.place(from)?, self.place(to)?);
        // SAFETY: both names are C strings that outlive the call.
        done(unsafe {
            libc::renameat(
                old_folder.as_raw_fd(),
                old.as_ptr(),
                new_folder.as_raw_fd(),
                new.as_ptr(),
            )
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        // SAFETY: the name is a C string that outlives the call.
        match done(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_it_makes_is_its_owners_alone() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("spool");
        let spool = Private::make(&path).unwrap();
        spool.create_folder(&path.join("journal")).unwrap();
        spool.append(&path.join("journal/a"), b"12").unwrap();
        spool.append(&path.join("journal/a"), b"34").unwrap();
        assert_eq!(spool.read(&path.join("journal/a")).unwrap(), b"1234");
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("journal")), 0o700);
        assert_eq!(mode(&path.join("journal/a")), 0o600);
        spool
            .rename(&path.join("journal/a"), &path.join("b"))
            .unwrap();
        assert_eq!(spool.list(&path).unwrap(), ["b", "journal"]);
        assert_eq!(spool.list(&path.join("none")).unwrap(), [""; 0]);
        // What others could read in it is closed to them; the folder itself may be an administrator's choice.
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(path.join("journal"), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(path.join("b"), Permissions::from_mode(0o644)).unwrap();
        let spool = Private::make(&path).unwrap();
        spool.append(&path.join("b"), b"5").unwrap();
        spool.create_folder(&path.join("journal")).unwrap();
        let modes = [&path, &path.join("journal"), &path.join("b")].map(|path| mode(path));
        assert_eq!(modes, [0o755, 0o700, 0o600]);
    }

    #[test]
    fn no_link_leads_out_of_it() {
        let above = tempfile::tempdir().unwrap();
        let (path, precious) = (above.path().join("spool"), above.path().join("precious"));
        fs::write(&precious, "content").unwrap();
        let spool = Private::make(&path).unwrap();
        symlink(&precious, path.join("lock")).unwrap();
        fs::hard_link(&precious, path.join("hard")).unwrap();
        symlink(above.path(), path.join("journal")).unwrap();
        assert!(spool.lock("lock").is_err());
        assert!(spool.append(&path.join("lock"), b"x").is_err());
        assert!(spool.append(&path.join("hard"), b"x").is_err());
        assert!(spool.truncate(&path.join("lock"), 0).is_err());
        assert!(spool.read(&path.join("lock")).is_err());
        assert!(spool.create_folder(&path.join("journal")).is_err());
        assert!(spool.append(&path.join("journal/precious"), b"x").is_err());
        assert!(spool.append(&above.path().join("precious"), b"x").is_err());
        assert!(spool.append(&path.join("../precious"), b"x").is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "content");
        let link = above.path().join("link");
        symlink(&path, &link).unwrap();
        fs::remove_file(path.join("journal")).unwrap();
        assert_eq!(Private::make(&link).unwrap().path(), path);
        if user() == 0 {
            std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
            let error = Private::make(&link).unwrap_err().to_string();
            assert!(error.contains("symbolic link of user 65534"), "{error}");
        }
    }

    #[test]
    fn a_folder_that_others_may_change_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("spool");
        fs::create_dir(&path).unwrap();
        for mode in [0o777, 0o770, 0o1777, 0o702] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = Private::make(&path).unwrap_err().to_string();
            assert!(error.contains("others may write"), "{error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(above.path(), Permissions::from_mode(0o777)).unwrap();
        let error = Private::make(&path).unwrap_err().to_string();
        assert!(error.contains("may replace it"), "{error}");
        if user() == 0 {
            fs::set_permissions(above.path(), Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            let error = Private::make(&path).unwrap_err().to_string();
            assert!(error.contains("belongs to user 65534"), "{error}");
        }
    }

    #[test]
    fn a_lock_is_held_once() {
        let above = tempfile::tempdir().unwrap();
        let spool = Private::make(&above.path().join("spool")).unwrap();
        let held = spool.lock("lock").unwrap();
        assert!(held.is_some());
        assert!(spool.lock("lock").unwrap().is_none());
        drop(held);
        assert!(spool.lock("lock").unwrap().is_some());
    }
}
