//! Sizes by a distribution's quantiles.

use serde::Deserialize;

/// A distribution file: points between which the size is linear in the quantile.
#[derive(Debug, Deserialize)]
pub struct Sizes {
    quantiles: Vec<(f64, f64)>,
}

impl Sizes {
    /// Reads a file that is part of the program.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).expect("a file of this repository, which a test reads")
    }

    /// The size at quantile `at`, in whole bytes.
    pub fn at(&self, at: f64) -> usize {
        let above = self
            .quantiles
            .partition_point(|&(quantile, _)| quantile < at)
            .clamp(1, self.quantiles.len() - 1);
        let ((q0, low), (q1, high)) = (self.quantiles[above - 1], self.quantiles[above]);
        (low + (high - low) * (at - q0) / (q1 - q0)).round() as usize
    }

    /// `count` sizes at evenly spaced quantiles: their distribution is as near the file's as so many can be.
    pub fn evenly(&self, count: usize) -> Vec<usize> {
        (0..count)
            .map(|index| self.at((index as f64 + 0.5) / count as f64))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_published_quantiles() {
        let sizes = Sizes::parse(include_str!("../../../../data/tax/message-sizes.json"));
        for (quantile, bytes) in [(0.0, 2), (0.24, 8), (0.56, 32), (0.93, 512), (1.0, 32_768)] {
            assert_eq!(sizes.at(quantile), bytes, "{quantile}");
        }
        let many = sizes.evenly(1000);
        let share = |most| many.iter().filter(|&&n| n <= most).count() as f64 / 1000.0;
        assert!((share(8) - 0.24).abs() < 0.03 && (share(32) - 0.56).abs() < 0.02);
        assert!((share(512) - 0.93).abs() < 0.002);
    }
}
