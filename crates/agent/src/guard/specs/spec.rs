//! What is normal: the specifications of jobs on this machine's platform.

use std::collections::HashMap;

use steelyard_record::CpiSpec;

/// CPI above which a sample is an outlier, by standard deviations above the mean if they are given.
pub fn threshold(spec: &CpiSpec, sigmas: Option<f64>) -> f64 {
    sigmas.map_or(spec.threshold_cpi, |sigmas| {
        spec.cpi_mean + sigmas * spec.cpi_sd
    })
}

/// Why a specification cannot be used, if it cannot.
fn fault(spec: &CpiSpec) -> Option<&'static str> {
    let figures = [spec.cpi_mean, spec.cpi_sd, spec.threshold_cpi];
    if figures.iter().any(|value| !value.is_finite()) {
        return Some("a value that is not finite");
    }
    if spec.cpi_mean <= 0.0 || spec.cpi_sd < 0.0 || spec.threshold_cpi <= 0.0 {
        return Some("a value that is negative or 0");
    }
    None
}

/// The newest specification of each job and source of CPI, for one platform.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Specs {
    by_job: HashMap<String, Vec<CpiSpec>>,
    rejected: usize,
}

impl Specs {
    /// The newest of `rows` for each job and source. Rows that cannot be true are left out and counted.
    pub fn newest(rows: impl IntoIterator<Item = CpiSpec>) -> Self {
        let mut specs = Self::default();
        for row in rows {
            if fault(&row).is_some() {
                specs.rejected += 1;
                continue;
            }
            let of_job = specs.by_job.entry(row.job.clone()).or_default();
            match of_job
                .iter_mut()
                .find(|known| known.cpi_source == row.cpi_source)
            {
                Some(known) if known.built_unix_s >= row.built_unix_s => {}
                Some(known) => *known = row,
                None => of_job.push(row),
            }
        }
        specs
    }

    /// The specification of `job` for samples of this source.
    pub fn find(&self, job: &str, cpi_source: &str) -> Option<&CpiSpec> {
        self.by_job
            .get(job)?
            .iter()
            .find(|spec| spec.cpi_source == cpi_source)
    }

    /// Whether there is a specification of `job` for any source.
    pub fn knows(&self, job: &str) -> bool {
        self.by_job.contains_key(job)
    }

    /// Specifications held.
    pub fn len(&self) -> usize {
        self.by_job.values().map(Vec::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_job.is_empty()
    }

    /// Rows that could not be true.
    pub fn rejected(&self) -> usize {
        self.rejected
    }

    /// When the newest of them was built, in seconds of Unix time.
    pub fn built_unix_s(&self) -> Option<i64> {
        self.by_job
            .values()
            .flatten()
            .map(|spec| spec.built_unix_s)
            .max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::spec;

    fn built(job: &str, source: &str, built_unix_s: i64) -> CpiSpec {
        CpiSpec {
            cpi_source: source.into(),
            built_unix_s,
            ..spec(job, 1.8, 0.16, 2.3)
        }
    }

    #[test]
    fn the_newest_of_each_source_is_kept_in_any_order() {
        let rows = [
            built("web", "a", 20),
            built("web", "a", 30),
            built("web", "a", 10),
            built("web", "b", 5),
        ];
        let specs = Specs::newest(rows);
        assert_eq!(specs.len(), 2);
        assert_eq!(specs.find("web", "a").unwrap().built_unix_s, 30);
        assert_eq!(specs.find("web", "b").unwrap().built_unix_s, 5);
        assert_eq!(specs.find("web", "c"), None);
        assert_eq!(specs.built_unix_s(), Some(30));
    }

    #[test]
    fn what_cannot_be_true_is_counted_and_not_used() {
        let mut wrong = built("web", "a", 40);
        wrong.cpi_sd = f64::NAN;
        let specs = Specs::newest([built("web", "a", 20), wrong]);
        assert_eq!(specs.rejected(), 1);
        assert_eq!(specs.find("web", "a").unwrap().built_unix_s, 20);
    }

    #[test]
    fn the_threshold_is_the_specs_own_unless_sigmas_are_given() {
        let spec = spec("web", 1.8, 0.16, 2.3);
        assert_eq!(threshold(&spec, None), 2.3);
        assert!((threshold(&spec, Some(2.0)) - 2.12).abs() < 1e-12);
    }
}
