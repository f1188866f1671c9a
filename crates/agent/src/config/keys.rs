//! Every key of the configuration: what it means, and what it is when absent. The reference is compared with it.

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name, with the table that it is in.
    pub name: &'static str,
    /// What holds where it is absent, as TOML; empty where nothing does.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

const fn key(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key {
        name,
        default,
        meaning,
    }
}

/// All of them, in the reference's order.
pub const KEYS: &[Key] = &[
    key(
        "cluster",
        "",
        "The cluster this machine belongs to; `--cluster` goes before it; `default` without either.",
    ),
    key(
        "machine",
        "",
        "The machine's name, unique in its cluster; the host name when absent.",
    ),
    key(
        "platform",
        "",
        "Its kind of CPU, as the fleet calls it; the CPU's model name when absent.",
    ),
    key("labels", "{}", "Labels of the machine: a table of texts."),
    key(
        "shipped_rules",
        "true",
        "Whether the agent's own rules (`data/agent/tasks.toml`) are asked after those of `[[rule]]`.",
    ),
    key(
        "store.url",
        "",
        "A folder, or `s3://BUCKET/PREFIX`; `--store` goes before it.",
    ),
    key(
        "store.create",
        "false",
        "Make it a store where it is none. Off, since the folder of a disk that is not mounted looks empty.",
    ),
    key(
        "spool.folder",
        "",
        "Where rows wait for the store; `--spool` goes before it.",
    ),
    key(
        "spool.batch_minutes",
        "10",
        "Windows of so many minutes share a file; divides 1440.",
    ),
    key(
        "spool.bound_mib",
        "1024",
        "Waiting files that are kept, MiB; beyond it the oldest are dropped and counted.",
    ),
    key(
        "sampling.period_s",
        "60",
        "Time from one window to the next, s, 1 to 3600.",
    ),
    key(
        "sampling.window_s",
        "10.0",
        "Length of a window, s; at most 0.95 of the period.",
    ),
    key(
        "sampling.max_tasks",
        "1000",
        "Tasks that are sampled at most; the rest is counted.",
    ),
    key(
        "sampling.counters",
        "true",
        "Whether performance events are counted in windows.",
    ),
    key(
        "profiles.minutes_ratio",
        "0.01",
        "Share of minutes that are profiled, 0 to 1.",
    ),
    key(
        "profiles.hz",
        "49",
        "Samples a second of each busy CPU, 1 to 1000.",
    ),
    key("profiles.seed", "0", "Changes which minutes are chosen."),
    key(
        "profiles.max_stacks",
        "20000",
        "Stacks of one minute that are stored at most, the most frequent first.",
    ),
    key(
        "metrics.listen",
        "\"127.0.0.1:9273\"",
        "Where Prometheus finds the agent's figures: an address on loopback, or empty for none.",
    ),
    key(
        "limits.cpu_ratio",
        "0.02",
        "CPU seconds a second that the agent may use over ten minutes; above it profiles are left out, above twice of it every second window too.",
    ),
    key(
        "limits.memory_mib",
        "128",
        "Resident memory that the agent may use, MiB; above it batches are written out at once and profiles are left out.",
    ),
    key(
        "machine_limits.memory_bandwidth_bytes_per_s",
        "",
        "What the machine's memory can do, for `machines`.",
    ),
    key(
        "machine_limits.disk_bytes_per_s",
        "",
        "What its disks can do.",
    ),
    key(
        "machine_limits.network_bytes_per_s",
        "",
        "What its network can do; the sum of the interfaces' speeds when absent.",
    ),
    key(
        "rule",
        "[]",
        "Rules that make control groups tasks: see below.",
    ),
    key(
        "telemetry",
        "[]",
        "What jobs tell of themselves: see below.",
    ),
    key("guard", "{}", "The guard against interference: see below."),
];

/// Keys of a `[[telemetry]]` table.
pub const TELEMETRY_KEYS: &[Key] = &[
    key("job", "", "The job whose tasks it belongs to."),
    key("task", "", "Only this task of it."),
    key(
        "file",
        "",
        "A file of Prometheus text; `${task}` stands for the task's name.",
    ),
    key(
        "url",
        "",
        "A page of Prometheus text, such as `http://127.0.0.1:8080/metrics`; instead of `file`.",
    ),
    key(
        "operations",
        "",
        "The counter of operations, with the labels that must fit: `requests_total{code=\"200\"}`; all that fit are added.",
    ),
    key("latency", "", "The histogram or summary of latency."),
    key(
        "latency_unit_s",
        "1.0",
        "What one unit of it is, s: 0.001 for milliseconds.",
    ),
];

/// Keys of a `[[rule]]` table.
pub const RULE_KEYS: &[Key] = &[
    key("name", "", "What the rule is called where it is told of."),
    key(
        "path",
        "",
        "A regular expression that the group's path must match.",
    ),
    key(
        "command",
        "",
        "One that the name of the group's first process must match.",
    ),
    key(
        "environment",
        "{}",
        "By variable of that process's environment, one that its value must match.",
    ),
    key(
        "action",
        "\"task\"",
        "`task`, `ignore` (neither it nor what is below it) or `descend` (it is none, what is below may be).",
    ),
    key(
        "job",
        "",
        "Template of the job's name, or a list of which the first with all its values is taken.",
    ),
    key("task", "", "Template of the task's name, likewise."),
    key(
        "job_class",
        "",
        "Template of `latency-sensitive`, `batch` or `best-effort`, likewise.",
    ),
    key(
        "labels",
        "{}",
        "Templates of labels; one without all its values is left out.",
    ),
];
