//! Every benchmark there is.

mod allocation;
mod buffer;
mod compression;
mod concurrency;
mod encryption;
mod hashing;
mod kernel;
mod memory;
mod rpc;
mod serialization;

use crate::TaxError;
use crate::benchmark::Microbenchmark;

/// All benchmarks, by category.
pub fn all() -> Vec<Box<dyn Microbenchmark>> {
    let mut found = Vec::new();
    found.extend(compression::benchmarks());
    found.extend(hashing::benchmarks());
    found.extend(serialization::benchmarks());
    found.extend(encryption::benchmarks());
    found.extend(memory::benchmarks());
    found.extend(allocation::benchmarks());
    found.extend(concurrency::benchmarks());
    found.extend(rpc::benchmarks());
    found.extend(kernel::benchmarks());
    found
}

/// The benchmarks whose name or category holds one of `only`; all of them when it is empty. A word that
/// fits none is an error.
pub fn select(only: &[String]) -> Result<Vec<Box<dyn Microbenchmark>>, TaxError> {
    let fits = |benchmark: &dyn Microbenchmark, word: &str| {
        benchmark.name().contains(word) || benchmark.category().name() == word
    };
    let mut found = all();
    if let Some(word) = only
        .iter()
        .find(|word| !found.iter().any(|b| fits(b.as_ref(), word)))
    {
        return Err(TaxError::Setting {
            name: "--only",
            why: format!("no benchmark or category matches {word:?}"),
        });
    }
    if !only.is_empty() {
        found.retain(|b| only.iter().any(|word| fits(b.as_ref(), word)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, Setup};

    #[test]
    fn names_are_unique_and_plain() {
        let mut names: Vec<String> = all().iter().map(|b| b.name().to_owned()).collect();
        for name in &names {
            assert!(
                name.bytes()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-'),
                "{name}"
            );
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_word_selects_by_name_or_category_and_must_fit_something() {
        let hashing = select(&["hashing".to_owned()]).expect("a category");
        assert!(hashing.iter().all(|b| b.category().name() == "hashing"));
        let crc = select(&["crc32c".to_owned()]).expect("a name");
        assert!(!crc.is_empty() && crc.len() < hashing.len());
        let error = select(&["crc32c".to_owned(), "typo".to_owned()]).err();
        assert!(matches!(error, Some(TaxError::Setting { .. })));
    }

    const SEEDED: [Category; 4] = [
        Category::Compression,
        Category::Hashing,
        Category::Serialization,
        Category::Encryption,
    ];

    /// The checksums of the benchmarks in `categories` that repeat their work, of one cycle on each of two workers.
    fn checksums(seed: u64, categories: &[Category]) -> Vec<(String, u64)> {
        let setup = Setup { seed, workers: 2 };
        let mut found = Vec::new();
        for benchmark in all() {
            let name = benchmark.name();
            if benchmark.waits()
                || !benchmark.repeats()
                || benchmark.missing(2).is_some()
                || !categories.contains(&benchmark.category())
            {
                continue;
            }
            let mut prepared = benchmark.prepare(&setup).expect(name);
            assert_eq!(prepared.workers.len(), 2, "{name}");
            let mut sums = Vec::new();
            for worker in &mut prepared.workers {
                worker.begin().expect(name);
                worker.verify().expect(name);
                sums.extend([worker.run(prepared.cycle), worker.run(prepared.cycle)]);
            }
            assert!(sums.iter().all(|&sum| sum == sums[0]), "{name}: {sums:x?}");
            found.push((name.to_owned(), sums[0]));
        }
        found
    }

    #[test]
    fn every_worker_verifies_and_repeats_its_work_and_the_seed_decides_it() {
        let first = checksums(3, &SEEDED);
        assert!(first.len() > 70, "{}", first.len());
        assert_eq!(first, checksums(3, &SEEDED));
        for ((name, one), (_, other)) in first.into_iter().zip(checksums(4, &SEEDED)) {
            // What decompresses a block tells its size and last byte only, which two seeds may share.
            if !name.contains("decompress") {
                assert_ne!(one, other, "{name}");
            }
        }
    }
}
