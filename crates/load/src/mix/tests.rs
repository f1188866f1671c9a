use std::path::Path;

use super::*;
use crate::LAWS;
use crate::mix::PLACEHOLDERS;

const REFERENCE: &str = include_str!("../../../../docs/reference/mix.md");
const README: &str = include_str!("../../../../data/mixes/README.md");

fn parse(text: &str) -> Result<MixFile, String> {
    MixFile::parse(text, "test", Path::new("/nonexistent"))
}

/// A whole file around the lines of one operation.
fn around(operation: &str) -> String {
    format!(
        "schema_version = \"1.0\"\nkind = \"mix\"\n[[operation]]\nname = \"o\"\nweight = 1\n{operation}\n"
    )
}

#[test]
fn every_shipped_mix_is_a_file_that_parses_and_is_documented() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/mixes");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    files.sort();
    let shipped: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
    assert_eq!(files, shipped);
    for name in shipped {
        let mix = MixFile::find(name).unwrap();
        assert_eq!(mix.name, name);
        assert!(REFERENCE.contains(&format!("| `{name}` |")), "{name}");
    }
    assert!(README.contains("ycsb-a to ycsb-f") && README.contains("http-pages"));
}

#[test]
fn ycsb_has_the_published_shares() {
    let shares = |name: &str, protocol| {
        let mix = MixFile::find(name).unwrap().for_protocol(protocol).unwrap();
        let weighted = mix.operations.iter().filter(|o| o.weight > 0.0);
        let shares: Vec<(String, f64)> = weighted.map(|o| (o.name.clone(), o.weight)).collect();
        (mix.keys.distribution.unwrap(), shares)
    };
    for (name, law, expected) in [
        (
            "ycsb-a",
            "zipf:0.99",
            &[("read", 50.0), ("update", 50.0)][..],
        ),
        ("ycsb-b", "zipf:0.99", &[("read", 95.0), ("update", 5.0)]),
        ("ycsb-c", "zipf:0.99", &[("read", 100.0)]),
        ("ycsb-d", "latest:0.99", &[("read", 95.0), ("insert", 5.0)]),
        ("ycsb-e", "zipf:0.99", &[("scan", 95.0), ("insert", 5.0)]),
        (
            "ycsb-f",
            "zipf:0.99",
            &[("read", 50.0), ("read-modify-write", 50.0)],
        ),
    ] {
        for protocol in [Protocol::Redis, Protocol::Memcached] {
            if name == "ycsb-e" && protocol == Protocol::Memcached {
                let refused = MixFile::find(name).unwrap().for_protocol(protocol);
                let said = refused.unwrap_err().to_string();
                assert!(
                    said.contains("operation scan cannot be done over memcached"),
                    "{said}"
                );
                continue;
            }
            let (found_law, found) = shares(name, protocol);
            let expected: Vec<(String, f64)> = expected
                .iter()
                .map(|(n, w)| ((*n).to_owned(), *w))
                .collect();
            assert_eq!((found_law.as_str(), found), (law, expected), "{name}");
        }
    }
}

#[test]
fn the_reference_says_what_the_program_knows() {
    for (placeholder, what) in PLACEHOLDERS {
        let row = format!("| `{placeholder}` | {what} |");
        assert!(REFERENCE.contains(&row), "{row}");
    }
    for (law, what) in LAWS {
        let row = format!("| `{law}` | {what} |");
        assert!(REFERENCE.contains(&row), "{row}");
    }
    let commands: Vec<String> = MEMCACHED_COMMANDS
        .iter()
        .map(|(name, ..)| format!("`{name}`"))
        .collect();
    let sentence = format!("Commands of memcached: {}.", commands.join(", "));
    assert!(REFERENCE.contains(&sentence), "{sentence}");
    for (column, _) in crate::trace::TIME_COLUMNS {
        assert!(REFERENCE.contains(&format!("`{column}`")), "{column}");
    }
    // What the parser expects where a field is unknown is the list of all that it knows.
    for (text, table) in [
        (format!("x = 1\n{}", around("redis = [\"PING\"]")), ""),
        (around("x = 1"), ""),
        (format!("{}[keys]\nx = 1", around("")), "keys."),
        (format!("{}[values]\nx = 1", around("")), "values."),
        (format!("{}[cql]\nx = 1", around("")), "cql."),
    ] {
        let error = parse(&text).unwrap_err();
        let (_, known) = error.split_once("expected ").unwrap();
        let fields: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        assert!(!fields.is_empty(), "{error}");
        for field in fields {
            let tabled =
                ["keys", "values", "cql", "operation"].contains(&field) && table.is_empty();
            let row = format!("| `{table}{field}` |");
            assert!(REFERENCE.contains(&row) || tabled, "{row}");
        }
    }
}

#[test]
fn the_reference_holds_examples_that_work() {
    let examples: Vec<&str> = REFERENCE.split("```toml\n").skip(1).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let mix = parse(example.split("```").next().unwrap()).unwrap();
        for protocol in [Protocol::Redis, Protocol::Memcached, Protocol::Http] {
            let mix = mix.for_protocol(protocol).unwrap();
            assert_eq!(mix.operations.len(), 3);
            assert_eq!(mix.prefill, Some(1));
        }
    }
    let trace = REFERENCE.split("```csv\n").nth(1).unwrap();
    let mut lines = trace.split("```").next().unwrap().lines();
    let columns = crate::trace::Columns::parse(lines.next().unwrap()).unwrap();
    let rows: Vec<_> = lines.map(|line| columns.row(line).unwrap()).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(&*rows[2].key, "user:8, the other");
}

#[test]
fn bad_mixes_are_refused_in_a_line_that_says_why() {
    let head = "schema_version = \"1.0\"\nkind = \"mix\"\n";
    let ping = "[[operation]]\nname = \"ping\"\nweight = 1\nredis = [\"PING\"]\n";
    let zero = ping.replace('1', "0");
    for (text, why) in [
        (String::new(), "missing field"),
        ("= 1".to_owned(), "line 1"),
        (head.replace("mix", "mixture") + ping, "expected \"mix\""),
        (head.replace("1.0", "2.0") + ping, "not supported"),
        (head.to_owned() + &zero, "no operation has a weight above 0"),
        (
            around("").replace("weight = 1", "weight = nan"),
            "NaN is not a weight",
        ),
        (
            around("").replace("weight = 1", "weight = -1"),
            "-1 is not a weight",
        ),
        (
            around("").replace("weight = 1", "weight = inf"),
            "inf is not a weight",
        ),
        (
            around("").replace("weight = 1", "weight = \"much\""),
            "line 5",
        ),
        (around("effect = \"reads\""), "not read, write or call"),
        (around("redis = []"), "it is empty"),
        (around("redis = [1]"), "operation o: redis"),
        (around("redis = [\"GET\", \"{name}\"]"), "not a placeholder"),
        (
            around("memcached = [\"fetch\", \"{key}\"]"),
            "not a memcached command",
        ),
        (around("memcached = [\"get\"]"), "takes 1 words, not 0"),
        (
            around("memcached = [\"get\", \"{value}\"]"),
            "control character",
        ),
        (
            around("memcached = [\"get\", \"a b\"]"),
            "control character",
        ),
        (
            around("http = { path = \"page\" }"),
            "does not begin with /",
        ),
        (around("http = { path = \"/a b\" }"), "a space"),
        (around("http = { path = \"/{value}\" }"), "use {text}"),
        (
            around("http = { path = \"/\", method = \"get\" }"),
            "not a method",
        ),
        (
            around("http = { path = \"/\", headers = { \"a:\" = \"x\" } }"),
            "header's name",
        ),
        (
            around("http = { path = \"/\", headers = { a = \"x\\r\\nb: y\" } }"),
            "control character",
        ),
        (
            around("http = { path = \"/\", headers = { Content-Length = \"1\" } }"),
            "written by the load generator",
        ),
        (
            around("http = { path = \"/\", query = \"x\" }"),
            "unknown field",
        ),
        (around("colour = 1"), "unknown field"),
        (
            head.to_owned() + ping + ping,
            "two operations are called ping",
        ),
        (
            "prefill = \"x\"\n".to_owned() + head + ping,
            "which is not an operation",
        ),
        (
            head.to_owned() + "[keys]\nsizes = -1\n" + ping,
            "keys.sizes: -1",
        ),
        (
            head.to_owned() + "[values]\nsizes = [[0, 5]]\n" + ping,
            "from 0 to 1",
        ),
        (
            head.to_owned() + "[values]\nsizes = \"x.json\"\n" + ping,
            "No such file",
        ),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(why), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn draws_of_one_request_are_independent_across_words_and_steps() {
    let text = around("redis = [[\"A\", \"{uniform:0:999999}\"], [\"B\", \"{uniform:0:999999}\"]]");
    let mix = parse(&text).unwrap().for_protocol(Protocol::Redis).unwrap();
    let operation = &mix.operations[0];
    assert!(operation.draws);
    let texts: Vec<&Text> = operation.steps.iter().flat_map(|s| s.texts()).collect();
    assert_ne!(texts[1], texts[3]);
}
