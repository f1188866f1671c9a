//! Native frames of an interpreter beside the functions that it interprets.
//!
//! A stack of an interpreted program is its functions, and below the innermost what that one called in native code.
//! The interpreter's own frames between them say nothing that the functions do not say better.

use crate::python::version_of;
use crate::stacks::Frame;

/// Functions that interpret Python.
const EVALUATES: [&str; 4] = [
    "_PyEval_EvalFrameDefault",
    "_PyEval_Vector",
    "_PyEval_EvalFrame",
    "PyEval_EvalFrameEx",
];

/// How many of a chain's native frames, from the leaf on, stay beside interpreted functions: those inside of the
/// innermost that interprets. Where a chain does not reach it, those up to the first of the interpreter's file,
/// or else all. All of them where there is no interpreted function.
pub fn native_frames<'a>(
    frames: impl Iterator<Item = &'a Frame> + Clone,
    has_functions: bool,
) -> usize {
    let count = frames.clone().count();
    if !has_functions {
        return count;
    }
    // Compilers split functions: `_PyEval_EvalFrameDefault.cold`.
    let evaluates = |frame: &Frame| {
        let name = frame.name.split('.').next().unwrap_or_default();
        EVALUATES.contains(&name)
    };
    if let Some(at) = frames.clone().position(evaluates) {
        return at;
    }
    let is_interpreter = |frame: &Frame| version_of(&frame.module).is_some();
    match frames.clone().position(is_interpreter) {
        Some(at) => at + 1,
        None => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(names: &[(&str, &str)]) -> usize {
        let frames: Vec<Frame> = names
            .iter()
            .map(|&(name, module)| Frame {
                name: name.into(),
                module: module.into(),
            })
            .collect();
        native_frames(frames.iter(), true)
    }

    #[test]
    fn what_the_innermost_function_called_stays() {
        let main = ("main", "python3.11");
        let eval = ("_PyEval_EvalFrameDefault", "python3.11");
        assert_eq!(
            kept(&[eval, ("_PyEval_Vector", "python3.11"), eval, main]),
            0
        );
        assert_eq!(
            kept(&[
                ("memcpy", "libc.so.6"),
                ("bytes_concat", "python3.11"),
                eval,
                main
            ]),
            2
        );
        let cold = ("_PyEval_EvalFrameDefault.cold", "libpython3.12.so.1.0");
        assert_eq!(kept(&[("long_add", "libpython3.12.so.1.0"), cold]), 1);
        // A chain that broke off.
        assert_eq!(kept(&[("long_add", "python3.11"), ("[unknown]", "")]), 1);
        assert_eq!(kept(&[("dgemm", "libblas.so"), ("[unknown]", "")]), 2);
    }
}
