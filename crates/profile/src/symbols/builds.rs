//! Modules with their build ids, for places that have no name here.

use std::collections::HashMap;

use super::Files;
use crate::names::module_name;
use crate::sample::Assembled;

/// Modules as `name@BUILDID`, by number; None for those whose build is not known.
#[derive(Default)]
pub struct Builds(HashMap<u32, Option<String>>);

impl Builds {
    /// The module of this number.
    pub fn of(&mut self, number: u32, assembled: &Assembled, files: &Files) -> Option<String> {
        let known = self.0.entry(number).or_insert_with(|| {
            let module = &assembled.modules[number as usize];
            let id = match files.origin.build_id(module) {
                Some(id) => id.clone(),
                None => {
                    let path = files.path_of(module).ok()?;
                    let id = blazesym::helper::read_elf_build_id(&path).ok()??;
                    id.to_vec()
                }
            };
            let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            (!id.is_empty()).then(|| format!("{}@{id}", module_name(&module.path, false)))
        });
        known.clone()
    }
}
