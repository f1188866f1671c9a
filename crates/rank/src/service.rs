//! What a service is, apart from how its messages come and go: a method, its request, and the stages of its work.

use steelyard_kernel::usage::thread_cpu_ns;
use steelyard_record::monotonic_ns;
use steelyard_thrift::{ApplicationException, ExceptionKind, Reader, Type, Writer, write_frame};

use crate::messages::Blob;

/// Why a call gets no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Too much is waiting already.
    Overloaded,
    /// The service has no such method.
    UnknownMethod,
    /// The arguments are not what the method takes.
    Bad(String),
    /// A service behind this one did not answer, or refused.
    Leaf(String),
    /// The service ends.
    Ending,
}

impl Refusal {
    /// Words for counting, in the order of `number`.
    pub const KINDS: [&'static str; 5] = [
        "overloaded",
        "unknown-method",
        "bad-request",
        "leaf",
        "ending",
    ];

    /// Which of `KINDS` it is.
    pub fn number(&self) -> usize {
        match self {
            Self::Overloaded => 0,
            Self::UnknownMethod => 1,
            Self::Bad(_) => 2,
            Self::Leaf(_) => 3,
            Self::Ending => 4,
        }
    }

    /// Thrift's exception for it.
    fn exception(&self) -> (ExceptionKind, String) {
        match self {
            Self::Overloaded => (
                ExceptionKind::InternalError,
                "overloaded: too many requests are waiting".to_owned(),
            ),
            Self::UnknownMethod => (
                ExceptionKind::UnknownMethod,
                "no such method in this service".to_owned(),
            ),
            Self::Bad(why) => (ExceptionKind::ProtocolError, why.clone()),
            Self::Leaf(why) => (ExceptionKind::InternalError, why.clone()),
            Self::Ending => (ExceptionKind::InternalError, "the service ends".to_owned()),
        }
    }

    /// Appends the framed message that answers call `seqid` of `method` with it.
    pub fn write(&self, out: &mut Vec<u8>, method: &str, seqid: i32) {
        let (kind, text) = self.exception();
        write_frame(out, |message| {
            ApplicationException { kind, text: &text }.write(message, method, seqid);
        });
    }
}

/// Time in each stage of one request, ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTimes {
    names: &'static [&'static str],
    /// By the clock and of a CPU.
    times: Vec<(u64, u64)>,
}

impl StageTimes {
    /// No time in any stage.
    pub fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            times: vec![(0, 0); names.len()],
        }
    }

    /// Adds to a stage.
    pub fn add(&mut self, stage: usize, wall_ns: u64, cpu_ns: u64) {
        self.times[stage].0 += wall_ns;
        self.times[stage].1 += cpu_ns;
    }

    /// Wall and CPU time of each stage, in order.
    pub fn times(&self) -> &[(u64, u64)] {
        &self.times
    }

    /// Writes them as field `id`, a list of StageTime.
    pub fn write(&self, id: i16, writer: &mut Writer<'_>) {
        writer.field_list(id, Type::Struct, self.names.len() as u32);
        for (name, (wall_ns, cpu_ns)) in self.names.iter().zip(&self.times) {
            writer.structure(|fields| {
                fields.field_string(1, name);
                fields.field_i64(2, *wall_ns as i64);
                fields.field_i64(3, *cpu_ns as i64);
            });
        }
    }
}

/// Measures the stages of one request in the thread that works on it.
#[derive(Debug)]
pub struct StageClock {
    stages: StageTimes,
    wall_ns: u64,
    cpu_ns: u64,
}

impl StageClock {
    /// Begins now, after what `stages` holds already.
    pub fn start(stages: StageTimes) -> Self {
        Self {
            stages,
            wall_ns: monotonic_ns(),
            cpu_ns: thread_cpu_ns(),
        }
    }

    /// Ends a stage, which began when the one before ended.
    pub fn end(&mut self, stage: usize) {
        let (wall_ns, cpu_ns) = (monotonic_ns(), thread_cpu_ns());
        self.stages
            .add(stage, wall_ns - self.wall_ns, cpu_ns - self.cpu_ns);
        (self.wall_ns, self.cpu_ns) = (wall_ns, cpu_ns);
    }

    /// What it has measured.
    pub fn stages(&self) -> &StageTimes {
        &self.stages
    }
}

/// A service of one method.
pub trait Service: Send + Sync + 'static {
    /// The method.
    const METHOD: &'static str;
    /// The stages of its work. The first is the time in the queue; where there is a simulated backend, the second is
    /// the time in that; the service measures the others.
    const STAGES: &'static [&'static str];
    /// Whether a simulated backend stands before the work.
    const HAS_BACKEND: bool;
    /// What is asked for.
    type Request: Send + 'static;
    /// What a worker keeps from request to request.
    type Room;

    /// Reads the structure of the arguments.
    fn read(reader: &mut Reader<'_>) -> Result<Self::Request, Refusal>;

    /// How long the simulated backend takes before the work can begin, ns.
    fn delay_ns(&self, request: &Self::Request) -> u64;

    /// Room for a worker.
    fn room(&self) -> Self::Room;

    /// Does the work.
    fn work(
        &self,
        request: &Self::Request,
        clock: &mut StageClock,
        room: &mut Self::Room,
    ) -> Result<Blob, Refusal>;

    /// Writes the answer's fields.
    fn write(response: &Blob, stages: &StageTimes, fields: &mut Writer<'_>);
}
