//! What the tests share: a tree of files.

use std::fs;

use crate::Tree;

/// A tree of `files`, pairs of path and text, and the folder that holds it.
pub fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        fs::write(path, text).expect("a file of the tree");
    }
    let tree = Tree::new(folder.path());
    (folder, tree)
}
