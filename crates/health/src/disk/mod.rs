//! Sequential and random access to a file, past the page cache.
//!
//! The file has no name (O_TMPFILE, or unlinked at once), so that the kernel removes it whatever ends this
//! process. Raw devices are never touched. Where the file system has no O_DIRECT the part is null: through the
//! page cache it would measure memory. The built-in engine marks every block with its number and checks every
//! block that it reads.

mod access;
mod file;
mod fio;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use steelyard_record::{DiskHealth, DiskRow};
use steelyard_statistics::{Random, nearest_rank};

pub use self::fio::parse as parse_fio;

use self::access::{Access, Measured, Pattern};
use self::file::{
    Buffer, RANDOM_BLOCK, SEQUENTIAL_BLOCK, file_size, mounted, unnamed, write_blocks,
};
use crate::context::{Mode, Run};
use crate::error::HealthError;
use crate::estimate::estimate;

/// Reads come first: what a write leaves behind in the device slows the next part.
const ACCESSES: [Access; 6] = [
    Access {
        pattern: Pattern::SequentialRead,
        block_bytes: SEQUENTIAL_BLOCK,
        depth: 8,
    },
    Access {
        pattern: Pattern::RandomRead,
        block_bytes: RANDOM_BLOCK,
        depth: 1,
    },
    Access {
        pattern: Pattern::RandomRead,
        block_bytes: RANDOM_BLOCK,
        depth: 32,
    },
    Access {
        pattern: Pattern::SequentialWrite,
        block_bytes: SEQUENTIAL_BLOCK,
        depth: 8,
    },
    Access {
        pattern: Pattern::RandomWrite,
        block_bytes: RANDOM_BLOCK,
        depth: 1,
    },
    Access {
        pattern: Pattern::RandomWrite,
        block_bytes: RANDOM_BLOCK,
        depth: 32,
    },
];

/// Refuses whatever is not a folder, block devices first of all.
pub(crate) fn check_directory(directory: &Path) -> Result<(), HealthError> {
    let setting = |why: String| HealthError::Setting {
        name: "--directory",
        why,
    };
    let metadata = fs::metadata(directory)
        .map_err(|error| setting(format!("{}: {error}", directory.display())))?;
    if metadata.file_type().is_block_device() {
        return Err(setting(format!(
            "{} is a block device; the check writes to files only: give a folder on its file system",
            directory.display()
        )));
    }
    if !metadata.is_dir() {
        return Err(setting(format!("{} is not a folder", directory.display())));
    }
    Ok(())
}

/// Measures every access pattern in turn, as many times as the mode says.
pub(crate) fn measure(run: &mut Run<'_>) -> Result<DiskHealth, HealthError> {
    let directory = run.settings.directory.clone();
    check_directory(&directory)?;
    let (wanted, repeats, duration) = match run.settings.mode {
        Mode::Quick => (256 << 20, 3, Duration::from_millis(300)),
        Mode::Full => (1 << 30, 7, Duration::from_millis(700)),
    };
    let file_bytes = file_size(&directory, wanted)?;
    let file = unnamed(&directory)?;
    write_blocks(&file, file_bytes, run)?;
    let version = if run.settings.fio {
        fio::version()
    } else {
        None
    };
    let mut measured = vec![Vec::new(); ACCESSES.len()];
    let mut missing = vec![None; ACCESSES.len()];
    // Round after round, so that a slow spell of the device falls on every pattern.
    for round in 0..repeats {
        for (index, access) in ACCESSES.iter().enumerate() {
            run.check_stop()?;
            run.progress(
                "disk",
                (round * ACCESSES.len() + index) as f64 / (repeats * ACCESSES.len()) as f64,
            );
            let seed = run
                .settings
                .seed
                .wrapping_add((round * ACCESSES.len() + index) as u64);
            let one = match version {
                Some(_) => fio::run(file.as_raw_fd(), file_bytes, access, duration, seed),
                None => built_in(&file, file_bytes, access, duration, seed),
            };
            match one {
                Ok(one) => measured[index].push(one),
                Err(error @ HealthError::Wrong(_)) => return Err(error),
                Err(error) => missing[index] = Some(error.to_string()),
            }
        }
    }
    let (file_system, device) = mounted(&directory);
    Ok(DiskHealth {
        engine: version.unwrap_or_else(|| "built-in".to_owned()),
        directory: directory.to_string_lossy().into_owned(),
        file_system,
        device,
        file_bytes,
        direct: true,
        rows: ACCESSES
            .iter()
            .zip(measured)
            .zip(missing)
            .map(|((access, measured), missing)| row(access, &measured, missing))
            .collect(),
    })
}

fn row(access: &Access, measured: &[Measured], missing: Option<String>) -> DiskRow {
    // A pattern that failed once has no values: its good repeats are not a fair choice.
    let measured = if missing.is_some() { &[] } else { measured };
    let of = |value: fn(&Measured) -> Option<f64>| {
        let values: Option<Vec<f64>> = measured.iter().map(value).collect();
        estimate(values?)
    };
    DiskRow {
        pattern: access.pattern.name().to_owned(),
        block_bytes: access.block_bytes as u64,
        depth: access.depth,
        rate_bytes_per_s: of(|one| Some(one.rate_bytes_per_s)),
        operations_per_s: of(|one| Some(one.operations_per_s)),
        latency_p50_ns: of(|one| one.latency_p50_ns),
        latency_p99_ns: of(|one| one.latency_p99_ns),
        missing,
    }
}

/// One repeat by threads of this process, one for each operation in flight.
fn built_in(
    file: &File,
    file_bytes: u64,
    access: &Access,
    duration: Duration,
    seed: u64,
) -> Result<Measured, HealthError> {
    let blocks = file_bytes / access.block_bytes as u64;
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let mut prepared = Vec::new();
    for thread in 0..access.depth {
        let mut random = Random::stream(seed, &format!("disk {thread}"));
        let buffer = Buffer::new(access.block_bytes)?;
        buffer.fill(&mut random);
        prepared.push((random, buffer));
    }
    let began = Instant::now();
    let work = |mut random: Random, buffer: Buffer| -> Result<Vec<u64>, HealthError> {
        let mut times = Vec::new();
        // On a machine that is busy a thread may begin when the time is over: each does one operation at least.
        while times.is_empty() || began.elapsed() < duration && !failed.load(Ordering::Relaxed) {
            let block = if access.pattern.is_random() {
                random.below(blocks)
            } else {
                next.fetch_add(1, Ordering::Relaxed) % blocks
            };
            let start = block * access.block_bytes as u64;
            if !access.pattern.is_read() {
                buffer.mark(start);
            }
            let sent = Instant::now();
            let done = if access.pattern.is_read() {
                file.read_exact_at(buffer.bytes(), start)
            } else {
                file.write_all_at(buffer.bytes(), start)
            };
            times.push(sent.elapsed().as_nanos() as u64);
            done.map_err(HealthError::io(access.pattern.name()))?;
            if access.pattern.is_read() && !buffer.is_marked(start) {
                return Err(HealthError::Wrong(format!(
                    "block {block} of a file in the folder"
                )));
            }
        }
        Ok(times)
    };
    let results: Vec<Result<Vec<u64>, HealthError>> = std::thread::scope(|scope| {
        let (work, failed) = (&work, &failed);
        let workers: Vec<_> = prepared
            .into_iter()
            .map(|(random, buffer)| {
                scope.spawn(move || {
                    let result = work(random, buffer);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    result
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("the thread does not panic"))
            .collect()
    });
    let took_s = began.elapsed().as_secs_f64();
    let mut times = Vec::new();
    for result in results {
        times.append(&mut result?);
    }
    let operations_per_s = times.len() as f64 / took_s;
    Ok(Measured {
        rate_bytes_per_s: operations_per_s * access.block_bytes as f64,
        operations_per_s,
        latency_p50_ns: nearest_rank(&mut times, 0.5),
        latency_p99_ns: nearest_rank(&mut times, 0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_files_and_nothing_are_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for path in [
            file.path(),
            Path::new("/dev/null"),
            Path::new("/does/not/exist"),
        ] {
            let error = check_directory(path).expect_err("refused");
            assert!(error.to_string().starts_with("--directory"), "{error}");
        }
        let device = fs::read_dir("/dev")
            .expect("/dev")
            .flatten()
            .map(|entry| entry.path())
            .find(|path| {
                fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
            });
        if let Some(device) = device {
            let error = check_directory(&device).expect_err("refused").to_string();
            assert!(error.contains("is a block device"), "{error}");
        }
    }

    #[test]
    fn the_built_in_engine_checks_what_it_reads_and_leaves_no_file() {
        // Beside the sources, which are on a disk more often than /tmp.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let file = match unnamed(folder.path()) {
            Ok(file) => file,
            Err(error @ HealthError::Unavailable(_)) => return println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(
            fs::read_dir(folder.path()).expect("a folder").count(),
            0,
            "it has no name"
        );
        let bytes = 4u64 << 20;
        let buffer = Buffer::new(SEQUENTIAL_BLOCK).expect("memory");
        for start in (0..bytes).step_by(SEQUENTIAL_BLOCK) {
            buffer.mark(start);
            file.write_all_at(buffer.bytes(), start).expect("written");
        }
        for access in &ACCESSES {
            let found =
                built_in(&file, bytes, access, Duration::from_millis(20), 1).expect("measured");
            assert!(found.operations_per_s > 0.0 && found.latency_p50_ns <= found.latency_p99_ns);
        }
        // One block that does not hold what was written there.
        buffer.mark(bytes);
        file.write_all_at(buffer.bytes(), 0).expect("written");
        let access = Access {
            pattern: Pattern::SequentialRead,
            ..ACCESSES[0]
        };
        let error =
            built_in(&file, bytes, &access, Duration::from_millis(200), 1).expect_err("wrong");
        assert!(matches!(error, HealthError::Wrong(_)), "{error}");
    }

    #[test]
    fn a_full_disk_and_a_pattern_that_failed_have_reasons() {
        let error = file_size(Path::new("/proc"), 1 << 30).expect_err("no space there");
        assert!(
            error.to_string().contains("/proc has 0 bytes free"),
            "{error}"
        );
        let good = Measured {
            rate_bytes_per_s: 1.0,
            operations_per_s: 1.0,
            latency_p50_ns: None,
            latency_p99_ns: Some(2.0),
        };
        let whole = row(&ACCESSES[0], &[good, good], None);
        assert!(whole.rate_bytes_per_s.is_some() && whole.latency_p50_ns.is_none());
        let broken = row(&ACCESSES[0], &[good], Some("why".to_owned()));
        assert_eq!(
            (broken.rate_bytes_per_s, broken.missing.as_deref()),
            (None, Some("why"))
        );
    }
}
