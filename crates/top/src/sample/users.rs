//! Names of users, from the tree's etc/passwd. Users of other directories stay numbers.

use std::collections::HashMap;

use steelyard_kernel::Tree;
use steelyard_kernel::scan::{lines, number};

use super::parse::harmless;

/// Names by number.
#[derive(Debug, Default)]
pub struct Users(HashMap<u32, String>);

impl Users {
    /// The users of `tree`.
    pub fn read(tree: &Tree) -> Self {
        let text = tree.text("etc/passwd").unwrap_or_default();
        let users = lines(&text).filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            let name = fields.next()?;
            let uid = u32::try_from(number(fields.nth(1)?)?).ok()?;
            Some((uid, harmless(name)))
        });
        let mut names = HashMap::new();
        for (uid, name) in users {
            // The first line of a number is the one that counts.
            names.entry(uid).or_insert(name);
        }
        Self(names)
    }

    /// The name of a user.
    pub fn name(&self, uid: u32) -> Option<String> {
        self.0.get(&uid).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_number_counts() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("etc")).unwrap();
        let text = "root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\nbroken\nw\x1bb:x:33:33::/:\n";
        std::fs::write(directory.path().join("etc/passwd"), text).unwrap();
        let users = Users::read(&Tree::new(directory.path()));
        assert_eq!(users.name(0), Some("root".to_owned()));
        assert_eq!(users.name(33), Some("w?b".to_owned()));
        assert_eq!(users.name(1), None);
    }
}
