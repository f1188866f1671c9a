//! Trees of /proc, /sys and control groups for tests.

use std::fs;

use steelyard_kernel::Tree;

/// A tree of `files`, paths with their text.
pub fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = Tree::new(folder.path());
    (folder, tree)
}
