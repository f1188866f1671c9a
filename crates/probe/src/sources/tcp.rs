//! Counters of TCP and UDP over all interfaces, from /proc/net/snmp and /proc/net/netstat.
//!
//! Both files come in pairs of lines: names, then numbers. Sources: RFC 4022 and RFC 4113 for the names of
//! the first; Linux, Documentation/networking/snmp_counter.rst for those of the second.

use std::io;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::{lines, words};
use steelyard_kernel::{TextFile, Tree};

pub const DEFINITION: Definition = Definition {
    name: "tcp",
    about: "connections, segments, retransmissions and drops of TCP and UDP, from /proc/net/snmp and /proc/net/netstat",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::counter(
        "active_opens",
        "1",
        "connections opened from here (ActiveOpens)",
    ),
    Column::counter("passive_opens", "1", "connections accepted (PassiveOpens)"),
    Column::counter(
        "failed_attempts",
        "1",
        "failed attempts to connect (AttemptFails)",
    ),
    Column::counter("resets", "1", "connections reset (EstabResets)"),
    Column::gauge("established", "1", "connections now (CurrEstab)"),
    Column::counter("received_segments", "1", "segments received (InSegs)"),
    Column::counter("sent_segments", "1", "segments sent (OutSegs)"),
    Column::counter(
        "retransmitted_segments",
        "1",
        "segments sent again (RetransSegs)",
    ),
    Column::counter("received_errors", "1", "bad segments received (InErrs)"),
    Column::counter("sent_resets", "1", "resets sent (OutRsts)"),
    Column::counter(
        "udp_received_datagrams",
        "1",
        "datagrams received (InDatagrams)",
    ),
    Column::counter("udp_sent_datagrams", "1", "datagrams sent (OutDatagrams)"),
    Column::counter("udp_no_ports", "1", "datagrams to a closed port (NoPorts)"),
    Column::counter(
        "udp_receive_buffer_errors",
        "1",
        "datagrams dropped because a buffer was full (RcvbufErrors)",
    ),
    Column::counter(
        "udp_send_buffer_errors",
        "1",
        "datagrams not sent because a buffer was full (SndbufErrors)",
    ),
    Column::counter(
        "listen_overflows",
        "1",
        "connections refused by a full accept queue (ListenOverflows)",
    ),
    Column::counter(
        "listen_drops",
        "1",
        "connections a listener dropped (ListenDrops)",
    ),
    Column::counter("timeouts", "1", "retransmission timeouts (TCPTimeouts)"),
    Column::counter(
        "fast_retransmits",
        "1",
        "fast retransmissions (TCPFastRetrans)",
    ),
    Column::counter(
        "lost_retransmits",
        "1",
        "retransmissions lost again (TCPLostRetransmit)",
    ),
    Column::counter(
        "backlog_drops",
        "1",
        "segments a full socket backlog dropped (TCPBacklogDrop)",
    ),
    Column::counter(
        "pruned",
        "1",
        "receive queues pruned because memory was short (PruneCalled)",
    ),
];

/// Prefix of the lines and name of the field, in the order of the columns after the time.
const SNMP: [(&[u8], &[u8]); 15] = [
    (b"Tcp:", b"ActiveOpens"),
    (b"Tcp:", b"PassiveOpens"),
    (b"Tcp:", b"AttemptFails"),
    (b"Tcp:", b"EstabResets"),
    (b"Tcp:", b"CurrEstab"),
    (b"Tcp:", b"InSegs"),
    (b"Tcp:", b"OutSegs"),
    (b"Tcp:", b"RetransSegs"),
    (b"Tcp:", b"InErrs"),
    (b"Tcp:", b"OutRsts"),
    (b"Udp:", b"InDatagrams"),
    (b"Udp:", b"OutDatagrams"),
    (b"Udp:", b"NoPorts"),
    (b"Udp:", b"RcvbufErrors"),
    (b"Udp:", b"SndbufErrors"),
];

const NETSTAT: [(&[u8], &[u8]); 7] = [
    (b"TcpExt:", b"ListenOverflows"),
    (b"TcpExt:", b"ListenDrops"),
    (b"TcpExt:", b"TCPTimeouts"),
    (b"TcpExt:", b"TCPFastRetrans"),
    (b"TcpExt:", b"TCPLostRetransmit"),
    (b"TcpExt:", b"TCPBacklogDrop"),
    (b"TcpExt:", b"PruneCalled"),
];

struct TcpSource {
    snmp: TextFile,
    /// None when the tree has no /proc/net/netstat.
    netstat: Option<TextFile>,
    snmp_heads: Heads,
    netstat_heads: Heads,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let snmp = tree
        .file("proc/net/snmp")
        .map_err(|error| Unavailable::cannot_read(&tree.path("proc/net/snmp"), &error))?;
    Ok(Box::new(TcpSource {
        snmp: TextFile::new(snmp),
        netstat: tree.file("proc/net/netstat").ok().map(TextFile::new),
        snmp_heads: Heads::default(),
        netstat_heads: Heads::default(),
    }))
}

impl Source for TcpSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn missing(&self) -> Vec<(String, String)> {
        if self.netstat.is_some() {
            return Vec::new();
        }
        COLUMNS[1 + SNMP.len()..]
            .iter()
            .map(|column| {
                (
                    column.name.to_string(),
                    "/proc/net/netstat cannot be read".to_owned(),
                )
            })
            .collect()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let time_ns = tick.now_ns();
        let mut values = [None; SNMP.len() + NETSTAT.len()];
        let (snmp, netstat) = values.split_at_mut(SNMP.len());
        parse(self.snmp.read()?, &SNMP, &mut self.snmp_heads, snmp);
        if let Some(file) = &mut self.netstat {
            parse(file.read()?, &NETSTAT, &mut self.netstat_heads, netstat);
        }
        table.row(time_ns).values(&values);
        Ok(())
    }
}

/// The lines of names seen last, each with the place of every value on the line after it.
#[derive(Debug, Default)]
pub struct Heads(Vec<(Vec<u8>, Vec<Option<usize>>)>);

impl Heads {
    /// Where the values below `head` go. Looked up once for each text of a head.
    fn places(
        &mut self,
        number: usize,
        head: &[u8],
        wanted: &[(&[u8], &[u8])],
    ) -> &[Option<usize>] {
        if self.0.get(number).is_none_or(|(known, _)| known != head) {
            let mut names = words(head);
            let prefix = names.next().unwrap_or_default();
            let places = names
                .map(|name| wanted.iter().position(|place| *place == (prefix, name)))
                .collect();
            self.0.truncate(number);
            self.0.push((head.to_vec(), places));
        }
        &self.0[number].1
    }
}

/// The values that are wanted of /proc/net/snmp.
pub fn parse_snmp(text: &[u8], heads: &mut Heads) -> [Option<u64>; SNMP.len()] {
    let mut values = [None; SNMP.len()];
    parse(text, &SNMP, heads, &mut values);
    values
}

fn parse(text: &[u8], wanted: &[(&[u8], &[u8])], heads: &mut Heads, values: &mut [Option<u64>]) {
    let mut lines = lines(text);
    let mut number = 0;
    while let (Some(head), Some(line)) = (lines.next(), lines.next()) {
        let prefix = words(line).next().unwrap_or_default();
        if !wanted.iter().any(|(known, _)| *known == prefix) {
            continue;
        }
        let mut numbers = words(line);
        numbers.pass(1);
        for place in heads.places(number, head, wanted) {
            let value = numbers.number();
            if let Some(place) = place {
                values[*place] = value;
            }
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SNMP_TEXT: &[u8] = b"Ip: Forwarding\nIp: 1\n\
        Tcp: RtoMin MaxConn ActiveOpens InErrs RetransSegs\nTcp: 200 -1 5 6 7\n\
        Udp: InDatagrams NoPorts\nUdp: 8 9\n";

    #[test]
    fn values_are_found_by_the_names_above_them() {
        let mut heads = Heads::default();
        for _ in 0..2 {
            let values = parse_snmp(SNMP_TEXT, &mut heads);
            let found: Vec<_> = values
                .iter()
                .zip(SNMP)
                .filter_map(|(value, (_, name))| Some((std::str::from_utf8(name).ok()?, (*value)?)))
                .collect();
            assert_eq!(
                found,
                [
                    ("ActiveOpens", 5),
                    ("RetransSegs", 7),
                    ("InErrs", 6),
                    ("InDatagrams", 8),
                    ("NoPorts", 9)
                ]
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_texts_in_a_row_do_no_harm(texts: Vec<(Vec<u8>, String)>) {
            let mut heads = Heads::default();
            let mut values = [None; SNMP.len()];
            for (bytes, numbers) in texts {
                parse(&bytes, &SNMP, &mut heads, &mut values);
                let text = format!("Tcp: InSegs x\nTcp: {numbers}\n");
                parse(text.as_bytes(), &SNMP, &mut heads, &mut values);
            }
        }
    }
}
