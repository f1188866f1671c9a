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
        "Cluster of this machine; `--cluster` overrides it; `default` without either.",
    ),
    key(
        "machine",
        "",
        "Name of this machine, unique in its cluster; the host name when absent.",
    ),
    key(
        "platform",
        "",
        "Type of its CPU in the fleet; the CPU's model name when absent.",
    ),
    key("labels", "{}", "Labels of the machine: a table of strings."),
    key(
        "shipped_rules",
        "true",
        "Whether the agent's own rules (`data/agent/tasks.toml`) are tried after those of `[[rule]]`.",
    ),
    key(
        "store.url",
        "",
        "A folder, or `s3://BUCKET/PREFIX`; `--store` overrides it.",
    ),
    key(
        "store.create",
        "false",
        "Create the store where there is none. Off, since the folder of a disk that is not mounted looks empty.",
    ),
    key(
        "spool.folder",
        "",
        "Folder of rows that wait for upload; `--spool` overrides it.",
    ),
    key(
        "spool.batch_minutes",
        "10",
        "Minutes of windows in a file; a divisor of 1440.",
    ),
    key(
        "spool.bound_mib",
        "1024",
        "Maximum size of waiting files, MiB; above it the oldest are dropped and counted.",
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
        "Maximum tasks that are sampled; the others are counted.",
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
        "Maximum stacks stored for a minute, the most frequent first.",
    ),
    key(
        "metrics.listen",
        "\"127.0.0.1:9273\"",
        "Address of the page for Prometheus, on loopback; empty for none.",
    ),
    key(
        "limits.cpu_ratio",
        "0.02",
        "Maximum CPU usage of the agent over ten minutes, in CPUs; above it profiles are skipped, above twice of it every second window too.",
    ),
    key(
        "limits.memory_mib",
        "128",
        "Maximum resident memory of the agent, MiB; above it batches are written at once and profiles are skipped.",
    ),
    key(
        "machine_limits.memory_bandwidth_bytes_per_s",
        "",
        "Memory bandwidth of the machine, for `machines`.",
    ),
    key(
        "machine_limits.disk_bytes_per_s",
        "",
        "Bandwidth of its disks.",
    ),
    key(
        "machine_limits.network_bytes_per_s",
        "",
        "Bandwidth of its network; the sum of the interfaces' speeds when absent.",
    ),
    key(
        "rule",
        "[]",
        "Rules that make control groups tasks: see below.",
    ),
    key("telemetry", "[]", "Telemetry of jobs: see below."),
    key("guard", "{}", "The guard against interference: see below."),
];

/// Keys of a `[[telemetry]]` table.
pub const TELEMETRY_KEYS: &[Key] = &[
    key("job", "", "Job of the tasks that export it."),
    key("task", "", "Task of the job; all of its tasks when absent."),
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
        "Counter of operations, with labels that must match: `requests_total{code=\"200\"}`; all that match are added.",
    ),
    key("latency", "", "The histogram or summary of latency."),
    key(
        "latency_unit_s",
        "1.0",
        "Unit of the latency, s: 0.001 for milliseconds.",
    ),
];

/// Keys of a `[[rule]]` table.
pub const RULE_KEYS: &[Key] = &[
    key("name", "", "Name of the rule in messages."),
    key(
        "path",
        "",
        "A regular expression that the group's path must match.",
    ),
    key(
        "command",
        "",
        "A regular expression that the name of the group's first process must match.",
    ),
    key(
        "environment",
        "{}",
        "By variable of that process's environment, a regular expression that its value must match.",
    ),
    key(
        "action",
        "\"task\"",
        "`task`, `ignore` (neither the group nor groups below it are tasks) or `descend` (the group is no task, groups below it may be).",
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
