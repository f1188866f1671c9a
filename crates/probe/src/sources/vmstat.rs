//! Everything in /proc/vmstat, one column a key, as the kernel names it.

use std::borrow::Cow;
use std::io;

use steelyard_record::ColumnKind;

use super::keyed::{Places, plain};
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::{key_value, lines};
use steelyard_kernel::{TextFile, Tree};

pub const DEFINITION: Definition = Definition {
    name: "vmstat",
    about: "virtual memory events and page counts: one column for each key that /proc/vmstat has at the start",
    columns: &[Column::TIME],
    open,
};

struct VmstatSource {
    vmstat: TextFile,
    keys: Vec<String>,
    places: Places,
    values: Vec<Option<u64>>,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let cannot_read =
        |error: io::Error| Unavailable::cannot_read(&tree.path("proc/vmstat"), &error);
    let vmstat = tree.file("proc/vmstat").map_err(cannot_read)?;
    let keys = keys(&tree.text("proc/vmstat").map_err(cannot_read)?);
    if keys.is_empty() {
        return Err(Unavailable::new("/proc/vmstat is empty"));
    }
    Ok(Box::new(VmstatSource {
        vmstat: TextFile::new(vmstat),
        values: vec![None; keys.len()],
        keys,
        places: Places::default(),
    }))
}

/// The keys that have a number, each once.
pub fn keys(text: &[u8]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for line in lines(text) {
        let Some((key, mut words)) = key_value(line) else {
            continue;
        };
        let (Ok(key), Some(_)) = (std::str::from_utf8(key), words.number()) else {
            continue;
        };
        if key != "time_ns" && !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }
    keys
}

/// Counts of pages as they are now begin with `nr_`; what else there is counts events. The exceptions are
/// those of Linux, mm/vmstat.c.
fn is_gauge(key: &str) -> bool {
    const COUNTERS: [&str; 8] = [
        "nr_dirtied",
        "nr_written",
        "nr_throttled_written",
        "nr_vmscan_write",
        "nr_vmscan_immediate_reclaim",
        "nr_foll_pin_acquired",
        "nr_foll_pin_released",
        "nr_tlb_remote_flush",
    ];
    (key.starts_with("nr_") && !COUNTERS.contains(&key) && !key.starts_with("nr_tlb_"))
        || key == "workingset_nodes"
}

impl Source for VmstatSource {
    fn columns(&self) -> Vec<Column> {
        let about = "as /proc/vmstat names it";
        std::iter::once(Column::TIME)
            .chain(self.keys.iter().map(|key| Column {
                name: Cow::Owned(key.clone()),
                kind: if is_gauge(key) {
                    ColumnKind::Gauge
                } else {
                    ColumnKind::Counter
                },
                ..Column::gauge("", "1", about)
            }))
            .collect()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let time_ns = tick.now_ns();
        let text = self.vmstat.read()?;
        self.places.read(text, &self.keys, &mut self.values, plain);
        table.row(time_ns).values(&self.values);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_with_a_number_and_each_once() {
        assert_eq!(
            keys(b"nr_free_pages 12\npgfault 3\nbad x\n\npgfault 4\ntime_ns 1\n"),
            ["nr_free_pages", "pgfault"]
        );
    }

    #[test]
    fn page_counts_are_gauges_and_events_are_counters() {
        assert!(is_gauge("nr_free_pages"));
        assert!(!is_gauge("nr_dirtied"));
        assert!(!is_gauge("pgfault"));
    }
}
