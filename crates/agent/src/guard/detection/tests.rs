//! The rules as `schemas/golden/cpi2_vectors.json` states them for both languages.

use serde_json::Value;

use super::decide::{Groups, decide};
use super::evidence::{Bar, Series, weigh};
use super::history::{History, Suspect};
use super::sample::TaskName;
use super::suspects::correlation;
use crate::guard::settings::Settings;
use crate::guard::testing::{name, sample};
use crate::rows::JobClass;

fn vectors(section: &str) -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../schemas/golden/cpi2_vectors.json"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let cases = all[section].as_array().unwrap().clone();
    assert!(cases.len() >= 10, "{section}");
    cases
}

fn numbers(value: &Value) -> Vec<Option<f64>> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_f64)
        .collect()
}

fn pairs(cpi: &[Option<f64>], usage: &[Option<f64>]) -> Vec<(f64, f64)> {
    assert_eq!(cpi.len(), usage.len());
    cpi.iter()
        .zip(usage)
        .filter_map(|(&cpi, &usage)| cpi.zip(usage))
        .collect()
}

fn close(found: Option<f64>, expected: Option<f64>) -> bool {
    match (found, expected) {
        (None, None) => true,
        (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
        _ => false,
    }
}

#[test]
fn correlations() {
    for case in vectors("correlation") {
        let points = pairs(
            &numbers(&case["victim_cpi"]),
            &numbers(&case["suspect_usage"]),
        );
        let threshold = case["threshold_cpi"].as_f64().unwrap();
        let found = correlation(points.iter().copied(), threshold);
        let expected = case["correlation"].as_f64();
        assert!(close(found, expected), "{}: {found:?}", case["name"]);
    }
}

#[test]
fn anomalies() {
    for case in vectors("anomaly") {
        let figure = |key: &str| case[key].as_f64().unwrap();
        let mut history = History::new(600.0);
        let expected = case["expected_outlier"].as_array().unwrap();
        let anomalous = case["expected_anomalous"].as_array().unwrap();
        let rows = case["samples"].as_array().unwrap();
        for ((row, outlier), anomaly) in rows.iter().zip(expected).zip(anomalous) {
            let start = row["start_unix_s"].as_i64().unwrap();
            let (cpi, usage) = (row["cpi"].as_f64(), row["usage"].as_f64().unwrap());
            let row = sample("web", JobClass::LatencySensitive, start, usage, cpi);
            let counted = cpi.filter(|_| usage >= figure("minimum_usage"));
            let found = counted.is_some_and(|cpi| cpi > figure("threshold_cpi"));
            assert_eq!(
                Some(found),
                outlier.as_bool(),
                "{} at {start}",
                case["name"]
            );
            history.add(&row, counted, found).unwrap();
            let outliers = history.outliers(&name("web"), figure("window_s"), None);
            let is = found && outliers.is_some_and(|of| of.count as f64 >= figure("outliers"));
            assert_eq!(Some(is), anomaly.as_bool(), "{} at {start}", case["name"]);
        }
    }
}

#[test]
fn evidence() {
    for case in vectors("evidence") {
        let case_name = &case["name"];
        let suspects: Vec<Series> = case["suspects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| Series {
                usage: numbers(&one["usage"]),
                misses: one["misses"].is_array().then(|| numbers(&one["misses"])),
            })
            .collect();
        let bar = Bar {
            false_name_ratio: case["false_name_ratio"].as_f64().unwrap(),
            ..Bar::default()
        };
        let threshold = case["threshold_cpi"].as_f64().unwrap();
        let found = weigh(&numbers(&case["victim_cpi"]), &suspects, threshold, &bar);
        let expected = case["expected"].as_array().unwrap();
        assert_eq!(found.len(), expected.len(), "{case_name}");
        for (one, expected) in found.iter().zip(expected) {
            for (name, value) in [
                ("fit", one.fit),
                ("p_value", one.p_value),
                ("swing", one.swing),
                ("explained_ratio", one.explained_ratio),
                ("effect_ratio", one.effect_ratio),
            ] {
                let expected = expected[name].as_f64();
                let same = match (value, expected) {
                    (None, None) => true,
                    (Some(value), Some(expected)) => (value - expected).abs() < 1e-9,
                    _ => false,
                };
                assert!(same, "{case_name}: {name} is {value:?}, not {expected:?}");
            }
            assert_eq!(
                Some(one.windows as u64),
                expected["windows"].as_u64(),
                "{case_name}"
            );
            assert_eq!(
                one.misses_rise,
                expected["misses_rise"].as_bool(),
                "{case_name}"
            );
            assert_eq!(
                one.refusal.as_deref(),
                expected["refusal"].as_str(),
                "{case_name}"
            );
        }
    }
}

#[test]
fn rankings() {
    for case in vectors("ranking") {
        let case_name = &case["name"];
        let threshold = case["threshold_cpi"].as_f64().unwrap();
        let class = |value: &Value| {
            JobClass::named(value.as_str().unwrap()).expect("a class that is known")
        };
        let suspects = ranked(&case, threshold);
        let known: Vec<(String, f64)> = suspects
            .iter()
            .map(|suspect| (suspect.name.task.clone(), suspect.correlation))
            .collect();
        let expected: Vec<_> = case["expected_order"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|row| {
                let task = row["task"].as_str().unwrap().to_owned();
                Some((task, row["correlation"].as_f64()?))
            })
            .collect();
        assert_eq!(known.len(), expected.len(), "{case_name}");
        for (one, other) in known.iter().zip(&expected) {
            assert_eq!(one.0, other.0, "{case_name}");
            assert!((one.1 - other.1).abs() < 1e-12, "{case_name}");
        }
        let settings = Settings {
            min_correlation: case["correlation_floor"].as_f64().unwrap(),
            ..Settings::default()
        };
        let victim = name("victim");
        let groups = Groups {
            victim: "/victim",
            own: None,
        };
        let victim = (&victim, class(&case["victim_class"]));
        let decision = decide(&settings, victim, &suspects, groups, |_| None);
        let likeliest = suspects
            .first()
            .filter(|first| first.correlation >= settings.min_correlation)
            .map(|first| first.name.task.as_str());
        assert_eq!(
            likeliest,
            case["expected_antagonist"].as_str(),
            "{case_name}"
        );
        let capped = decision
            .cap_cpu_ratio
            .map(|_| suspects[decision.suspect.unwrap()].name.task.as_str());
        assert_eq!(capped, case["expected_cap"].as_str(), "{case_name}");
        assert_eq!(
            decision.cap_cpu_ratio,
            case["expected_cap_cpu_ratio"].as_f64(),
            "{case_name}"
        );
    }
}

/// The suspects of a case, ranked by the history of its windows.
fn ranked(case: &Value, threshold: f64) -> Vec<Suspect> {
    let mut history = History::new(600.0);
    for (window, cpi) in numbers(&case["victim_cpi"]).into_iter().enumerate() {
        let start = 60 * window as i64;
        let outlier = cpi.is_some_and(|cpi| cpi > threshold);
        let row = sample("victim", JobClass::LatencySensitive, start, 1.0, cpi);
        history.add(&row, cpi, outlier).unwrap();
        for suspect in case["suspects"].as_array().unwrap() {
            let Some(usage) = numbers(&suspect["usage"])[window] else {
                continue;
            };
            let text = |key: &str| suspect[key].as_str().unwrap().to_owned();
            let class = JobClass::named(&text("job_class")).unwrap();
            let mut row = sample("suspect", class, start, usage, None);
            let task = std::sync::Arc::make_mut(&mut row.task);
            (task.job, task.task) = (text("job"), text("task"));
            task.cgroup = format!("/{}", task.task);
            history.add(&row, None, false).unwrap();
        }
    }
    let victim: TaskName = name("victim");
    history.suspects(&victim, 600.0, threshold)
}
