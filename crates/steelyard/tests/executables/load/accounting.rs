//! Which phase a request belongs to: by when it was due, in every count, whatever its server does to it and whenever. Servers
//! count for themselves what they see.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::support::{Server, check_counts, finish, now_ns, whole};

/// What a server has seen: when each request came, and what it did.
#[derive(Default)]
struct Seen {
    first_ns: u64,
    requests: Vec<(u64, Deed)>,
}

/// What a server does with a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    Answer,
    Refuse,
    /// Closes the connection.
    Close,
    /// Keeps silent.
    Stall,
}

use Deed::{Answer, Close, Refuse, Stall};

/// A language that the server speaks: the bytes that end a request, an answer and a refusal.
struct Language {
    protocol: &'static str,
    end: &'static str,
    answer: &'static str,
    refusal: &'static str,
}

const HTTP: Language = Language {
    protocol: "http",
    end: "\r\n",
    answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    refusal: "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
};
const MEMCACHED: Language = Language {
    protocol: "memcached",
    end: "get ",
    answer: "END\r\n",
    refusal: "SERVER_ERROR busy\r\n",
};
const REDIS: Language = Language {
    protocol: "redis",
    end: "$",
    answer: "$-1\r\n",
    refusal: "-ERR busy\r\n",
};

impl Language {
    /// Reads a request; None when the connection has ended.
    fn read(&self, from: &mut impl BufRead) -> Option<()> {
        let mut lines = 0;
        loop {
            let mut line = String::new();
            if from.read_line(&mut line).ok()? == 0 {
                return None;
            }
            lines += 1;
            match self.protocol {
                // GET and a key are an array of two strings: five lines.
                "redis" if lines == 5 => return Some(()),
                "redis" => {}
                _ if line.starts_with(self.end) => return Some(()),
                _ => {}
            }
        }
    }
}

/// What a server does with its request number n (from 1), `since_ms` after the first: how long it takes, and then what.
type Plan = fn(n: u64, since_ms: u64) -> (u64, Deed);

/// A server that follows `plan`, each connection on its own.
fn server(language: &'static Language, plan: Plan) -> (Server, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let log = Arc::clone(&seen);
    let server = Server::start(move |stream| serve(language, plan, &log, stream));
    (server, seen)
}

fn serve(language: &Language, plan: Plan, log: &Mutex<Seen>, stream: TcpStream) {
    let mut write = stream.try_clone().unwrap();
    let mut read = BufReader::new(stream);
    while language.read(&mut read).is_some() {
        let (delay_ms, deed) = {
            let mut log = log.lock().unwrap();
            let at_ns = now_ns();
            if log.requests.is_empty() {
                log.first_ns = at_ns;
            }
            let number = log.requests.len() as u64 + 1;
            let (delay_ms, deed) = plan(number, (at_ns - log.first_ns) / 1_000_000);
            log.requests.push((at_ns, deed));
            (delay_ms, deed)
        };
        thread::sleep(Duration::from_millis(delay_ms));
        let bytes = match deed {
            Answer => language.answer,
            Refuse => language.refusal,
            Close => return,
            Stall => continue,
        };
        if write.write_all(bytes.as_bytes()).is_err() {
            return;
        }
    }
}

fn load(mode: &[&str], language: &Language, server: &Server, flags: &str) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_steelyard-load"))
        .args(mode)
        .args(["--protocol", language.protocol])
        .args(["--target", &server.address.to_string()])
        .args(["--json", "--progress", "none", "--interval", "100ms"])
        .args(flags.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child, Duration::from_secs(60))
}

fn result(language: &Language, server: &Server, flags: &str) -> Value {
    let result = whole(&load(&[], language, server, flags));
    check_counts(&result);
    result
}

fn n(result: &Value, name: &str) -> u64 {
    let count = &result["requests"][name];
    count
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {result}"))
}

/// Of what the server saw: all, and what came in the measure phase.
fn saw(seen: &Mutex<Seen>, result: &Value) -> (u64, u64) {
    let phase = result["begin_ns"].as_u64().unwrap()..result["end_ns"].as_u64().unwrap();
    let seen = seen.lock().unwrap();
    let within = seen.requests.iter().filter(|(at, _)| phase.contains(at));
    (seen.requests.len() as u64, within.count() as u64)
}

fn claim<'a>(result: &'a Value, id: &str) -> &'a str {
    let checks = result["verdict"]["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == id).unwrap();
    check["claim"].as_str().unwrap()
}

/// Four connections of 50 ms each do 80 a second, a third of them refused; 400 are due.
const OVERLOADED: &str = "--rate 400 --arrival constant --warmup 500ms --duration 1s --drain 200ms --connections 4 --max-outstanding 60";

fn slow_third(n: u64, _: u64) -> (u64, Deed) {
    (50, if n.is_multiple_of(3) { Refuse } else { Answer })
}

#[test]
fn errors_of_the_warm_up_are_not_of_the_phase_though_they_come_in_it() {
    for language in [&HTTP, &MEMCACHED, &REDIS] {
        for more in ["--io epoll", "--io auto"] {
            let (server, seen) = server(language, slow_third);
            let result = result(language, &server, &format!("{OVERLOADED} {more}"));
            assert_eq!(n(&result, "intended"), 400);
            // The whole of the warm-up's backlog is answered first, 0.75 s of the 1.2 s.
            let errors = n(&result, "errors");
            assert!(n(&result, "completed_from_before") > 20, "{result}");
            assert!((1..=24).contains(&errors), "{}", result["requests"]);
            assert!(n(&result, "sent") <= saw(&seen, &result).0);
            let finished = errors + n(&result, "completed");
            let expected = format!("{errors} of {finished} finished requests failed.");
            assert_eq!(claim(&result, "errors"), expected);
            assert!(n(&result, "errors_from_before") > 10, "{result}");
            let message = claim(&result, "unsent");
            assert!(message.contains(" of 400 due requests"), "{message}");
            assert!(claim(&result, "achieved").contains(" for 400 due ("));
            assert!(claim(&result, "generator-late").contains(" of 400 due requests"));
        }
    }
}

#[test]
fn a_load_whose_every_request_stays_in_the_queue_has_no_errors() {
    // The backlog of the warm-up, 400 requests and more, outlasts the phase: none of its own is sent.
    let (server, _) = server(&HTTP, slow_third);
    let flags =
        "--rate 400 --arrival constant --warmup 1s --duration 500ms --drain 100ms --connections 2";
    let result = result(&HTTP, &server, flags);
    assert_eq!((n(&result, "intended"), n(&result, "unsent")), (200, 200));
    assert_eq!((n(&result, "sent"), n(&result, "errors")), (0, 0));
    assert!(n(&result, "completed_from_before") > 5, "{result}");
    assert!(result["received_bytes"].as_u64().unwrap() > 100);
}

#[test]
fn several_hosts_count_as_one_does() {
    let (server, seen) = server(&HTTP, slow_third);
    let flags = "--arrival step:300,500 --warmup 500ms --duration 1s --drain 200ms --connections 4 --max-outstanding 60";
    let flags = format!("{flags} --host localhost --host localhost");
    let result = result(&HTTP, &server, &flags);
    assert_eq!(n(&result, "intended"), 400);
    assert!(n(&result, "sent") <= saw(&seen, &result).0);
    assert!(n(&result, "completed_from_before") > 10, "{result}");
    assert!(claim(&result, "achieved").contains(" for 400 due ("));
    // The objections are of the whole load too, not of the host that has most.
    let unsent = n(&result, "unsent");
    let expected = format!("{unsent} of 400 due requests were never sent.");
    assert_eq!(claim(&result, "unsent"), expected);
    let (errors, completed) = (n(&result, "errors"), n(&result, "completed"));
    let expected = format!(
        "{errors} of {} finished requests failed.",
        errors + completed
    );
    assert_eq!(claim(&result, "errors"), expected);
    let classes = &result["requests"]["answers_by_class"];
    assert_eq!(classes["5xx"].as_u64().unwrap_or(0), errors, "{classes}");
}

#[test]
fn without_a_warm_up_the_server_counts_the_same() {
    // Every third closed, every fifth refused.
    let plan = |n: u64, _: u64| match (n % 3, n % 5) {
        (0, _) => (1, Close),
        (_, 0) => (1, Refuse),
        _ => (1, Answer),
    };
    for language in [&HTTP, &MEMCACHED, &REDIS] {
        for flags in [
            "--connections 4",
            "--connections 3 --depth 4",
            "--connections 4 --rate 300",
            "--connections 4 --rate 300 --timeout 500ms --io epoll",
        ] {
            let (server, seen) = server(language, plan);
            let flags = format!("{flags} --warmup 0s --duration 500ms --drain 2s");
            let result = result(language, &server, &flags);
            let seen = seen.lock().unwrap();
            let did = |deed| seen.requests.iter().filter(|(_, did)| *did == deed).count() as u64;
            let requests = &result["requests"];
            let kinds = requests["errors_by_kind"].as_object().unwrap();
            let lost = kinds
                .iter()
                .filter(|(kind, _)| kind.starts_with("connection-"));
            let lost: u64 = lost.map(|(_, count)| count.as_u64().unwrap()).sum();
            let refused = n(&result, "errors") - lost;
            let counted = [n(&result, "completed"), refused, lost];
            let did = [did(Answer), did(Refuse), did(Close)];
            let seen = seen.requests.len() as u64;
            assert_eq!(n(&result, "completed_from_before"), 0, "{requests}");
            // Who closes a connection with requests in it that were not read takes back answers that were not read either.
            if flags.contains("--depth") {
                assert!(n(&result, "sent") >= seen, "{flags} {seen} {requests}");
                assert!(
                    counted[0] <= did[0] && refused <= did[1],
                    "{did:?} {requests}"
                );
            } else {
                assert_eq!(n(&result, "sent"), seen, "{flags} {requests}");
                assert_eq!(counted, did, "{flags} {requests}");
            }
        }
    }
}

#[test]
fn a_closed_loop_counts_what_was_due_in_the_phase() {
    // Silent from the end of the warm-up on: each connection times out once, and is silent again. The same holds where
    // load or server are 200 ms late.
    let (silent, seen) = server(&HTTP, |_, since_ms| match since_ms {
        ..1800 => (0, Answer),
        _ => (0, Stall),
    });
    let flags = "--connections 4 --warmup 2s --duration 2s --drain 400ms --timeout 1200ms";
    let result_of_silent = result(&HTTP, &silent, flags);
    let requests = &result_of_silent["requests"];
    assert_eq!(n(&result_of_silent, "intended"), 4, "{requests}");
    // They time out about when the drain ends: after the phase in any case.
    let late = n(&result_of_silent, "errors_after");
    assert_eq!(
        n(&result_of_silent, "outstanding_at_end") + late,
        4,
        "{requests}"
    );
    assert_eq!(n(&result_of_silent, "errors"), late, "{requests}");
    assert_eq!(n(&result_of_silent, "completed"), 0, "{requests}");
    assert_eq!(saw(&seen, &result_of_silent).1, 4);

    // Every other one is refused: as many in the phase as the server saw, but for those under way at its ends.
    for language in [&HTTP, &REDIS] {
        let (halved, seen) = server(language, |n, _| match n.is_multiple_of(2) {
            true => (1, Refuse),
            false => (1, Answer),
        });
        let flags = "--connections 4 --warmup 200ms --duration 500ms --drain 500ms";
        let result = result(language, &halved, flags);
        let (sent, within) = (n(&result, "sent"), saw(&seen, &result).1);
        assert!(sent.abs_diff(within) <= 8, "{sent} {within}");
        assert_eq!(n(&result, "outstanding_at_end"), 0);
        assert!(n(&result, "errors").abs_diff(sent / 2) <= 8);
    }
}

#[test]
fn a_server_that_recovers_in_the_phase_owes_it_no_errors() {
    // What comes between 200 and 450 ms is closed upon at 650 ms, in the phase, and the backlog is worked off in it.
    let (server, _) = server(&HTTP, |_, since_ms| match since_ms {
        200..450 => (650 - since_ms, Close),
        _ => (0, Answer),
    });
    let flags =
        "--rate 200 --arrival constant --warmup 500ms --duration 1s --drain 200ms --connections 4";
    let result = result(&HTTP, &server, flags);
    assert_eq!(
        (n(&result, "intended"), n(&result, "completed")),
        (200, 200)
    );
    assert_eq!(n(&result, "errors"), 0, "{}", result["requests"]);
    assert!(n(&result, "completed_from_before") > 20, "{result}");
}

#[test]
fn half_refused_is_said_with_the_same_numbers_on_the_whole_page() {
    let (server, _) = server(&HTTP, |n, _| match n % 18 {
        11.. => (0, Refuse),
        _ => (0, Answer),
    });
    let child = Command::new(env!("CARGO_BIN_EXE_steelyard-load"))
        .arg(format!("http://{}/", server.address))
        .args("--rate 360 --arrival constant --warmup 0s --duration 1s --connections 4".split(' '))
        .args(["--progress", "none"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = finish(child, Duration::from_secs(30));
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "requests    360 due in the 1.0 s: 360 sent, 0 never sent",
        "140 failed, 0 unanswered",
        "answers     220 2xx, 0 3xx, 0 4xx, 140 5xx",
        "errors      140 of 360 finished requests (140 status-5xx)",
        "errors: 140 of 360 finished requests failed.",
        " completed for 360 due (140 failed",
        "samples: 220 completed requests; ",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn probes_and_points_count_by_the_same_rule() {
    let counted = |points: &Value, offered: bool| {
        for point in points.as_array().unwrap() {
            let requests = &point["requests"];
            let n = |name: &str| requests[name].as_u64().unwrap();
            assert_eq!(n("intended"), n("sent") + n("unsent"), "{requests}");
            let ended = n("completed") + n("errors") + n("outstanding_at_end");
            assert_eq!(n("sent"), ended, "{requests}");
            let seconds =
                (point["end_ns"].as_f64().unwrap() - point["begin_ns"].as_f64().unwrap()) / 1e9;
            let in_phase = n("completed") - n("completed_after") + n("completed_from_before");
            let per_s = in_phase as f64 / seconds;
            assert!((point["throughput_per_s"].as_f64().unwrap() - per_s).abs() < 1e-6);
            let due_per_s = n("intended") as f64 / seconds;
            assert!((point["offered_per_s"].as_f64().unwrap() - due_per_s).abs() < 1e-6);
            if offered {
                let ratio = point["achieved_ratio"].as_f64().unwrap();
                assert!((ratio - per_s / due_per_s).abs() < 1e-9, "{point}");
            }
        }
    };
    let flags =
        "--connections 4 --warmup 100ms --duration 400ms --drain 100ms --max-outstanding 40";
    let (slow, _) = server(&HTTP, slow_third);
    let output = load(&["sweep"], &HTTP, &slow, &format!("{flags} --rates 40,400"));
    let swept: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(swept["points"].as_array().unwrap().len(), 2);
    counted(&swept["points"], true);
    let (slow, _) = server(&HTTP, slow_third);
    let search = "--slo p95<=200ms,errors<=50% --start 200 --probes 5 --time 6s";
    let output = load(&["capacity"], &HTTP, &slow, &format!("{flags} {search}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.stdout.is_empty(), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!found["probes"].as_array().unwrap().is_empty());
    counted(&found["probes"], false);
}

#[test]
fn a_trace_is_counted_by_its_own_times() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    // 100 in the warm-up, 100 in the phase.
    let mut text = "time_s,operation,key,size\n".to_owned();
    for index in 0..200 {
        text += &format!("{:.3},get,key{index},\n", f64::from(index) * 0.005);
    }
    std::fs::write(&trace, text).unwrap();
    let (server, _) = server(&MEMCACHED, slow_third);
    let flags = "--warmup 500ms --duration 500ms --drain 100ms --connections 2";
    let flags = format!("{flags} --trace {}", trace.display());
    let result = result(&MEMCACHED, &server, &flags);
    assert_eq!(n(&result, "intended"), 100);
    assert!(n(&result, "completed_from_before") > 5, "{result}");
}
