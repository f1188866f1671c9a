//! Gives every executable a build id, whatever links it: profiles of a fleet name their functions by it, and
//! debuggers find their debug information. GCC asks for one by default in most distributions only, zig does not.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--build-id=sha1");
}
