//! Pages of a process, from /proc/PID/numa_maps.
//!
//! A line stands for one mapping: `ADDRESS POLICY [file=... |heap|stack|huge] [anon=N] [mapmax=N] ... N0=N N1=N
//! kernelpagesize_kB=N`, where counts are of pages of that size. Transparent huge pages count as the base pages that
//! they replace, pages of hugetlbfs as one each. Names of files have blanks and `=` escaped. Source: Linux,
//! fs/proc/task_mmu.c (show_numa_map) and proc_pid_numa_maps(5).
//!
//! The file is read in pieces: a process with a million mappings needs no more memory than one with ten.

use std::io::Read;

use steelyard_record::open_file;

use super::pages::{Pages, add};
use super::{Missing, Nodes};
use crate::scan::{self, words};
use crate::{Tree, page_bytes};

/// What one read asks for. The kernel answers with a page or so at a time.
const PIECE: usize = 64 * 1024;
/// A line longer than this is none of numa_maps: names are at most 4 KiB, escaped four times as long.
const LONGEST_LINE: usize = 1 << 20;

/// The memory of process `pid` by node.
///
/// The kernel walks the process's page tables meanwhile, holding its memory map for reading.
pub fn read_pages_of_process(tree: &Tree, nodes: &Nodes, pid: u32) -> Result<Pages, Missing> {
    read_pages_into(tree, nodes, pid, &mut Vec::new())
}

/// The same with a buffer that is kept.
pub fn read_pages_into(
    tree: &Tree,
    nodes: &Nodes,
    pid: u32,
    buffer: &mut Vec<u8>,
) -> Result<Pages, Missing> {
    let path = tree.path(format!("proc/{pid}/numa_maps"));
    let mut file = open_file(&path).map_err(|error| {
        let lives = tree.path(format!("proc/{pid}/stat")).exists();
        match error.kind() {
            std::io::ErrorKind::NotFound if lives => Missing::NO_NUMA_MAPS,
            _ => Missing::of_process("numa_maps", &error),
        }
    })?;
    let mut pages = Pages::new(nodes.len());
    let mut reader = LineReader::new(nodes, page_bytes(), nodes.huge_page_bytes());
    buffer.resize(PIECE, 0);
    loop {
        match file.read(buffer) {
            Ok(0) => break,
            Ok(got) => reader.take(&buffer[..got], &mut pages),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Missing::of_process("numa_maps", &error)),
        }
    }
    reader.end(&mut pages);
    Ok(pages)
}

/// Adds up lines that come in pieces.
pub(super) struct LineReader<'n> {
    nodes: &'n Nodes,
    page_bytes: u64,
    huge_page_bytes: Option<u64>,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    /// Pages by position of the line that is read.
    counts: Vec<(Option<usize>, u64)>,
}

impl<'n> LineReader<'n> {
    /// `page_bytes` is the size of a page on lines without one, `huge_page_bytes` that of huge ones.
    pub(crate) fn new(nodes: &'n Nodes, page_bytes: u64, huge_page_bytes: Option<u64>) -> Self {
        Self {
            nodes,
            page_bytes,
            huge_page_bytes,
            begun: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// The next piece of the text.
    pub(crate) fn take(&mut self, text: &[u8], pages: &mut Pages) {
        let Some(last) = memchr::memrchr(b'\n', text) else {
            self.begin(text);
            return;
        };
        let (whole, rest) = text.split_at(last + 1);
        let mut whole = whole;
        if !self.begun.is_empty() {
            let end = memchr::memchr(b'\n', whole).map_or(whole.len(), |end| end + 1);
            let (tail, following) = whole.split_at(end);
            self.begin(tail);
            self.end(pages);
            whole = following;
        }
        for line in scan::lines(whole) {
            self.line(line, pages);
        }
        self.begin(rest);
    }

    /// The end of the text: a line that has begun is whole.
    pub(crate) fn end(&mut self, pages: &mut Pages) {
        let line = std::mem::take(&mut self.begun);
        for line in scan::lines(&line) {
            self.line(line, pages);
        }
    }

    fn begin(&mut self, text: &[u8]) {
        if self.begun.len() + text.len() <= LONGEST_LINE {
            self.begun.extend_from_slice(text);
        }
    }

    fn line(&mut self, line: &[u8], pages: &mut Pages) {
        let mut fields = words(line);
        // The address and the policy, which may hold anything.
        fields.pass(2);
        self.counts.clear();
        let (mut anon, mut shared, mut huge, mut size) = (0, false, false, None);
        for field in fields {
            match field {
                [b'N', b'0'..=b'9', ..] => {
                    let (node, used) = scan::leading_number(&field[1..]);
                    if let (Some(node), Some(count)) = (node, value(&field[1..], used)) {
                        self.counts.push((self.nodes.position_of_id(node), count));
                    }
                }
                [b'a', b'n', b'o', b'n', b'=', number @ ..] => {
                    anon = scan::number(number).unwrap_or(0);
                }
                [b'm', b'a', b'p', b'm', b'a', b'x', b'=', number @ ..] => {
                    shared = scan::number(number).is_some_and(|most| most > 1);
                }
                b"huge" => huge = true,
                [b'k', ..] => {
                    if let Some(number) = field.strip_prefix(b"kernelpagesize_kB=") {
                        size = scan::number(number).and_then(|kib| kib.checked_mul(1024));
                    }
                }
                _ => {}
            }
        }
        if self.counts.is_empty() {
            return;
        }
        // Kernels before 2.6.36 tell no sizes.
        let size = size.unwrap_or(match (huge, self.huge_page_bytes) {
            (true, Some(bytes)) => bytes,
            _ => self.page_bytes,
        });
        self.add(pages, size, anon, shared, huge);
    }

    fn add(&self, pages: &mut Pages, size: u64, anon: u64, shared: bool, huge: bool) {
        let none = || vec![0; self.nodes.len()];
        let mut line_bytes = 0u64;
        for (position, count) in &self.counts {
            let bytes = count.saturating_mul(size);
            line_bytes = line_bytes.saturating_add(bytes);
            let Some(position) = *position else {
                pages.elsewhere_bytes = pages.elsewhere_bytes.saturating_add(bytes);
                continue;
            };
            add(&mut pages.bytes_per_node, position, bytes);
            if shared {
                add(
                    pages.shared_bytes_per_node.get_or_insert_with(none),
                    position,
                    bytes,
                );
            }
            if huge {
                add(&mut pages.huge_bytes_per_node, position, bytes);
            }
        }
        pages.shared_bytes_per_node.get_or_insert_with(none);
        let anon = anon.saturating_mul(size).min(line_bytes);
        let more = |sum: &mut Option<u64>, bytes: u64| {
            *sum = Some(sum.unwrap_or(0).saturating_add(bytes));
        };
        more(&mut pages.anon_bytes, anon);
        more(&mut pages.file_bytes, line_bytes - anon);
    }
}

/// The number behind `=`, which stands after `used` digits.
fn value(field: &[u8], used: usize) -> Option<u64> {
    scan::number(field.get(used..)?.strip_prefix(b"=")?)
}
