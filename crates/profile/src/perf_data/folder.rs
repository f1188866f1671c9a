//! A folder of `perf record --threads`: `data`, a whole perf.data file, and `data.0`, `data.1` ..., the records that
//! each of its threads wrote.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::read_with;
use crate::Profile;
use crate::input::Wanted;

/// The file with the header.
pub const MAIN_FILE: &str = "data";

/// Files of one folder that are read at most: one a CPU.
const MOST_FILES: usize = 1 << 14;

/// Whether a folder is one of `perf record --threads`.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir() && path.join(MAIN_FILE).is_file()
}

/// Reads a folder.
///
/// # Errors
/// One sentence that says why it is none.
pub fn read_folder(path: &Path, wanted: &Wanted<'_>) -> Result<Profile, String> {
    let main = File::open(path.join(MAIN_FILE)).map_err(|error| error.to_string())?;
    let parts = parts(path);
    read_with(main, wanted, |reading| {
        // Rounds are marked in each file for itself, and one may end before another begins: order is made at the end.
        for part in parts {
            match File::open(&part) {
                Ok(file) => reading.part(&mut BufReader::with_capacity(1 << 18, file)),
                Err(error) => reading.note(&format!("{} is left out: {error}", part.display())),
            }
        }
    })
}

/// The files of the threads, in the order of their numbers.
fn parts(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix("data.")?.parse().ok()?;
            Some((number, entry.path()))
        })
        .take(MOST_FILES)
        .collect();
    numbered.sort();
    numbered.into_iter().map(|(_, path)| path).collect()
}
