//! Object sizes from an empirical distribution: a file of quantiles, between which values are interpolated.
//!
//! In: `{"kind": "distribution", "unit": "bytes", "quantiles": [[q, value], ...]}` with q from 0 to 1. Out: a
//! size as a function of a number in 0..1. Invariant: sizes never leave the range of the file.

use std::path::Path;

use serde::Deserialize;

use crate::CacheError;

#[derive(Deserialize)]
struct File {
    schema_version: String,
    kind: String,
    unit: String,
    quantiles: Vec<(f64, f64)>,
}

/// A distribution of sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    quantiles: Vec<(f64, f64)>,
}

impl Sizes {
    /// Every object has this size.
    pub fn constant(bytes: usize) -> Self {
        Self {
            quantiles: vec![(0.0, bytes as f64), (1.0, bytes as f64)],
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, CacheError> {
        let fail = |reason: String| CacheError::ObjectSizes {
            path: path.to_owned(),
            reason,
        };
        let text = steelyard_record::read_text_file(path, steelyard_record::FILE_BYTES_MAX)
            .map_err(|error| fail(error.to_string()))?;
        let file: File = serde_json::from_str(&text)
            .map_err(|error| fail(format!("not a distribution with quantiles: {error}")))?;
        Self::from_file(file).map_err(fail)
    }

    fn from_file(file: File) -> Result<Self, String> {
        if file.schema_version.split('.').next() != Some("1") {
            return Err(format!(
                "schema version {} is not supported (this program reads 1.x)",
                file.schema_version
            ));
        }
        if file.kind != "distribution" || file.unit != "bytes" {
            return Err(format!(
                "this is a {:?} in {:?}, expected a \"distribution\" in \"bytes\"",
                file.kind, file.unit
            ));
        }
        let quantiles = file.quantiles;
        let ends = (quantiles.first(), quantiles.last());
        let (Some(first), Some(last)) = ends else {
            return Err("there are no quantiles".to_owned());
        };
        if first.0 != 0.0 || last.0 != 1.0 {
            return Err("quantiles must run from 0 to 1".to_owned());
        }
        for pair in quantiles.windows(2) {
            if !(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1) {
                return Err(format!(
                    "quantiles must rise: {:?} then {:?}",
                    pair[0], pair[1]
                ));
            }
        }
        if !(first.1 >= 0.0 && last.1.is_finite()) {
            return Err("sizes must be finite and not negative".to_owned());
        }
        Ok(Self { quantiles })
    }

    /// The largest size.
    pub fn largest_bytes(&self) -> usize {
        self.quantiles
            .last()
            .map_or(0, |last| last.1.round() as usize)
    }

    /// The size below which a share `quantile` of objects lie.
    pub fn at(&self, quantile: f64) -> usize {
        let after = self.quantiles.partition_point(|&(q, _)| q <= quantile);
        let upper = self.quantiles[after.min(self.quantiles.len() - 1)];
        let lower = self.quantiles[after.saturating_sub(1)];
        let width = upper.0 - lower.0;
        let share = if width > 0.0 {
            (quantile - lower.0) / width
        } else {
            0.0
        };
        (lower.1 + share * (upper.1 - lower.1)).round() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Sizes, CacheError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sizes.json");
        std::fs::write(&path, text).unwrap();
        Sizes::read(&path)
    }

    #[test]
    fn interpolates_between_quantiles() {
        let sizes = read(
            r#"{"schema_version":"1.0","kind":"distribution","unit":"bytes","quantiles":[[0,10],[0.5,20],[1,100]]}"#,
        )
        .unwrap();
        let at = [0.0, 0.25, 0.5, 0.75, 1.0].map(|quantile| sizes.at(quantile));
        assert_eq!(at, [10, 15, 20, 60, 100]);
        assert_eq!(sizes.largest_bytes(), 100);
    }

    #[test]
    fn refuses_other_files() {
        let text = |version: &str, kind: &str, quantiles: &str| {
            format!(
                r#"{{"schema_version":"{version}","kind":"{kind}","unit":"bytes","quantiles":{quantiles}}}"#
            )
        };
        for (text, word) in [
            ("{".to_owned(), "not a distribution"),
            (
                text("2.0", "distribution", "[[0,1],[1,2]]"),
                "schema version 2.0",
            ),
            (text("1.0", "run", "[[0,1],[1,2]]"), "run"),
            (text("1.0", "distribution", "[]"), "no quantiles"),
            (
                text("1.0", "distribution", "[[0,1],[0.9,2]]"),
                "from 0 to 1",
            ),
            (text("1.0", "distribution", "[[0,2],[1,1]]"), "must rise"),
            (
                text("1.0", "distribution", "[[0,-2],[1,1]]"),
                "not negative",
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
