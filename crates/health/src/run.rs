//! The parts of a health check, one after the other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use steelyard_record::{
    Clock, HealthConditions, HealthResult, HealthSettings, Kind, Tool, monotonic_ns,
};

use crate::conditions::Conditions;
use crate::context::{Run, Settings};
use crate::error::HealthError;
use crate::topology::Topology;
use crate::{bandwidth, core_to_core, disk, latency, loopback};

/// The parts, in the order in which they are measured.
pub const PARTS: [&str; 5] = [
    "memory_latency",
    "memory_bandwidth",
    "core_to_core",
    "disk",
    "loopback",
];

impl Settings {
    /// Refuses what cannot be asked for.
    pub fn check(&self) -> Result<(), HealthError> {
        for part in &self.parts {
            if !PARTS.contains(&part.as_str()) {
                return Err(HealthError::Setting {
                    name: "--parts",
                    why: format!("{part:?} is not one of {}", PARTS.join(", ")),
                });
            }
        }
        if self.parts.iter().any(|part| part == "disk") {
            disk::check_directory(&self.directory)?;
        }
        Ok(())
    }
}

/// What a check needs besides its settings.
pub struct Surroundings<'a> {
    /// Command line, for the record.
    pub command: Vec<String>,
    /// Set to stop the check.
    pub stop: &'a AtomicBool,
    /// Called with the part under way and its progress, 0 to 1.
    pub progress: &'a (dyn Fn(&str, f64) + Sync),
}

/// Measures the parts that were asked for. Errors are those that make the whole check void: a wrong
/// setting, or a result that is not what the work must give.
pub fn run(
    settings: &Settings,
    topology: &Topology,
    surroundings: &Surroundings<'_>,
) -> Result<HealthResult, HealthError> {
    settings.check()?;
    let clock = Clock::now();
    let mut run = Run {
        settings,
        topology,
        missing: BTreeMap::new(),
        stop: surroundings.stop,
        progress: surroundings.progress,
    };
    let mut conditions = BTreeMap::new();
    let begin_ns = monotonic_ns();
    let memory_latency = part(
        &mut run,
        "memory_latency",
        &mut conditions,
        latency::measure,
    )?;
    let memory_bandwidth = part(
        &mut run,
        "memory_bandwidth",
        &mut conditions,
        bandwidth::measure,
    )?;
    let core_to_core = part(
        &mut run,
        "core_to_core",
        &mut conditions,
        core_to_core::measure,
    )?;
    let disk = part(&mut run, "disk", &mut conditions, disk::measure)?;
    let loopback = part(&mut run, "loopback", &mut conditions, loopback::measure)?;
    Ok(HealthResult {
        kind: Kind::of::<HealthResult>(),
        tool: Tool {
            name: "steelyard-tax".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        command: surroundings.command.clone(),
        clock,
        settings: HealthSettings {
            mode: settings.mode.name().to_owned(),
            parts: settings.parts.clone(),
            directory: settings.directory.to_string_lossy().into_owned(),
            seed: settings.seed,
        },
        machine: topology.record(),
        begin_ns,
        end_ns: monotonic_ns(),
        interrupted: surroundings.stop.load(Ordering::Relaxed),
        memory_latency,
        memory_bandwidth,
        core_to_core,
        disk,
        loopback,
        conditions,
        missing: run.missing,
    })
}

/// One part: none with a reason when it was not asked for or cannot be measured here.
fn part<T>(
    run: &mut Run<'_>,
    name: &str,
    conditions: &mut BTreeMap<String, HealthConditions>,
    measure: fn(&mut Run<'_>) -> Result<T, HealthError>,
) -> Result<Option<T>, HealthError> {
    if !run.settings.parts.iter().any(|part| part == name) {
        run.missing
            .insert(name.to_owned(), "not requested (--parts)".to_owned());
        return Ok(None);
    }
    run.progress(name, 0.0);
    let began = Conditions::start();
    let measured = run.check_stop().and_then(|()| measure(run));
    conditions.insert(name.to_owned(), began.end());
    match measured {
        Ok(value) => Ok(Some(value)),
        Err(error @ (HealthError::Wrong(_) | HealthError::Setting { .. })) => Err(error),
        Err(error) => {
            run.missing.insert(name.to_owned(), error.to_string());
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{settings, topology_with};

    #[test]
    fn every_part_is_there_or_has_a_reason() {
        let surroundings = Surroundings {
            command: vec![],
            stop: &AtomicBool::new(true),
            progress: &|_, _| {},
        };
        let topology = topology_with(1 << 20, 1 << 30);
        let result = run(&settings(&["core_to_core"]), &topology, &surroundings).expect("a result");
        assert!(result.interrupted);
        assert_eq!(result.missing["core_to_core"], "interrupted");
        assert_eq!(result.missing["disk"], "not requested (--parts)");
        assert_eq!(result.missing.len(), PARTS.len());
    }

    #[test]
    fn an_unknown_part_is_refused() {
        let error = settings(&["memory"]).check().expect_err("refused");
        assert!(
            error
                .to_string()
                .contains("\"memory\" is not one of memory_latency"),
            "{error}"
        );
    }
}
