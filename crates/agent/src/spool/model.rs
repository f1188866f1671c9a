//! A disk for tests that stops at any step: as a killed process leaves it, or as a loss of power does.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::Disk;

/// What happens at the step that is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hit {
    /// The process is killed in the middle of the step.
    Kill,
    /// Power fails in the middle of the step: what was not synced is gone.
    Power,
    /// The step fails, others do not.
    Fail,
    /// The step and all after it fail, as on a full disk; what was begun stays.
    Full,
}

#[derive(Debug, Clone, Default)]
struct File {
    content: Vec<u8>,
    safe: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    files: Vec<File>,
    names: BTreeMap<PathBuf, usize>,
    safe_names: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
    steps: usize,
    plan: Option<(usize, Hit)>,
    is_dead: bool,
}

/// The disk; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct Model(Arc<Mutex<State>>);

/// What may be done in a step.
enum Go {
    Whole,
    /// Half of it, and then the error.
    Half(io::Error),
}

fn died() -> io::Error {
    io::Error::other("the machine is gone")
}

impl Model {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .expect("no test panics while it has the state")
    }

    /// Lets `hit` happen at a step, counted from 0 from now on.
    pub fn plan(&self, step: usize, hit: Hit) {
        let mut state = self.state();
        state.steps = 0;
        state.plan = Some((step, hit));
    }

    /// Steps since the plan was made.
    pub fn steps(&self) -> usize {
        self.state().steps
    }

    /// Whether a kill or loss of power has come.
    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// The machine is there again, without a plan.
    pub fn revive(&self) {
        let mut state = self.state();
        state.is_dead = false;
        state.plan = None;
    }

    /// Names and contents of the files below `folder`.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let below = state.names.iter().filter_map(|(path, number)| {
            let name = path.strip_prefix(folder).ok()?;
            Some((
                name.display().to_string(),
                state.files[*number].content.clone(),
            ))
        });
        below.collect()
    }

    fn step(&self) -> io::Result<Go> {
        let mut state = self.state();
        if state.is_dead {
            return Err(died());
        }
        let step = state.steps;
        state.steps += 1;
        match state.plan {
            Some((at, Hit::Kill | Hit::Power)) if at == step => Ok(Go::Half(died())),
            Some((at, Hit::Fail)) if at == step => Err(io::Error::other("the step failed")),
            Some((at, Hit::Full)) if at <= step => {
                Ok(Go::Half(io::Error::from(io::ErrorKind::StorageFull)))
            }
            _ => Ok(Go::Whole),
        }
    }

    /// Ends a step that was done by half.
    fn end(&self, go: Go) -> io::Result<()> {
        let Go::Half(error) = go else {
            return Ok(());
        };
        let mut state = self.state();
        match state.plan {
            Some((_, Hit::Kill)) => state.is_dead = true,
            Some((_, Hit::Power)) => {
                state.is_dead = true;
                state.names = state.safe_names.clone();
                for file in &mut state.files {
                    // What was not synced may be there by half.
                    let more = file.content.len().saturating_sub(file.safe.len()) / 2;
                    if file.content.starts_with(&file.safe) {
                        file.content.truncate(file.safe.len() + more);
                    } else {
                        file.content = file.safe.clone();
                    }
                }
            }
            _ => {}
        }
        Err(error)
    }
}

impl Disk for Model {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let go = self.step()?;
        let above = path.ancestors().map(Path::to_owned);
        self.state().folders.extend(above);
        self.end(go)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        if state.is_dead {
            return Err(died());
        }
        let names = state.names.keys().chain(&state.folders);
        let inside = names.filter(|name| name.parent() == Some(path));
        let inside = inside.filter_map(|name| Some(name.file_name()?.to_str()?.to_owned()));
        let inside: BTreeSet<String> = inside.collect();
        Ok(inside.into_iter().collect())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.state();
        if state.is_dead {
            return Err(died());
        }
        let number = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.files[*number].content.clone())
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(self.read(path)?.len() as u64)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let go = self.step()?;
        let part = match go {
            Go::Whole => bytes,
            Go::Half(_) => &bytes[..bytes.len() / 2],
        };
        let mut state = self.state();
        let number = match state.names.get(path) {
            Some(number) => *number,
            None => {
                state.files.push(File::default());
                let number = state.files.len() - 1;
                state.names.insert(path.to_owned(), number);
                number
            }
        };
        state.files[number].content.extend(part);
        drop(state);
        self.end(go)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let go = self.step()?;
        if matches!(go, Go::Whole) {
            let mut state = self.state();
            let number = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
            state.files[number].content.truncate(length as usize);
        }
        self.end(go)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let go = self.step()?;
        if matches!(go, Go::Whole) {
            let mut state = self.state();
            if let Some(number) = state.names.get(path).copied() {
                state.files[number].safe = state.files[number].content.clone();
            } else {
                // A folder: its names are safe now, those that went are gone for good.
                let inside = |name: &Path| name.parent() == Some(path);
                state.safe_names.retain(|name, _| !inside(name));
                let now: Vec<_> = state
                    .names
                    .iter()
                    .filter(|(name, _)| inside(name))
                    .map(|(name, number)| (name.clone(), *number))
                    .collect();
                state.safe_names.extend(now);
            }
        }
        self.end(go)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let go = self.step()?;
        // A rename is whole or not at all: at a kill the kernel has done it, at a failure it has not.
        let plan = self.state().plan;
        if matches!(go, Go::Whole) || matches!(plan, Some((_, Hit::Kill | Hit::Power))) {
            let mut state = self.state();
            let number = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.names.insert(to.to_owned(), number);
        }
        self.end(go)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let go = self.step()?;
        if matches!(go, Go::Whole) {
            self.state().names.remove(path);
        }
        self.end(go)
    }
}
