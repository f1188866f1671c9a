use super::keys::{KEYS, Key, RULE_KEYS, TELEMETRY_KEYS};
use super::*;

#[test]
fn defaults_are_those_that_the_reference_tells() {
    // Set to its default, a key changes nothing; and every key of the reference is known.
    let empty = format!("{:?}", Config::empty());
    for key in KEYS
        .iter()
        .filter(|key| !key.default.is_empty() && key.default != "[]")
    {
        let text = format!("{} = {}\n", key.name, key.default);
        let config = Config::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", key.name));
        assert_eq!(format!("{config:?}"), empty, "{}", key.name);
    }
}

#[test]
fn every_key_is_documented() {
    // An unknown key's error lists those that are known.
    let listed = |text: &str| -> Vec<String> {
        let message = Config::parse(text).unwrap_err();
        let (_, list) = message
            .split_once("expected one of ")
            .unwrap_or_else(|| message.split_once("expected ").unwrap());
        list.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let names =
        |keys: &[Key]| -> Vec<String> { keys.iter().map(|key| key.name.to_owned()).collect() };
    let sorted = |mut list: Vec<String>| {
        list.sort();
        list
    };
    let mut all = Vec::new();
    for top in listed("nonsense = 1\n") {
        let below = Config::parse(&format!("[{top}]\nnonsense = 1\n"));
        match below {
            Err(message) if message.contains("unknown field") => {
                let inner = listed(&format!("[{top}]\nnonsense = 1\n"));
                all.extend(inner.iter().map(|key| format!("{top}.{key}")));
            }
            _ => all.push(top),
        }
    }
    assert_eq!(sorted(all), sorted(names(KEYS)));
    let telemetry = listed("[[telemetry]]\nnonsense = 1\n");
    assert_eq!(sorted(telemetry), sorted(names(TELEMETRY_KEYS)));
    let rule = listed("[[rule]]\nnonsense = 1\n");
    assert_eq!(sorted(rule), sorted(names(RULE_KEYS)));
}

#[test]
fn what_does_not_fit_is_reported_in_one_line() {
    for (text, wanted) in [
        ("a =\n", "line 1: "),
        ("\n\nsampling.window_s = \"x\"\n", "line 3: "),
        (
            "sampling.window_s = 58\n",
            "sampling.window_s is 58, which leaves too little of the 60 s",
        ),
        (
            "sampling.period_s = 0\n",
            "sampling.period_s is 0, which is not from 1 to 3600",
        ),
        (
            "spool.batch_minutes = 7\n",
            "spool.batch_minutes is 7, which does not divide a day",
        ),
        (
            "profiles.minutes_ratio = nan\n",
            "profiles.minutes_ratio is NaN",
        ),
        (
            "metrics.listen = \"0.0.0.0:80\"\n",
            "metrics.listen is 0.0.0.0:80, which is not on loopback",
        ),
        ("metrics.listen = \"nine\"\n", "metrics.listen is \"nine\""),
        ("cluster = \"\"\n", "cluster is \"\""),
        (
            "[[telemetry]]\njob = \"a\"\noperations = \"x\"\n",
            "telemetry of job \"a\": set either file or url",
        ),
        (
            "[[telemetry]]\njob = \"a\"\noperations = \"x{\"\nfile = \"f\"\n",
            "telemetry of job \"a\": operations: ",
        ),
        (
            "[[rule]]\nname = \"r\"\npath = \"(\"\n",
            "rule \"r\": path is not a regular expression",
        ),
    ] {
        let message = Config::parse(text).unwrap_err();
        assert!(message.starts_with(wanted), "{text:?}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn a_whole_file() {
    let config = Config::parse(
        "cluster = \"eu\"\nlabels = { rack = \"7\" }\nstore.url = \"s3://b/p\"\n[[telemetry]]\njob = \"web\"\n\
         url = \"http://127.0.0.1:8080/metrics\"\noperations = 'requests_total{code=\"200\"}'\nlatency = \"latency_ms\"\n\
         latency_unit_s = 0.001\n",
    )
    .unwrap();
    assert!(config.shipped_rules);
    assert_eq!(config.labels["rack"], "7");
    assert_eq!(config.telemetry[0].latency_unit_s, 0.001);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = Config::parse(&text);
    }
}

/// Rows of a table of the reference.
fn rows(keys: &[Key]) -> String {
    let code = |text: &str| {
        if text.is_empty() {
            String::new()
        } else {
            format!("`{text}`")
        }
    };
    let row = |key: &Key| {
        format!(
            "| `{}` | {} | {} |\n",
            key.name,
            code(key.default),
            key.meaning
        )
    };
    keys.iter().map(row).collect()
}

#[test]
fn the_reference_tells_of_every_key() {
    let reference = include_str!("../../../../docs/reference/agent.md");
    let guard: Vec<Key> = crate::guard::config::KEYS
        .iter()
        .map(|&(name, default, meaning)| Key {
            name,
            default,
            meaning,
        })
        .collect();
    for keys in [KEYS, TELEMETRY_KEYS, RULE_KEYS, &guard] {
        let rows = rows(keys);
        assert!(
            reference.contains(&rows),
            "docs/reference/agent.md lacks:\n{rows}"
        );
    }
}
