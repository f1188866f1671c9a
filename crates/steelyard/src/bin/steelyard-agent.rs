//! `steelyard-agent`: what each machine of a fleet runs.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use steelyard::output::print;
use steelyard::{Exit, Failure, args, run};
use steelyard_agent::agent::{AgentSettings, Watch};
use steelyard_agent::check::{State, check};
use steelyard_agent::config::{Config, judge_name};
use steelyard_agent::guard::{self, GuardError, Moment, Watcher, config::GuardConfig};
use steelyard_agent::identity::Finder;
use steelyard_agent::identity::rules::Rules;
use steelyard_agent::profiling::{Attribution, Wanted, profile};
use steelyard_agent::rows::Origin;
use steelyard_agent::run::{AgentError, Running, die_with_parent};
use steelyard_agent::sample::machine::platform_of;
use steelyard_agent::store::{self, Store, StoreError};
use steelyard_kernel::Tree;
use steelyard_kernel::cgroup::Hierarchies;

/// Sample the tasks of a machine for a fleet's store: resource use every minute, profiles in random minutes.
#[derive(Parser)]
#[command(name = "steelyard-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sample tasks and upload the samples until SIGTERM.
    #[command(after_help = steelyard::examples!(
        "steelyard-agent run --config agent.toml",
        "steelyard-agent run --store /srv/fleet --once",
    ))]
    Run {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        places: Places,
        /// Sample and upload one window now, then exit.
        #[arg(long)]
        once: bool,
    },
    /// List the tasks that the rules find now, one JSON document per line.
    #[command(after_help = steelyard::examples!(
        "steelyard-agent tasks",
        "steelyard-agent tasks --config agent.toml",
    ))]
    Tasks {
        #[command(flatten)]
        common: Common,
    },
    /// Check which functions of the agent work on this host, and why others do not.
    #[command(after_help = steelyard::examples!(
        "steelyard-agent check",
        "steelyard-agent check --config agent.toml --json",
    ))]
    Check {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        places: Places,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Remove the CPU caps that a guard has set, also those of a killed guard.
    #[command(after_help = steelyard::examples!(
        "steelyard-agent undo --spool /var/spool/steelyard",
        "steelyard-agent undo --spool spool",
    ))]
    Undo {
        /// Spool of the agent, which holds the guard's journal.
        #[arg(long, value_name = "DIR")]
        spool: PathBuf,
        /// Remove only the caps of this agent.
        #[arg(long, hide = true)]
        owner: Option<String>,
        /// Wait for the end of standard input first.
        #[arg(long, hide = true)]
        when_stdin_closes: bool,
    },
    /// Profile this machine by task, for `run`.
    #[command(hide = true)]
    Profile {
        #[command(flatten)]
        common: Common,
        /// Begin of the window, Unix time in seconds.
        #[arg(long)]
        start: i64,
        /// Length of the window.
        #[arg(long, value_parser = args::duration)]
        duration: Duration,
        /// File for the rows, as JSON.
        #[arg(long)]
        out: PathBuf,
    },
}

#[derive(Args)]
struct Common {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Root of /proc and /sys.
    #[arg(long, default_value = "/")]
    root: PathBuf,
}

#[derive(Args)]
struct Places {
    /// Store of the fleet: a folder or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Create the store if it does not exist.
    #[arg(long)]
    create_store: bool,
    /// Folder for rows that are not yet uploaded.
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Name of this machine's cluster.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
}

fn main() -> ExitCode {
    let cli: Cli = steelyard::parse();
    run("steelyard-agent", || match cli.command {
        Command::Run {
            common,
            places,
            once,
        } => sample(&common, places, once),
        Command::Tasks { common } => tasks(&common),
        Command::Check {
            common,
            places,
            json,
        } => look(&common, &places, json),
        Command::Undo {
            spool,
            owner,
            when_stdin_closes,
        } => undo(&spool, owner.as_deref(), when_stdin_closes),
        Command::Profile {
            common,
            start,
            duration,
            out,
        } => take_profile(&common, start, duration, &out),
    })
}

/// A refusal of what was asked for.
fn usage(reason: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, std::io::Error::other(reason.into()))
}

fn configuration(common: &Common) -> Result<Config, Failure> {
    match &common.config {
        Some(path) => Config::read(path)
            .map_err(|reason| usage(reason).hint("docs/reference/agent.md has every key")),
        None => Ok(Config::empty()),
    }
}

fn store_of(places: &Places, config: &Config) -> Result<Option<Box<dyn Store + Send>>, Failure> {
    let Some(url) = places.store.as_ref().or(config.store.url.as_ref()) else {
        return Ok(None);
    };
    store::open(url)
        .map(Some)
        .map_err(|error| refused(Exit::Usage, error))
}

fn refused(exit: Exit, error: StoreError) -> Failure {
    let hint = error.hint();
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Which machine this is, as the configuration or the machine itself says.
fn origin(common: &Common, places: &Places, config: &Config) -> Result<Origin, Failure> {
    let tree = Tree::new(&common.root);
    let host = || {
        let name = tree.text("proc/sys/kernel/hostname").unwrap_or_default();
        String::from_utf8_lossy(&name).trim().to_owned()
    };
    let origin = Origin {
        machine: config.machine.clone().unwrap_or_else(host),
        platform: config
            .platform
            .clone()
            .unwrap_or_else(|| platform_of(&tree)),
        cluster: places
            .cluster
            .clone()
            .or_else(|| config.cluster.clone())
            .unwrap_or_else(|| "default".to_owned()),
    };
    for (key, name) in [("machine", &origin.machine), ("--cluster", &origin.cluster)] {
        judge_name(key, name)
            .map_err(|reason| usage(reason).hint("set it in the configuration"))?;
    }
    Ok(origin)
}

fn needs_groups(tree: &Tree) -> Result<Hierarchies, Failure> {
    let hierarchies = Hierarchies::of(tree);
    if hierarchies.version().is_some() {
        return Ok(hierarchies);
    }
    let error =
        std::io::Error::other("no hierarchy of control groups that accounts CPU time is mounted");
    Err(Failure::new(Exit::Environment, error).hint("mount -t cgroup2 none /sys/fs/cgroup"))
}

fn sample(common: &Common, places: Places, once: bool) -> Result<Exit, Failure> {
    let config = configuration(common)?;
    let store = store_of(&places, &config)?
        .ok_or_else(|| usage("--store names no store").hint("a folder, or s3://BUCKET/PREFIX"))?;
    let spool = places.spool.clone().or_else(|| config.spool.folder.clone());
    let spool = spool
        .ok_or_else(|| usage("--spool names no folder").hint("rows wait there for the store"))?;
    needs_groups(&Tree::new(&common.root))?;
    let origin = origin(common, &places, &config)?;
    let watch = watch(common, &places, &config, &origin, &spool)?;
    let running = Running {
        create_store: places.create_store || config.store.create,
        settings: AgentSettings {
            origin,
            config,
            root: common.root.clone(),
            spool,
        },
        store,
        once,
        profile_command: profile_command(common)?,
        watch: Some(watch),
    };
    steelyard_agent::run::run(running).map_err(failure)?;
    Ok(Exit::Ok)
}

/// The guard, with a look at the store of its own.
fn watch(
    common: &Common,
    places: &Places,
    config: &Config,
    origin: &Origin,
    spool: &Path,
) -> Result<Box<dyn Watch>, Failure> {
    let settings = GuardConfig::parse(&config.guard).map_err(usage)?;
    let tree = Tree::new(&common.root);
    let hierarchies = needs_groups(&tree)?;
    let own = tree.text("proc/self/cgroup").unwrap_or_default();
    let watchdog = settings.watchdog.then(std::env::current_exe).transpose()?;
    let store = store_of(places, config)?
        .ok_or_else(|| usage("--store names no store").hint("a folder, or s3://BUCKET/PREFIX"))?;
    let config = guard::Config {
        settings: settings.settings,
        origin: origin.clone(),
        state: spool.to_owned(),
        hierarchy: guard::Hierarchy::find(&common.root, &hierarchies).ok(),
        own_cgroup: guard::own_group(&String::from_utf8_lossy(&own)),
        refresh: settings.refresh,
        watchdog,
    };
    let started = guard::Service::start(config, store, Moment::now()).map_err(unguarded)?;
    Ok(Box::new(Watcher::new(started)))
}

fn unguarded(error: GuardError) -> Failure {
    let (exit, hint) = match &error {
        GuardError::Settings { .. } => (Exit::Usage, "docs/reference/agent.md has every key"),
        GuardError::NoCaps { .. } => (Exit::Environment, "guard.action = \"dry-run\" needs none"),
        GuardError::Busy { .. } => (Exit::Environment, "each agent has a spool of its own"),
        GuardError::State { .. } => (
            Exit::Environment,
            "--spool names the agent's spool, a folder that this user can write",
        ),
    };
    Failure::new(exit, error).hint(hint)
}

fn undo(spool: &Path, owner: Option<&str>, when_stdin_closes: bool) -> Result<Exit, Failure> {
    if when_stdin_closes {
        guard::wait_for_end()?;
    }
    let found = guard::undo(spool, owner, Moment::now()).map_err(unguarded)?;
    let mut is_undone = found.failed.is_empty() && found.unreadable.is_empty();
    print(|out| {
        for entry in &found.ended {
            let ended = entry.ended.as_ref();
            is_undone &= ended.is_some_and(|ended| ended.undone);
            let outcome = ended.map_or("", |ended| &ended.outcome);
            writeln!(out, "{:?}: {outcome}", entry.cgroup)?;
        }
        for (entry, error) in &found.failed {
            writeln!(out, "{:?}: not put back: {error}", entry.cgroup)?;
        }
        for path in &found.unreadable {
            writeln!(out, "{}: unreadable, set aside", path.display())?;
        }
        if found.ended.is_empty() && is_undone {
            writeln!(out, "no cap is left")?;
        }
        Ok(())
    })?;
    Ok(if is_undone { Exit::Ok } else { Exit::No })
}

/// This program, asked to profile.
fn profile_command(common: &Common) -> Result<Vec<String>, Failure> {
    let text = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| usage(format!("{} is not UTF-8", path.display())))
    };
    let mut command = vec![text(&std::env::current_exe()?)?, "profile".to_owned()];
    command.extend(["--root".to_owned(), text(&common.root)?]);
    if let Some(config) = &common.config {
        command.extend(["--config".to_owned(), text(config)?]);
    }
    Ok(command)
}

fn failure(error: AgentError) -> Failure {
    let (exit, hint) = match &error {
        AgentError::Busy { .. } => (Exit::Environment, Some("each agent has a spool of its own")),
        AgentError::Spool { .. } => (
            Exit::Environment,
            Some("--spool names a folder that this user can write"),
        ),
        AgentError::Listen { .. } => (
            Exit::Environment,
            Some("another address, or metrics.listen = \"\""),
        ),
        AgentError::Upload(steelyard_agent::spool::upload::UploadError::Store(error)) => {
            (Exit::Environment, error.hint())
        }
        AgentError::Upload(_) => (Exit::Failed, None),
    };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn tasks(common: &Common) -> Result<Exit, Failure> {
    let config = configuration(common)?;
    let tree = Tree::new(&common.root);
    let hierarchies = needs_groups(&tree)?;
    let rules = Rules::new(&config.rule, config.shipped_rules).map_err(usage)?;
    let found = Finder::new(&tree, hierarchies, rules, config.sampling.max_tasks).look();
    print(|out| {
        for (task, rule) in found.tasks.iter().zip(&found.rules) {
            let mut document = serde_json::to_value(&**task)?;
            document["rule"] = rule.as_str().into();
            writeln!(out, "{document}")?;
        }
        Ok(())
    })?;
    if found.too_many > 0 {
        eprintln!(
            "steelyard-agent: {} more groups are tasks by the rules, but sampling.max_tasks is {}",
            found.too_many, config.sampling.max_tasks
        );
    }
    Ok(Exit::Ok)
}

fn look(common: &Common, places: &Places, json: bool) -> Result<Exit, Failure> {
    let config = configuration(common)?;
    let mut store = store_of(places, &config)?;
    let spool = places.spool.clone().or_else(|| config.spool.folder.clone());
    let store = store.as_mut().map(|store| &mut **store as &mut dyn Store);
    let create = places.create_store || config.store.create;
    let found = check(&common.root, &config, spool.as_deref(), store, create);
    print(|out| {
        if json {
            let document = serde_json::json!({"schema_version": "1.0", "kind": "agent_check", "findings": found});
            return writeln!(out, "{document:#}");
        }
        for finding in &found {
            let state = match finding.state {
                State::Ok => "ok",
                State::Missing => "missing",
                State::Failed => "FAILED",
            };
            writeln!(out, "{:<24} {state:<8} {}", finding.what, finding.reason)?;
        }
        Ok(())
    })?;
    let failed = found.iter().any(|finding| finding.state == State::Failed);
    Ok(if failed { Exit::No } else { Exit::Ok })
}

fn take_profile(
    common: &Common,
    start: i64,
    duration: Duration,
    out: &Path,
) -> Result<Exit, Failure> {
    die_with_parent();
    let config = configuration(common)?;
    let tree = Tree::new(&common.root);
    let hierarchies = needs_groups(&tree)?;
    let rules = Rules::new(&config.rule, config.shipped_rules).map_err(usage)?;
    let found = Finder::new(&tree, hierarchies.clone(), rules, config.sampling.max_tasks).look();
    let wanted = Wanted {
        duration,
        hz: config.profiles.hz,
        max_stacks: config.profiles.max_stacks,
        sampled_ratio: config.profiles.minutes_ratio,
        start_unix_s: start,
    };
    let attribution = Attribution::new(&tree, &hierarchies, found.tasks);
    let rows =
        profile(&wanted, attribution).map_err(|error| Failure::new(Exit::Environment, error))?;
    // The spool's folder is the agent's own; a link in it is nobody's to follow all the same.
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(out)?;
    file.write_all(&serde_json::to_vec(&rows)?)?;
    Ok(Exit::Ok)
}
