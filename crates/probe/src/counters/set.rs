//! Groups of events, open on everything that is to be counted.
//!
//! In: a plan, scopes and targets. Out: the sums of each group at each read.
//!
//! Invariants: an entity is counted on all its CPUs and threads or not at all, so that no sum is short without
//! a reason; nothing is counted twice; nothing is enabled before everything is open.

use std::io;
use std::rc::Rc;

use steelyard_record::CounterPlan;

use super::arrange::{Arranger, Group, Trial};
use super::kernel::{Attr, Counter, Kernel, Who};
use super::plan::{self, Event, Missing};
use steelyard_kernel::topology::online_cpus_or_first;

use super::pmu::Reach;
use super::reasons::{self, Need};
use super::scope::{Entity, Scope, Subject, cpus, entities, threads};
use steelyard_kernel::Tree;

/// What to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSettings {
    /// The events.
    pub plan: CounterPlan,
    /// Whose work, one or more.
    pub scopes: Vec<Scope>,
    /// Process ids and control groups.
    pub targets: Vec<String>,
    /// Whether processes without a target are the command that the caller starts next, else the caller.
    pub command: bool,
}

/// A group that is open on one entity.
pub struct OpenGroup {
    /// The entity's scope.
    pub scope: Scope,
    /// The entity's name.
    pub entity: Rc<str>,
    /// PMU, number and events.
    pub group: Rc<Group>,
    leaders: Vec<Box<dyn Counter>>,
    /// Kept open because the kernel ends an event with its file.
    _followers: Vec<Box<dyn Counter>>,
    starts_by_itself: bool,
}

/// What a group has counted since it was opened, summed over CPUs and threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Time enabled, ns.
    pub enabled_ns: u64,
    /// Time counted, ns.
    pub running_ns: u64,
    /// Each event's count.
    pub counts: Vec<u64>,
}

impl OpenGroup {
    /// Reads the group wherever it is open. `words` is a buffer.
    pub fn read(&self, words: &mut Vec<u64>, sums: &mut Sums) -> io::Result<()> {
        let members = self.group.events.len();
        words.resize(3 + members, 0);
        sums.enabled_ns = 0;
        sums.running_ns = 0;
        sums.counts.clear();
        sums.counts.resize(members, 0);
        for leader in &self.leaders {
            let got = leader.read(&mut words[..3 + members])?;
            if got != 3 + members || words[0] != members as u64 {
                return Err(io::Error::other("a group lost an event"));
            }
            sums.enabled_ns += words[1];
            sums.running_ns += words[2];
            for (sum, count) in sums.counts.iter_mut().zip(&words[3..]) {
                *sum = sum.wrapping_add(*count);
            }
        }
        Ok(())
    }
}

/// Everything that is counted.
#[derive(Default)]
pub struct CounterSet {
    /// In the order of scopes, entities and groups.
    pub groups: Vec<OpenGroup>,
    /// What is not counted.
    pub missing: Missing,
    /// What a reader of the counts should know.
    pub notes: Vec<String>,
}

/// Files that stay free for the other sources and for writing.
const SPARE_FILES: u64 = 512;
/// Times that the threads of a process are listed anew because it made some meanwhile.
const LISTINGS: usize = 8;

/// Why a group could not be opened on an entity.
enum Failure {
    /// This member is refused.
    Event(usize, io::Error),
    /// The entity cannot be counted.
    Entity(io::Error),
}

struct Opener<'a> {
    kernel: &'a dyn Kernel,
    tree: &'a Tree,
    online: Vec<u32>,
    files: u64,
    file_limit: u64,
    set: CounterSet,
}

impl CounterSet {
    /// Opens what `settings` asks for, as far as the kernel allows, and starts it.
    pub fn open(settings: &CounterSettings, tree: &Tree, kernel: &dyn Kernel) -> Self {
        let mut opener = Opener {
            kernel,
            tree,
            online: online_cpus_or_first(tree),
            files: 0,
            file_limit: kernel.raise_file_limit(),
            set: Self::default(),
        };
        let events = plan::resolve(&settings.plan, tree, &mut opener.set.missing);
        for &scope in &settings.scopes {
            let (entities, refused) = entities(scope, settings, tree, &opener.online);
            for (name, reason) in refused {
                opener.set.missing.add(&name, "", reason);
            }
            opener.open_scope(scope, &entities, events.clone());
        }
        let mut set = opener.set;
        for group in set.groups.iter().filter(|group| !group.starts_by_itself) {
            for leader in &group.leaders {
                if let Err(error) = leader.enable() {
                    set.notes.push(format!(
                        "an event of {} did not start: {error}",
                        group.entity
                    ));
                }
            }
        }
        set
    }

    /// Why nothing is counted.
    pub fn reason(&self) -> String {
        self.missing.reasons()
    }
}

impl Opener<'_> {
    fn open_scope(&mut self, scope: Scope, entities: &[Entity], mut events: Vec<Event>) {
        let followed = matches!(scope, Scope::Process | Scope::Cgroup);
        events.retain(|event| {
            let machine = followed && matches!(event.pmu.reach, Reach::Machine(_));
            if machine {
                let reason = format!(
                    "PMU {} counts only for the whole machine: use --counter-scope system",
                    event.pmu.name
                );
                self.set
                    .missing
                    .add(&event.name, &format!("scope {}", scope.name()), reason);
            }
            !machine
        });
        if entities.is_empty() {
            return;
        }
        let trial = match scope {
            Scope::Process => Trial::Own,
            _ => Trial::Cpu(self.online[0]),
        };
        let mut arranger = Arranger::new(self.kernel, self.tree, trial, &mut self.set.missing);
        let groups: Vec<Rc<Group>> = arranger.arrange(events).into_iter().map(Rc::new).collect();
        let notes = arranger.notes;
        self.note_cores(scope, &groups);
        for note in notes {
            if !self.set.notes.contains(&note) {
                self.set.notes.push(note);
            }
        }
        for entity in entities {
            self.open_entity(scope, entity, &groups);
        }
    }

    /// What shares of time mean where a thread moves between kinds of core.
    fn note_cores(&mut self, scope: Scope, groups: &[Rc<Group>]) {
        let mut cores: Vec<&str> = groups
            .iter()
            .filter(|group| matches!(group.pmu.reach, Reach::Cores(_)))
            .map(|group| group.pmu.name.as_str())
            .collect();
        cores.dedup();
        if scope == Scope::Process && cores.len() > 1 {
            self.set.notes.push(format!(
                "a process's enabled time on {} goes on while it runs on another kind of core, so that its \
                 counts must not be scaled by running time",
                cores.join(" and ")
            ));
        }
    }

    fn open_entity(&mut self, scope: Scope, entity: &Entity, groups: &[Rc<Group>]) {
        let first = self.set.groups.len();
        let files = self.files;
        let opened = match entity.subject {
            Subject::Process(pid) => self.open_process(scope, entity, pid, groups),
            _ => self.open_groups(scope, entity, &[], groups),
        };
        if let Err(error) = opened {
            self.set.groups.truncate(first);
            self.files = files;
            let need = match scope {
                Scope::Process => Need::OwnKernel,
                _ => Need::Cpus,
            };
            let reason = match error.raw_os_error() {
                Some(libc::ESRCH) => "there is no such process, or it has ended".to_owned(),
                Some(libc::EBADF) => {
                    "it is not in the hierarchy of control groups that counters use".to_owned()
                }
                _ => reasons::refused(&error, need, self.tree, self.kernel),
            };
            self.set
                .missing
                .add(&label(scope, &entity.name), "", reason);
        }
    }

    /// Opens all threads of a process. A thread that is made meanwhile is counted already if an event of its
    /// maker was open, else not: the only sure way is to start again until none was made.
    fn open_process(
        &mut self,
        scope: Scope,
        entity: &Entity,
        pid: u32,
        groups: &[Rc<Group>],
    ) -> io::Result<()> {
        let first = self.set.groups.len();
        let files = self.files;
        for listing in 1.. {
            let before = threads(self.tree, pid);
            if before.is_empty() {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            self.open_groups(scope, entity, &before, groups)?;
            let after = threads(self.tree, pid);
            if after.iter().all(|thread| before.contains(thread)) {
                return Ok(());
            }
            if listing == LISTINGS {
                self.set.notes.push(format!(
                    "process {pid} created threads faster than they could be found: some of its first \
                     threads are not counted"
                ));
                return Ok(());
            }
            self.set.groups.truncate(first);
            self.files = files;
        }
        Ok(())
    }

    fn open_groups(
        &mut self,
        scope: Scope,
        entity: &Entity,
        threads: &[u32],
        groups: &[Rc<Group>],
    ) -> io::Result<()> {
        let name: Rc<str> = entity.name.as_str().into();
        for group in groups {
            let mut group = Rc::clone(group);
            let counters = loop {
                match self.open_everywhere(entity, threads, &group.events) {
                    Ok(counters) => break counters,
                    Err(Failure::Entity(error)) => return Err(error),
                    Err(Failure::Event(place, error)) => {
                        let event = &group.events[place];
                        let need = Need::Cpus;
                        let reason = reasons::event_refused(
                            &error,
                            &group.pmu,
                            need,
                            self.tree,
                            self.kernel,
                        );
                        self.set
                            .missing
                            .add(&event.name, &label(scope, &entity.name), reason);
                        let mut events = group.events.clone();
                        events.remove(place);
                        group = Rc::new(Group {
                            events,
                            ..(*group).clone()
                        });
                    }
                }
            };
            let (leaders, followers) = counters;
            if leaders.is_empty() {
                // A PMU without a CPU here has no rows; a process without threads has ended.
                if matches!(entity.subject, Subject::Process(_)) && !group.events.is_empty() {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                continue;
            }
            self.set.groups.push(OpenGroup {
                scope,
                entity: Rc::clone(&name),
                group,
                leaders,
                _followers: followers,
                starts_by_itself: matches!(entity.subject, Subject::NextCommand),
            });
        }
        Ok(())
    }

    /// Opens `events` as a group on each CPU or thread of `entity`.
    #[expect(clippy::type_complexity, reason = "leaders and followers")]
    fn open_everywhere(
        &mut self,
        entity: &Entity,
        threads: &[u32],
        events: &[Event],
    ) -> Result<(Vec<Box<dyn Counter>>, Vec<Box<dyn Counter>>), Failure> {
        let Some(first) = events.first() else {
            return Ok(Default::default());
        };
        let cpus = cpus(&entity.subject, &first.pmu, &self.online);
        let on_cpus = |who| cpus.iter().map(move |cpu| (who, Some(*cpu))).collect();
        let places: Vec<(Who<'_>, Option<u32>)> = match &entity.subject {
            Subject::Cpus | Subject::Cpu(_) => on_cpus(Who::All),
            Subject::Cgroup(folder) => on_cpus(Who::Cgroup(folder)),
            Subject::NextCommand | Subject::Own => vec![(Who::Thread(0), None)],
            Subject::Process(_) => threads.iter().map(|id| (Who::Thread(*id), None)).collect(),
        };
        let followed = matches!(entity.subject, Subject::Process(_) | Subject::NextCommand);
        let on_exec = matches!(entity.subject, Subject::NextCommand);
        let files = self.files;
        let (mut leaders, mut followers) = (Vec::new(), Vec::new());
        'places: for (who, cpu) in places {
            let mut leader: Option<Box<dyn Counter>> = None;
            let mut others = Vec::new();
            for (number, event) in events.iter().enumerate() {
                let attr = Attr {
                    type_: event.pmu.type_,
                    words: event.words,
                    modes: event.modes,
                    inherit: followed,
                    disabled: leader.is_none(),
                    enable_on_exec: on_exec && leader.is_none(),
                };
                let group = leader.as_ref().map(|leader| leader.number());
                match self.open(&attr, who, cpu, group) {
                    Ok(counter) if leader.is_none() => leader = Some(counter),
                    Ok(counter) => others.push(counter),
                    // The thread has ended, or the CPU was taken offline.
                    Err(error)
                        if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) =>
                    {
                        continue 'places;
                    }
                    Err(error) => {
                        self.files = files;
                        return Err(match reasons::is_of_event(&error) {
                            true => Failure::Event(number, error),
                            false => Failure::Entity(error),
                        });
                    }
                }
            }
            leaders.extend(leader);
            followers.append(&mut others);
        }
        self.files = files + (leaders.len() + followers.len()) as u64;
        Ok((leaders, followers))
    }

    fn open(
        &mut self,
        attr: &Attr,
        who: Who<'_>,
        cpu: Option<u32>,
        leader: Option<i32>,
    ) -> io::Result<Box<dyn Counter>> {
        if self.files + SPARE_FILES.min(self.file_limit / 2) >= self.file_limit {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let counter = self.kernel.open(attr, who, cpu, leader)?;
        self.files += 1;
        Ok(counter)
    }
}

fn label(scope: Scope, entity: &str) -> String {
    match scope {
        Scope::System => "the whole system".to_owned(),
        Scope::Cpu => entity.to_owned(),
        Scope::Process if entity == "command" => "the command".to_owned(),
        Scope::Process => format!("process {entity}"),
        Scope::Cgroup => format!("control group {entity}"),
    }
}
