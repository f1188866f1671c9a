//! A machine with counters in the kernel's place: so many general ones, some fixed, groups that take turns.
//!
//! What it knows of the kernel: a group that no CPU could count at once is refused (EINVAL) as if no other program
//! held a counter; of those opened, whole groups get the counters in turn, a millisecond each; time enabled
//! goes on while time running waits; counts grow with time running.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

use steelyard_record::Modes;

use super::kernel::{Attr, Counter, Kernel, Who};

const TURN_NS: u64 = 1_000_000;

/// One PMU's counters on each CPU.
#[derive(Debug, Clone, Default)]
pub struct FakePmu {
    /// Counters for any event.
    pub general: usize,
    /// Configs that have a counter of their own.
    pub fixed: BTreeSet<u64>,
    /// General counters that another program holds permanently, which opening does not notice.
    pub held: usize,
}

#[derive(Debug)]
struct Open {
    attr: Attr,
    context: String,
    leader: i32,
    enabled: bool,
    enabled_ns: u64,
    running_ns: u64,
    count: u64,
}

#[derive(Debug, Default)]
struct State {
    pmus: BTreeMap<u32, FakePmu>,
    /// Errors by type and config.
    refusals: BTreeMap<(u32, u64), i32>,
    /// Errors by `all`, `thread N` or `cgroup`.
    refused_contexts: BTreeMap<String, i32>,
    refused_cpus: BTreeMap<u32, i32>,
    kernel_mode_refused: bool,
    open: BTreeMap<i32, Open>,
    next: i32,
    turns: u64,
    limit: Option<u64>,
    opened: u64,
}

/// The kernel's stand-in. Events count their config plus one each microsecond that they run.
#[derive(Debug, Clone, Default)]
pub struct Fake(Rc<RefCell<State>>);

struct FakeCounter(i32, Rc<RefCell<State>>);

impl Fake {
    /// Adds a PMU of type `type_`.
    pub fn pmu(self, type_: u32, pmu: FakePmu) -> Self {
        self.0.borrow_mut().pmus.insert(type_, pmu);
        self
    }

    /// Refuses one event.
    pub fn refuse(self, type_: u32, config: u64, errno: i32) -> Self {
        self.0.borrow_mut().refusals.insert((type_, config), errno);
        self
    }

    /// Refuses everything in a context.
    pub fn refuse_context(self, context: &str, errno: i32) -> Self {
        self.0
            .borrow_mut()
            .refused_contexts
            .insert(context.to_owned(), errno);
        self
    }

    /// Refuses everything on a CPU.
    pub fn refuse_cpu(self, cpu: u32, errno: i32) -> Self {
        self.0.borrow_mut().refused_cpus.insert(cpu, errno);
        self
    }

    /// Refuses to count kernel mode.
    pub fn refuse_kernel_mode(self) -> Self {
        self.0.borrow_mut().kernel_mode_refused = true;
        self
    }

    /// Allows so many open files.
    pub fn file_limit(self, limit: u64) -> Self {
        self.0.borrow_mut().limit = Some(limit);
        self
    }

    /// Events open now.
    pub fn open_events(&self) -> usize {
        self.0.borrow().open.len()
    }

    /// Events opened so far.
    pub fn opened(&self) -> u64 {
        self.0.borrow().opened
    }

    /// Lets time pass.
    pub fn pass(&self, time_ns: u64) {
        let mut left = time_ns;
        while left > 0 {
            let turn = left.min(TURN_NS);
            self.0.borrow_mut().turn(turn);
            left -= turn;
        }
    }
}

impl State {
    /// Counters of each type that `members` take, general ones only.
    fn need(&self, members: &[&Attr]) -> BTreeMap<u32, usize> {
        let mut fixed_taken = BTreeSet::new();
        let mut need = BTreeMap::new();
        for attr in members {
            let Some(pmu) = self.pmus.get(&attr.type_) else {
                continue;
            };
            let own = pmu.fixed.contains(&attr.words[0]);
            if !(own && fixed_taken.insert((attr.type_, attr.words[0]))) {
                *need.entry(attr.type_).or_default() += 1;
            }
        }
        need
    }

    fn members(&self, leader: i32) -> Vec<&Attr> {
        let own = self.open.values().filter(|open| open.leader == leader);
        own.map(|open| &open.attr).collect()
    }

    fn turn(&mut self, time_ns: u64) {
        let contexts: BTreeSet<String> = self
            .open
            .values()
            .map(|open| open.context.clone())
            .collect();
        for context in contexts {
            let mut leaders: Vec<i32> = self
                .open
                .iter()
                .filter(|(id, open)| open.context == context && open.leader == **id && open.enabled)
                .map(|(id, _)| *id)
                .collect();
            let first = self.turns as usize % leaders.len().max(1);
            leaders.rotate_left(first);
            let mut free: BTreeMap<u32, usize> = self
                .pmus
                .iter()
                .map(|(type_, pmu)| (*type_, pmu.general - pmu.held))
                .collect();
            for leader in leaders {
                let need = self.need(&self.members(leader));
                let fits = need.iter().all(|(type_, need)| free[type_] >= *need);
                if fits {
                    for (type_, need) in need {
                        *free.entry(type_).or_default() -= need;
                    }
                }
                for open in self.open.values_mut().filter(|open| open.leader == leader) {
                    open.enabled_ns += time_ns;
                    if fits {
                        open.running_ns += time_ns;
                        open.count += (open.attr.words[0] + 1) * (time_ns / 1000);
                    }
                }
            }
        }
        self.turns += 1;
    }
}

impl Kernel for Fake {
    fn open(
        &self,
        attr: &Attr,
        who: Who<'_>,
        cpu: Option<u32>,
        leader: Option<i32>,
    ) -> io::Result<Box<dyn Counter>> {
        let mut state = self.0.borrow_mut();
        let refuse = |errno| Err(io::Error::from_raw_os_error(errno));
        let subject = match who {
            Who::All => "all".to_owned(),
            Who::Thread(id) => format!("thread {id}"),
            Who::Cgroup(_) => "cgroup".to_owned(),
        };
        if let Some(errno) = state.refused_contexts.get(&subject) {
            return refuse(*errno);
        }
        if let Some(errno) = cpu.and_then(|cpu| state.refused_cpus.get(&cpu)) {
            return refuse(*errno);
        }
        if let Some(errno) = state.refusals.get(&(attr.type_, attr.words[0])) {
            return refuse(*errno);
        }
        if state.kernel_mode_refused && attr.modes != Modes::User {
            return refuse(libc::EACCES);
        }
        if state
            .limit
            .is_some_and(|limit| state.open.len() as u64 >= limit)
        {
            return refuse(libc::EMFILE);
        }
        let mut members = leader
            .map(|leader| state.members(leader))
            .unwrap_or_default();
        members.push(attr);
        let fits = |(type_, need): (u32, usize)| state.pmus[&type_].general >= need;
        if !state.need(&members).into_iter().all(fits) {
            return refuse(libc::EINVAL);
        }
        state.next += 1;
        state.opened += 1;
        let id = state.next;
        let open = Open {
            attr: *attr,
            context: format!("{subject} on {cpu:?}"),
            leader: leader.unwrap_or(id),
            enabled: !attr.disabled,
            enabled_ns: 0,
            running_ns: 0,
            count: 0,
        };
        state.open.insert(id, open);
        Ok(Box::new(FakeCounter(id, Rc::clone(&self.0))))
    }

    fn run_for(&self, time_ns: u64, _cpus: Option<&[u32]>) {
        self.pass(time_ns);
    }

    fn raise_file_limit(&self) -> u64 {
        self.0.borrow().limit.unwrap_or(1 << 20)
    }

    fn is_root(&self) -> bool {
        false
    }
}

impl Counter for FakeCounter {
    fn number(&self) -> i32 {
        self.0
    }

    fn enable(&self) -> io::Result<()> {
        let mut state = self.1.borrow_mut();
        state.open.get_mut(&self.0).expect("open").enabled = true;
        Ok(())
    }

    fn read(&self, words: &mut [u64]) -> io::Result<usize> {
        let state = self.1.borrow();
        let leader = &state.open[&self.0];
        let members = state.open.values().filter(|open| open.leader == self.0);
        let counts: Vec<u64> = members.map(|open| open.count).collect();
        let all = [
            vec![counts.len() as u64, leader.enabled_ns, leader.running_ns],
            counts,
        ]
        .concat();
        if all.len() > words.len() {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        words[..all.len()].copy_from_slice(&all);
        Ok(all.len())
    }
}

impl Drop for FakeCounter {
    fn drop(&mut self) {
        self.1.borrow_mut().open.remove(&self.0);
    }
}
