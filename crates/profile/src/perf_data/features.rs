//! The sections of perf.data that tell about the recording: names of events, build ids, the host.

use std::collections::HashMap;

use crate::sample::Cursor;
use crate::symbols::Origin;

const BUILD_ID: u32 = 2;
const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const ARCH: u32 = 6;
const EVENT_DESC: u32 = 12;

/// misc of a build id record: the record states the id's length.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// What the sections tell.
#[derive(Debug, Default)]
pub struct Features {
    /// Names by event id.
    pub event_names: Vec<(u64, String)>,
    /// Names in the order of the attributes, for events without ids.
    pub ordered_names: Vec<String>,
    hostname: Option<String>,
    release: Option<String>,
    processor: Option<String>,
    build_ids: HashMap<String, Vec<u8>>,
}

impl Features {
    /// Whether a section is read.
    pub fn wants(bit: u32) -> bool {
        matches!(bit, BUILD_ID | HOSTNAME | OSRELEASE | ARCH | EVENT_DESC)
    }

    /// Takes a section; what is cut off is left out.
    pub fn take(&mut self, bit: u32, content: &[u8]) {
        match bit {
            BUILD_ID => self.take_build_ids(content),
            HOSTNAME => self.hostname = text(&mut Cursor::new(content)),
            ARCH => self.processor = text(&mut Cursor::new(content)),
            OSRELEASE => self.release = text(&mut Cursor::new(content)),
            EVENT_DESC => {
                let _ = self.take_events(content);
            }
            _ => {}
        }
    }

    fn take_build_ids(&mut self, content: &[u8]) {
        let mut cursor = Cursor::new(content);
        while let (Some(_type), Some(misc), Some(size)) = (cursor.u32(), cursor.u16(), cursor.u16())
        {
            let Some(body) = usize::from(size)
                .checked_sub(8)
                .and_then(|length| cursor.take(length))
            else {
                return;
            };
            self.take_build_id(misc, body);
        }
    }

    /// Takes one build id record without its header.
    pub fn take_build_id(&mut self, misc: u16, body: &[u8]) {
        let mut cursor = Cursor::new(body);
        let (Some(_pid), Some(id)) = (cursor.u32(), cursor.take(24)) else {
            return;
        };
        let length = if misc & MISC_BUILD_ID_SIZE != 0 {
            usize::from(id[20]).min(20)
        } else {
            20
        };
        self.build_ids.insert(cursor.text(), id[..length].to_vec());
    }

    fn take_events(&mut self, content: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(content);
        let count = cursor.u32()?;
        let attribute_bytes = cursor.u32()? as usize;
        for _ in 0..count {
            cursor.skip(attribute_bytes)?;
            let ids = cursor.u32()?;
            let name = text(&mut cursor)?;
            for _ in 0..ids {
                self.event_names.push((cursor.u64()?, name.clone()));
            }
            self.ordered_names.push(name);
        }
        Some(())
    }

    /// The kind of processor, as `uname -m` prints it.
    pub fn processor(&self) -> Option<&str> {
        self.processor.as_deref()
    }

    /// Where the recording was made.
    pub fn origin(&self) -> Origin {
        // Half of all machines are called localhost, hence the kernel as well.
        let is = |recorded: &Option<String>, setting: &str| {
            let here = std::fs::read_to_string(format!("/proc/sys/kernel/{setting}"));
            matches!((recorded, here), (Some(recorded), Ok(here)) if recorded == here.trim())
        };
        Origin {
            live: false,
            same_host: is(&self.hostname, "hostname") && is(&self.release, "osrelease"),
            build_ids: self.build_ids.clone(),
        }
    }
}

/// Text with its length before it.
fn text(cursor: &mut Cursor<'_>) -> Option<String> {
    let length = cursor.u32()? as usize;
    Some(Cursor::new(cursor.take(length)?).text())
}
