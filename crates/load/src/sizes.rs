//! Sizes of keys and values: a number, or an empirical distribution from a file.
//!
//! The file holds a quantile function, `{"schema_version":"1.0","kind":"distribution","unit":"bytes",
//! "quantiles":[[0,MIN],...,[1,MAX]]}`, read with linear interpolation between its points. A size is taken at
//! a quantile that the caller hashes from the key, so it is a pure function of the key.

use std::path::Path;

use serde::Deserialize;

use steelyard_record::{FILE_BYTES_MAX, read_text_file};

use crate::LoadError;

/// Largest size of a key or a value, bytes.
pub const SIZE_BYTES_MAX: usize = 64 << 20;

/// Where sizes come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// Quantile and size, ascending in both; a fixed size has one point.
    points: Vec<(f64, f64)>,
    /// How the user named it.
    name: String,
    /// The size of a fixed one: asked for at every request.
    only: Option<usize>,
}

#[derive(Deserialize)]
struct File {
    schema_version: String,
    kind: String,
    unit: String,
    quantiles: Vec<(f64, f64)>,
}

impl Sizes {
    /// Always `bytes`.
    pub fn fixed(bytes: usize) -> Self {
        Self {
            points: vec![(0.0, bytes as f64)],
            name: bytes.to_string(),
            only: Some(bytes),
        }
    }

    /// A number of bytes up to [`SIZE_BYTES_MAX`], or else the name of a distribution file. `flag` is what an error names.
    pub fn parse(text: &str, flag: &'static str) -> Result<Self, LoadError> {
        if text.is_empty() || text.bytes().any(|byte| !byte.is_ascii_digit()) {
            return Self::read(Path::new(text));
        }
        match text.parse() {
            Ok(bytes) if bytes <= SIZE_BYTES_MAX => Ok(Self::fixed(bytes)),
            _ => Err(LoadError::setting(
                flag,
                format!("{text} bytes are more than {SIZE_BYTES_MAX}"),
            )),
        }
    }

    /// The distribution in the file `path`.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let bad = |why: String| LoadError::Distribution {
            path: path.to_owned(),
            why,
        };
        let text = read_text_file(path, FILE_BYTES_MAX).map_err(|source| LoadError::File {
            path: path.to_owned(),
            source,
        })?;
        let file: File = serde_json::from_str(&text)
            .map_err(|error| bad(format!("not a distribution: {error}")))?;
        if file.kind != "distribution" {
            return Err(bad(format!(
                "this is a {:?} record, expected \"distribution\"",
                file.kind
            )));
        }
        if file.schema_version.split('.').next() != Some("1") {
            return Err(bad(format!(
                "schema version {} of distribution is not supported (this program reads 1.x)",
                file.schema_version
            )));
        }
        if file.unit != "bytes" {
            return Err(bad(format!(
                "unit is {:?}, sizes need \"bytes\"",
                file.unit
            )));
        }
        Self::quantiles(file.quantiles, path.display().to_string()).map_err(bad)
    }

    /// The distribution with these points of its quantile function.
    pub fn quantiles(points: Vec<(f64, f64)>, name: String) -> Result<Self, String> {
        let first = points.first().ok_or("it has no quantiles")?;
        let last = points.last().ok_or("it has no quantiles")?;
        if first.0 != 0.0 || last.0 != 1.0 {
            return Err("quantiles must run from 0 to 1".to_owned());
        }
        if points
            .iter()
            .any(|p| !p.0.is_finite() || !p.1.is_finite() || p.1 < 0.0)
        {
            return Err("quantiles must be finite and sizes not negative".to_owned());
        }
        if last.1 > SIZE_BYTES_MAX as f64 {
            return Err(format!(
                "a size of {} bytes is more than {SIZE_BYTES_MAX}",
                last.1
            ));
        }
        if let Some(pair) = points
            .windows(2)
            .find(|w| w[1].0 <= w[0].0 || w[1].1 < w[0].1)
        {
            return Err(format!(
                "quantiles must ascend, sizes must not fall: see {:?}",
                pair[1]
            ));
        }
        Ok(Self {
            points,
            name,
            only: None,
        })
    }

    /// The only size that there is, where there is only one.
    #[inline]
    pub fn only(&self) -> Option<usize> {
        self.only
    }

    /// The size in bytes at `quantile` in [0, 1], to the nearest byte.
    pub fn at(&self, quantile: f64) -> usize {
        let upper = self.points.partition_point(|p| p.0 <= quantile);
        let (q0, size0) = self.points[upper.saturating_sub(1)];
        let size = match self.points.get(upper) {
            Some(&(q1, size1)) if upper > 0 => {
                size0 + (size1 - size0) * (quantile - q0) / (q1 - q0)
            }
            _ => size0,
        };
        size.round() as usize
    }

    /// The largest size.
    pub fn largest(&self) -> usize {
        self.at(1.0)
    }

    /// The number or the file's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_interpolated_linearly() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(
            file,
            r#"{{"schema_version":"1.0","kind":"distribution","unit":"bytes","quantiles":[[0,10],[0.5,20],[1,120]],"source":"test"}}"#
        )
        .unwrap();
        let sizes = Sizes::parse(file.path().to_str().unwrap(), "--value-sizes").unwrap();
        assert_eq!(sizes.at(0.0), 10);
        assert_eq!(sizes.at(0.25), 15);
        assert_eq!(sizes.at(0.5), 20);
        assert_eq!(sizes.at(0.75), 70);
        assert_eq!(sizes.at(1.0), 120);
        assert_eq!(sizes.largest(), 120);
    }

    #[test]
    fn bad_distributions_are_refused_with_the_reason() {
        let case =
            |points: &[(f64, f64)]| Sizes::quantiles(points.to_vec(), String::new()).unwrap_err();
        assert!(case(&[]).contains("no quantiles"));
        assert!(case(&[(0.1, 1.0), (1.0, 2.0)]).contains("from 0 to 1"));
        assert!(case(&[(0.0, 5.0), (0.5, 4.0), (1.0, 6.0)]).contains("must not fall"));
        assert!(case(&[(0.0, -1.0), (1.0, 6.0)]).contains("not negative"));
        assert!(
            Sizes::parse("/nowhere/sizes.json", "--value-sizes")
                .unwrap_err()
                .to_string()
                .contains("/nowhere")
        );
    }
}
