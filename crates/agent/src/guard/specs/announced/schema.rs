//! The tree of columns: a list in which each group is followed by its children.

use super::structures::{SCHEMA_CHILDREN, SCHEMA_NAME};
use super::walk::Event;
use super::{AnnouncedError, within};

/// Most columns, with the groups that they are in: the table of specifications has 14.
const COLUMNS_MAX: i64 = 4_096;
/// Deepest nesting: the library's functions call themselves for each level.
const NESTING_MAX: i64 = 32;
/// Longest name: the path of each column holds the names of all its groups.
const NAME_BYTES_MAX: i64 = 1_024;

/// What is known of the tree at one of its elements.
#[derive(Debug, Default)]
pub struct Schema {
    elements: i64,
    /// Children of the element at hand.
    children: i64,
    /// Children to come, of each group that is not at its end.
    open: Vec<i64>,
}

impl Schema {
    /// Takes an event of a schema's element.
    pub fn meet(&mut self, event: Event) -> Result<(), AnnouncedError> {
        match event {
            Event::Field(SCHEMA_NAME, bytes) => {
                within("bytes of a column's name", bytes, 0, NAME_BYTES_MAX)
            }
            Event::Field(SCHEMA_CHILDREN, children) => {
                self.children = children;
                within("children of a group of columns", children, 0, COLUMNS_MAX)
            }
            Event::Field(..) => Ok(()),
            Event::End => self.add(),
        }
    }

    fn add(&mut self) -> Result<(), AnnouncedError> {
        self.elements += 1;
        within(
            "columns and groups of columns",
            self.elements,
            1,
            COLUMNS_MAX,
        )?;
        if let Some(left) = self.open.last_mut() {
            *left -= 1;
        } else if self.elements > 1 {
            return Err(AnnouncedError::Contradiction(
                "columns outside the root of the schema",
            ));
        }
        self.open.push(std::mem::take(&mut self.children));
        within("levels of columns", self.open.len() as i64, 1, NESTING_MAX)?;
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
        Ok(())
    }

    /// Checks that nothing is missing at the end of the list.
    pub fn end(&self) -> Result<(), AnnouncedError> {
        if self.open.is_empty() {
            return Ok(());
        }
        Err(AnnouncedError::Contradiction(
            "groups with fewer columns than announced",
        ))
    }
}
