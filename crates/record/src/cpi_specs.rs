use serde::{Deserialize, Serialize};

use crate::version::{Kind, Record};

/// The normal CPI of jobs on one platform, as a fleet's agents fetch it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpiSpecs {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// The platform.
    pub platform: String,
    /// One for each job and source of CPI.
    pub specs: Vec<CpiSpec>,
}

/// The normal CPI of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpiSpec {
    /// The job.
    pub job: String,
    /// What CPI is here: `cycles/instructions`, or a substitute.
    pub cpi_source: String,
    /// When it was built, Unix time.
    pub built_unix_s: i64,
    /// Samples that it was built from.
    pub samples: u64,
    /// Tasks that they come from.
    pub tasks: u64,
    /// Mean CPU use of a task, CPU-seconds per second.
    pub cpu_usage_mean: f64,
    /// Mean CPI.
    pub cpi_mean: f64,
    /// Standard deviation of CPI.
    pub cpi_sd: f64,
    /// Standard deviations above the mean at which the threshold lies.
    pub threshold_sigmas: f64,
    /// CPI above which a sample is an outlier.
    pub threshold_cpi: f64,
}

impl Record for CpiSpecs {
    const KIND: &'static str = "cpi_specs";
}
