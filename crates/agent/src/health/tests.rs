use super::*;
use crate::rows::{JobClass, Labels, Task};
use crate::sample::prometheus;

fn health() -> Health {
    let task = Task {
        job: "we\"ird\\ \n{job}".to_owned(),
        task: "t".to_owned(),
        job_class: JobClass::Batch,
        labels: Labels::new(),
        cgroup: "/t".to_owned(),
    };
    let row = TaskSample {
        cpi: Some(0.25),
        cpi_source: Some("cpu time per operation".to_owned()),
        context_switches: Some(3),
        memory_bytes: Some(1e6),
        operations: Some(20.0),
        ..TaskSample::bare(task, 1, 10.0, 5.0)
    };
    Health {
        windows: 7,
        tasks: vec![row],
        rows: BTreeMap::from([(Table::TaskSamples, 14)]),
        missing: BTreeMap::from([("cycles".to_owned(), "no \"PMU\"".to_owned())]),
        ..Health::default()
    }
}

#[test]
fn the_page_is_read_back_by_the_own_parser() {
    let text = health().text();
    let found: Vec<_> = prometheus::samples(&text).collect();
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(found.len(), lines);
    let value = |name: &str| found.iter().find(|sample| sample.name == name);
    assert_eq!(value("steelyard_agent_windows_total").unwrap().value, 7.0);
    let cpi = value("steelyard_task_cpi").unwrap();
    assert_eq!(
        (cpi.value, cpi.label("job")),
        (0.25, Some("we\"ird\\ \n{job}"))
    );
    assert_eq!(cpi.label("source"), Some("cpu time per operation"));
    assert_eq!(value("steelyard_task_cpu_ratio").unwrap().value, 0.5);
    assert_eq!(
        value("steelyard_agent_missing").unwrap().label("reason"),
        Some("no \"PMU\"")
    );
    // What is missing has no line, and no zero.
    assert!(value("steelyard_task_page_faults").is_none());
    assert!(value("steelyard_agent_store_reached_time_seconds").is_none());
}

#[test]
fn every_metric_has_a_value_once_there_is_one() {
    let mut health = health();
    health.own_cpu_ratio = Some(0.1);
    health.own = own();
    health.upload.last_success_unix_s = Some(5);
    let row = std::sync::Arc::clone(&health.tasks[0].task);
    let all = TaskSample {
        task: row,
        storage_bytes: Some(1.0),
        network_bytes: Some(1.0),
        page_faults: Some(1),
        numa_score: Some(1.0),
        ..health.tasks[0].clone()
    };
    health.tasks.push(all);
    for metric in METRICS {
        assert!(!health.values(metric.name).is_empty(), "{}", metric.name);
        assert!(
            metric.name.ends_with("_total") == (metric.type_ == "counter"),
            "{}",
            metric.name
        );
    }
    assert!(health.own.cpu_s > 0.0 && health.own.resident_bytes.unwrap() > 0);
}

#[test]
fn requests_are_answered_or_refused() {
    let ask = |request: &str| {
        let text = String::from_utf8(answer(request.as_bytes(), &health())).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    for (request, wanted) in [
        (
            "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9273\r\n\r\n",
            "HTTP/1.1 200 OK",
        ),
        ("GET /metrics?x HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK"),
        (
            "HEAD /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
            "HTTP/1.1 200 OK",
        ),
        (
            "GET /metrics HTTP/1.1\r\nHost: [::1]:9273\r\n\r\n",
            "HTTP/1.1 200 OK",
        ),
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        (
            "POST /metrics HTTP/1.1\r\n\r\n",
            "HTTP/1.1 405 Method Not Allowed",
        ),
        (
            "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "HTTP/1.1 403 Forbidden",
        ),
        ("GET /metrics HTTP/1.1\r\n", "HTTP/1.1 400 Bad Request"),
        ("\r\n\r\n", "HTTP/1.1 400 Bad Request"),
    ] {
        assert_eq!(ask(request), wanted, "{request:?}");
    }
}

#[test]
fn the_reference_tells_of_every_metric() {
    let reference = include_str!("../../../../docs/reference/agent.md");
    let row = |metric: &Metric| {
        format!(
            "| `{}` | {} | {} |\n",
            metric.name, metric.type_, metric.help
        )
    };
    let rows: String = METRICS.iter().map(row).collect();
    assert!(
        reference.contains(&rows),
        "docs/reference/agent.md lacks:\n{rows}"
    );
}
