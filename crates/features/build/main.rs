//! Writes the feature extractors: Rust source that is a function of nothing but the number of a function.
//!
//! In: how many functions this build gets. Out: `OUT_DIR/functions_NN.rs`, one module each, and
//! `OUT_DIR/modules.rs`, which declares them and their table.
//!
//! Invariant: function `n` has the same text in every build, so that a small build's functions are the first of a
//! large one's, and a checksum over them is the same.

mod function;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Functions of a release build: about 5 MB of machine code.
const RELEASE_FUNCTIONS: usize = 4096;
/// Functions of a development build, where compile time counts and the footprint does not.
const DEVELOPMENT_FUNCTIONS: usize = 512;
/// Functions in a module. Modules are what the compiler spreads over codegen units, and so over cores.
const MODULE_FUNCTIONS: usize = 128;

/// How many functions to write: `STEELYARD_FEATURE_FUNCTIONS`, else by the profile.
fn wanted() -> usize {
    println!("cargo::rerun-if-env-changed=STEELYARD_FEATURE_FUNCTIONS");
    if let Ok(text) = env::var("STEELYARD_FEATURE_FUNCTIONS") {
        return match text.parse() {
            Ok(count @ 1..=262_144) => count,
            _ => {
                println!(
                    "cargo::error=STEELYARD_FEATURE_FUNCTIONS={text:?} is not between 1 and 262144"
                );
                RELEASE_FUNCTIONS
            }
        };
    }
    if env::var("PROFILE").as_deref() == Ok("release") {
        RELEASE_FUNCTIONS
    } else {
        DEVELOPMENT_FUNCTIONS
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn main() {
    println!("cargo::rerun-if-changed=build");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let functions = wanted();
    let mut modules = String::new();
    let mut table = String::new();
    for (module, first) in (0..functions).step_by(MODULE_FUNCTIONS).enumerate() {
        let mut text = String::from("use crate::Profile;\n");
        for number in first..functions.min(first + MODULE_FUNCTIONS) {
            text.push_str(&function::source(number));
            let _ = writeln!(table, "    functions_{module:04}::f{number},");
        }
        let path = folder.join(format!("functions_{module:04}.rs"));
        write(&path, &text);
        let _ = writeln!(modules, "#[path = {path:?}]\nmod functions_{module:04};");
    }
    let _ = writeln!(
        modules,
        "/// The extractors, by number.\npub static EXTRACTORS: [Extractor; {functions}] = [\n{table}];"
    );
    write(&folder.join("modules.rs"), &modules);
}
