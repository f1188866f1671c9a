//! The layout of perf_event_attr and of the records that follow from it. Source: perf_event_open(2) and
//! include/uapi/linux/perf_event.h.
//!
//! Only little-endian machines: a file of another byte order is refused where it is opened.

use std::collections::HashMap;

use super::Cursor;
use super::user::{UserLayout, UserState};

/// Numbers of the record types that are read.
pub mod kind {
    #![allow(missing_docs, reason = "named as in linux/perf_event.h")]
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
}

const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const BRANCH_STACK: u64 = 1 << 11;
const REGS_USER: u64 = 1 << 12;
const STACK_USER: u64 = 1 << 13;
const IDENTIFIER: u64 = 1 << 16;

const FORMAT_ENABLED: u64 = 1;
const FORMAT_RUNNING: u64 = 1 << 1;
const FORMAT_ID: u64 = 1 << 2;
const FORMAT_GROUP: u64 = 1 << 3;
const FORMAT_LOST: u64 = 1 << 4;

const SAMPLE_ID_ALL: u64 = 1 << 18;
const FREQUENCY: u64 = 1 << 10;

const MODE_MASK: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_USER: u16 = 2;
const MISC_MMAP_DATA: u16 = 1 << 13;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

const PROT_EXEC: u32 = 4;

/// PERF_SAMPLE_BRANCH_HW_INDEX.
const BRANCH_INDEX: u64 = 1 << 17;

/// Names of hardware events by number.
pub const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
/// Names of the kernel's own events by number.
pub const SOFTWARE: [&str; 11] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
];

/// What is sampled and how, as far as reading needs it: perf_event_attr.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribute {
    /// Name of the event, empty where the file has none.
    pub name: String,
    /// PERF_TYPE_*.
    pub type_: u32,
    /// Event of that type.
    pub config: u64,
    /// Samples a second, None when a period was asked for.
    pub frequency: Option<u64>,
    /// The period that was asked for, which samples then need not tell.
    fixed_period: Option<u64>,
    sample_type: u64,
    read_format: u64,
    sample_id_all: bool,
    user: UserLayout,
}

impl Attribute {
    /// Reads perf_event_attr; None when it is too short.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let type_ = cursor.u32()?;
        let _size = cursor.u32()?;
        let config = cursor.u64()?;
        let period = cursor.u64()?;
        let sample_type = cursor.u64()?;
        let read_format = cursor.u64()?;
        let flags = cursor.u64()?;
        let user = read_user_layout(cursor, sample_type).unwrap_or_default();
        Some(Self {
            name: String::new(),
            type_,
            config,
            frequency: (flags & FREQUENCY != 0).then_some(period),
            fixed_period: (flags & FREQUENCY == 0 && period > 0).then_some(period),
            sample_type,
            read_format,
            sample_id_all: flags & SAMPLE_ID_ALL != 0,
            user,
        })
    }

    /// Whether its samples hold call chains.
    pub fn has_chains(&self) -> bool {
        self.sample_type & CALLCHAIN != 0
    }

    /// Whether its samples hold registers and a copy of the stack, from which call chains are unwound.
    pub fn has_stacks(&self) -> bool {
        self.user.has_state
    }

    /// The size of perf_event_attr as it says itself.
    pub fn declared_size(bytes: &[u8]) -> Option<usize> {
        let mut cursor = Cursor::new(bytes);
        cursor.skip(4)?;
        Some(cursor.u32()? as usize)
    }

    /// The name for an event that the file gives none, from linux/perf_event.h.
    pub fn known_name(&self) -> String {
        let named = match self.type_ {
            // The upper half of a hardware event's config names the core type of a hybrid CPU.
            0 => HARDWARE.get((self.config & 0xffff_ffff) as usize),
            1 => SOFTWARE.get(self.config as usize),
            _ => None,
        };
        match named {
            Some(name) => (*name).to_owned(),
            None => format!("type {} config {:#x}", self.type_, self.config),
        }
    }

    /// Bytes that follow a record other than a sample and tell whose it is.
    fn trailer_bytes(&self) -> usize {
        let fields = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        8 * fields
            .iter()
            .filter(|&&field| self.sample_type & field != 0)
            .count()
    }
}

/// A record that matters to a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'a> {
    /// A process mapped a file, or the kernel's text is described.
    Map {
        /// Process, `u32::MAX` for the kernel.
        pid: u32,
        /// First address.
        start: u64,
        /// Bytes.
        length: u64,
        /// Offset in the file.
        offset: u64,
        /// The file.
        path: String,
        /// Its build id, when the record has it.
        build_id: Option<Vec<u8>>,
        /// Its inode, when the record has it.
        inode: Option<u64>,
        /// Whether it is of the kernel.
        kernel: bool,
    },
    /// A thread changed its name.
    Command {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// The name.
        name: String,
        /// By executing a program.
        exec: bool,
    },
    /// A process or thread was made.
    Fork {
        /// The new one's process.
        pid: u32,
        /// The process that made it.
        parent_pid: u32,
        /// The new thread.
        tid: u32,
        /// The thread that made it.
        parent_tid: u32,
    },
    /// So many samples were dropped.
    Lost(u64),
    /// A sample.
    Sample(Sample<'a>),
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Position of its attribute.
    pub attribute: usize,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Where the CPU was; None when the record does not tell.
    pub ip: Option<u64>,
    /// The event's occurrences that it stands for.
    pub period: Option<u64>,
    /// When it was taken, ns of the recording's clock.
    pub time: Option<u64>,
    /// The CPU was in the kernel.
    pub in_kernel: bool,
    /// The CPU was in a program.
    pub in_user: bool,
    /// The call chain, 8 bytes an entry, leaf first, with markers between contexts. Empty when there is none.
    pub chain: &'a [u8],
    /// Registers and stack of the program; None when they were not sampled, or there is no program.
    pub user: Option<UserState<'a>>,
}

/// The attributes of a recording, and which record belongs to which.
#[derive(Debug, Clone, Default)]
pub struct Attributes {
    list: Vec<Attribute>,
    by_id: HashMap<u64, usize>,
}

impl Attributes {
    /// Adds an attribute and the ids of its events.
    pub fn add(&mut self, attribute: Attribute, ids: impl IntoIterator<Item = u64>) {
        let at = self.list.len();
        self.list.push(attribute);
        self.by_id.extend(ids.into_iter().map(|id| (id, at)));
    }

    /// All of them.
    pub fn list(&self) -> &[Attribute] {
        &self.list
    }

    /// The one that an event's id belongs to.
    pub fn by_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Names the attribute at `at`.
    pub fn name(&mut self, at: usize, name: &str) {
        if let Some(attribute) = self.list.get_mut(at) {
            attribute.name = name.to_owned();
        }
    }

    /// Gives events without a name the one that their number has.
    pub fn name_the_unnamed(&mut self) {
        for attribute in self
            .list
            .iter_mut()
            .filter(|attribute| attribute.name.is_empty())
        {
            attribute.name = attribute.known_name();
        }
    }

    /// Which attribute a record belongs to. Where ids tell, they stand at a place that is the same for all
    /// attributes: that is what lets them be read before the attribute is known.
    fn of(&self, record: u32, body: &[u8]) -> Option<usize> {
        let first = self.list.first()?;
        if self.list.len() == 1 {
            return Some(0);
        }
        let types = first.sample_type;
        let id = if types & IDENTIFIER != 0 {
            let at = if record == kind::SAMPLE {
                Some(0)
            } else {
                body.len().checked_sub(8)
            };
            word_at(body, at?)
        } else if types & ID != 0 {
            let before = if record == kind::SAMPLE {
                8 * (types & (IP | TID | TIME | ADDR)).count_ones() as usize
            } else {
                let after = 8 * (types & (ID | STREAM_ID | CPU)).count_ones() as usize;
                body.len().checked_sub(after)?
            };
            word_at(body, before)
        } else {
            None
        };
        // An event without a known id, which side records of old files have, is the first's.
        Some(id.and_then(|id| self.by_id(id)).unwrap_or(0))
    }

    /// The time of a record, ns of the recording's clock; None where it has none.
    pub fn time(&self, record: u32, body: &[u8]) -> Option<u64> {
        let attribute = &self.list[self.of(record, body)?];
        let types = attribute.sample_type;
        if types & TIME == 0 {
            return None;
        }
        let at = if record == kind::SAMPLE {
            8 * (types & (IDENTIFIER | IP | TID)).count_ones() as usize
        } else if attribute.sample_id_all {
            let trailer = body.len().checked_sub(attribute.trailer_bytes())?;
            trailer + 8 * (types & TID).count_ones() as usize
        } else {
            return None;
        };
        word_at(body, at)
    }

    /// Reads a record; None when it is of no interest, or too short for what it says it holds.
    pub fn read<'a>(&self, record: u32, misc: u16, body: &'a [u8]) -> Option<Record<'a>> {
        let at = self.of(record, body)?;
        let attribute = &self.list[at];
        if record == kind::SAMPLE {
            return read_sample(at, attribute, misc, body).map(Record::Sample);
        }
        let trailer = if attribute.sample_id_all {
            attribute.trailer_bytes()
        } else {
            0
        };
        let mut cursor = Cursor::new(&body[..body.len().checked_sub(trailer)?]);
        match record {
            kind::MMAP => read_map(&mut cursor, misc, false),
            kind::MMAP2 => read_map(&mut cursor, misc, true),
            kind::COMM => Some(Record::Command {
                pid: cursor.u32()?,
                tid: cursor.u32()?,
                exec: misc & MISC_COMM_EXEC != 0,
                name: cursor.text(),
            }),
            kind::FORK => Some(Record::Fork {
                pid: cursor.u32()?,
                parent_pid: cursor.u32()?,
                tid: cursor.u32()?,
                parent_tid: cursor.u32()?,
            }),
            kind::LOST => {
                cursor.skip(8)?;
                Some(Record::Lost(cursor.u64()?))
            }
            kind::LOST_SAMPLES => Some(Record::Lost(cursor.u64()?)),
            _ => None,
        }
    }
}

/// How samples of an attribute hold registers and stack, from what follows its flags. None in files of kernels
/// that did not know them.
fn read_user_layout(mut cursor: Cursor<'_>, sample_type: u64) -> Option<UserLayout> {
    cursor.skip(24)?;
    let branches = cursor.u64()?;
    let register_mask = cursor.u64()?;
    Some(UserLayout {
        has_raw: sample_type & RAW != 0,
        has_branches: sample_type & BRANCH_STACK != 0,
        has_branch_index: branches & BRANCH_INDEX != 0,
        has_state: sample_type & REGS_USER != 0 && sample_type & STACK_USER != 0,
        register_mask,
    })
}

fn word_at(body: &[u8], at: usize) -> Option<u64> {
    let mut cursor = Cursor::new(body.get(at..)?);
    cursor.u64()
}

fn read_map<'a>(cursor: &mut Cursor<'_>, misc: u16, second: bool) -> Option<Record<'a>> {
    let pid = cursor.u32()?;
    let _tid = cursor.u32()?;
    let start = cursor.u64()?;
    let length = cursor.u64()?;
    let offset = cursor.u64()?;
    let (mut build_id, mut inode) = (None, None);
    if second {
        if misc & MISC_MMAP_BUILD_ID != 0 {
            let size = usize::from(cursor.take(1)?[0]).min(20);
            cursor.skip(3)?;
            build_id = Some(cursor.take(20)?[..size].to_vec());
        } else {
            cursor.skip(8)?;
            inode = Some(cursor.u64()?);
            cursor.skip(8)?;
        }
        let protection = cursor.u32()?;
        cursor.skip(4)?;
        if protection & PROT_EXEC == 0 {
            return None;
        }
    } else if misc & MISC_MMAP_DATA != 0 {
        return None;
    }
    Some(Record::Map {
        pid,
        start,
        length,
        offset,
        path: cursor.text(),
        build_id,
        inode,
        kernel: misc & MODE_MASK == MODE_KERNEL || pid == u32::MAX,
    })
}

fn read_sample<'a>(
    at: usize,
    attribute: &Attribute,
    misc: u16,
    body: &'a [u8],
) -> Option<Sample<'a>> {
    let types = attribute.sample_type;
    let mut cursor = Cursor::new(body);
    let has = |field: u64| types & field != 0;
    let word = |field: u64, cursor: &mut Cursor<'a>| {
        if has(field) {
            cursor.u64().map(Some)
        } else {
            Some(None)
        }
    };
    word(IDENTIFIER, &mut cursor)?;
    let ip = word(IP, &mut cursor)?;
    let ids = word(TID, &mut cursor)?;
    let time = word(TIME, &mut cursor)?;
    word(ADDR, &mut cursor)?;
    word(ID, &mut cursor)?;
    word(STREAM_ID, &mut cursor)?;
    word(CPU, &mut cursor)?;
    let period = word(PERIOD, &mut cursor)?.or(attribute.fixed_period);
    if types & READ != 0 {
        skip_read(attribute.read_format, &mut cursor)?;
    }
    let chain = if types & CALLCHAIN != 0 {
        let count = usize::try_from(cursor.u64()?).ok()?;
        cursor.take(count.checked_mul(8)?)?
    } else {
        &[]
    };
    let user = attribute.user.read(&mut cursor);
    let ids = ids.unwrap_or(u64::MAX);
    Some(Sample {
        attribute: at,
        pid: ids as u32,
        tid: (ids >> 32) as u32,
        ip,
        time,
        period,
        in_kernel: misc & MODE_MASK == MODE_KERNEL,
        in_user: misc & MODE_MASK == MODE_USER,
        chain,
        user,
    })
}

fn skip_read(format: u64, cursor: &mut Cursor<'_>) -> Option<()> {
    let times = (format & (FORMAT_ENABLED | FORMAT_RUNNING)).count_ones() as usize;
    let per_value = 1 + (format & (FORMAT_ID | FORMAT_LOST)).count_ones() as usize;
    let values = if format & FORMAT_GROUP != 0 {
        usize::try_from(cursor.u64()?).ok()?
    } else {
        1
    };
    cursor.skip(
        values
            .checked_mul(per_value)?
            .checked_add(times)?
            .checked_mul(8)?,
    )
}
