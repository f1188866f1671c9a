//! `steelyard-probe numa`: the CPU-memory locality score of processes and control groups.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use steelyard::output::{print, print_json};
use steelyard::{Exit, Failure, args};
use steelyard_kernel::Tree;
use steelyard_kernel::numa::{DistanceChoice, Distances, Missing, Nodes};
use steelyard_kernel::usage::process_cpu_ns;
use steelyard_probe::numa::{Request, Subjects, Survey};
use steelyard_record::{NumaScore, NumaSubject, monotonic_ns};

#[derive(Args)]
#[command(group = clap::ArgGroup::new("subjects").required(true))]
pub struct Numa {
    /// Score this process; repeatable.
    #[arg(long, group = "subjects", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Score this control group and those below it, by path (/system.slice/a.service) or folder; repeatable.
    #[arg(long, group = "subjects", value_name = "PATH")]
    cgroup: Vec<String>,
    /// Score every process.
    #[arg(long, group = "subjects")]
    all: bool,
    /// Window in which CPU time counts; 0 counts it since each thread's start.
    #[arg(long, default_value = "1s", value_parser = args::duration)]
    duration: Duration,
    /// Samples of thread placement in the window: more are better for threads that move between nodes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    looks: u32,
    /// Number of windows; each is a line of --json.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Source of distances: firmware (slit, hmat), or a file with a square table, such as latencies.
    #[arg(long, default_value = "slit", value_name = "slit|hmat|FILE")]
    distances: String,
    /// Score only processes that run in the window; others count where their threads ran last.
    #[arg(long)]
    running: bool,
    /// Skip processes with more memory: a scan locks their memory map.
    #[arg(long, value_name = "SIZE", value_parser = args::bytes)]
    largest: Option<u64>,
    /// Read page locations even on a machine with one node, where every score is 1.
    #[arg(long)]
    pages: bool,
    /// Root of /proc and /sys.
    #[arg(long, default_value = "/")]
    root: PathBuf,
    /// Print JSON (record numa_score), one line per window.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Numa) -> Result<Exit, Failure> {
    let tree = Tree::new(&arguments.root);
    let choice = distances(&arguments.distances)?;
    let nodes = Nodes::read(&tree, &choice).map_err(|why| {
        Failure::new(Exit::Environment, why).hint("`--distances FILE` takes your own table")
    })?;
    let subjects = if arguments.all {
        Subjects::All
    } else if arguments.cgroup.is_empty() {
        Subjects::Processes(arguments.pid.clone())
    } else {
        Subjects::Cgroups(arguments.cgroup.clone())
    };
    let named = !arguments.all;
    let request = Request {
        idle: !arguments.running,
        largest_bytes: arguments.largest,
        pages_on_one_node: arguments.pages,
        ..Request::new(subjects)
    };
    let mut survey = Survey::start(&tree, nodes, request);
    for _ in 0..arguments.count {
        let before_ns = process_cpu_ns();
        survey.begin(monotonic_ns());
        wait(&mut survey, arguments.duration, arguments.looks);
        let mut score = survey.finish(monotonic_ns());
        score.cost_cpu_ns = Some(process_cpu_ns() - before_ns);
        if named {
            all_absent(&score)?;
        }
        show(&score, arguments.json)?;
    }
    Ok(Exit::Ok)
}

/// Which distances are meant.
fn distances(text: &str) -> Result<DistanceChoice, Failure> {
    Ok(match text {
        "slit" => DistanceChoice::Slit,
        "hmat" => DistanceChoice::Hmat,
        file => {
            let refuse = |why: String| Failure::new(Exit::Usage, anyhow::anyhow!("{file}: {why}"));
            let text = steelyard_record::read_regular(std::path::Path::new(file))
                .map_err(|error| refuse(error.to_string()))?;
            let table = Distances::parse(&text).map_err(|why| {
                refuse(why.to_string()).hint("one row a line, blanks between the numbers")
            })?;
            DistanceChoice::Given(table)
        }
    })
}

/// Lets the window pass, with its looks but the last, which ends it.
///
/// Looks are not evenly apart, so that what moves between nodes at a beat is not always met at the same one: each has its
/// own stretch of the window, and a place in it that the golden ratio gives.
fn wait(survey: &mut Survey, duration: Duration, looks: u32) {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    if duration.is_zero() {
        return;
    }
    let begin = std::time::Instant::now();
    for look in 0..looks - 1 {
        let place = f64::from(look) + (f64::from(look + 1) * GOLDEN).fract();
        let due = duration.mul_f64(place / f64::from(looks));
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        survey.look();
    }
    std::thread::sleep(duration.saturating_sub(begin.elapsed()));
}

/// Refuses when nothing of what was named is there.
fn all_absent(score: &NumaScore) -> Result<(), Failure> {
    let gone = [Missing::ENDED.to_string(), Missing::NO_GROUP.to_string()];
    let is_gone = |row: &NumaSubject| row.missing.as_ref().is_some_and(|why| gone.contains(why));
    if !score.subjects.is_empty() && score.subjects.iter().all(is_gone) {
        let first = &score.subjects[0];
        let what = match first.pid {
            Some(pid) => format!("no process {pid}"),
            None => format!("no control group {}", first.name),
        };
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(what)));
    }
    Ok(())
}

fn show(score: &NumaScore, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(score);
    }
    print(|out| out.write_all(table(score).as_bytes()))
}

/// The scores as lines, the worst first, and how many have none for which reason.
fn table(score: &NumaScore) -> String {
    let mut text = String::from("SCORE  CPU s by node       MEMORY MiB by node  SUBJECT\n");
    let mut scored: Vec<&NumaSubject> = score
        .subjects
        .iter()
        .filter(|row| row.score.is_some())
        .collect();
    scored.sort_by(|a, b| a.score.partial_cmp(&b.score).expect("scores are numbers"));
    for row in scored {
        let cpu = amounts(row.cpu_seconds_per_node.as_deref(), |seconds| {
            format!("{seconds:.3}")
        });
        let memory = amounts(row.memory_bytes_per_node.as_deref(), |bytes| {
            format!("{}", bytes >> 20)
        });
        let pid = row.pid.map(|pid| format!("{pid} ")).unwrap_or_default();
        let basis = match row.cpu_basis.as_deref() {
            Some("lifetime") => " (idle: by where it ran last)",
            _ => "",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<5.3}  {cpu:<18}  {memory:<18}  {pid}{}{basis}",
            row.score.unwrap_or_default(),
            row.name
        );
    }
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for why in score
        .subjects
        .iter()
        .filter_map(|row| row.missing.as_deref())
    {
        *reasons.entry(why).or_default() += 1;
    }
    for (why, count) in reasons {
        let _ = writeln!(text, "{count} without a score: {why}");
    }
    if score.nodes.len() == 1 {
        text.push_str("the machine has one NUMA node: every score is 1 by definition\n");
    }
    text
}

fn amounts<A>(amounts: Option<&[A]>, tell: impl Fn(&A) -> String) -> String {
    match amounts {
        Some(amounts) => amounts.iter().map(tell).collect::<Vec<_>>().join(" "),
        None => "-".to_owned(),
    }
}
