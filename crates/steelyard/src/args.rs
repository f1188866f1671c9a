//! Values on command lines: sizes, durations, CPU lists. Each parser is a `clap` value parser.

use std::time::Duration;

fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// A size such as `1GiB`, `512MiB`, `64kB` or `4096` (bytes).
///
/// ```
/// assert_eq!(steelyard::args::bytes("1.5KiB"), Ok(1536));
/// assert!(steelyard::args::bytes("a lot").is_err());
/// ```
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_number(text);
    let factor: f64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kib" | "k" => 1024.0,
        "mib" | "m" => 1024.0 * 1024.0,
        "gib" | "g" => 1024.0 * 1024.0 * 1024.0,
        "tib" | "t" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => {
            return Err(format!(
                "unknown unit {unit:?}: use B, KiB, MiB, GiB, kB, MB, GB"
            ));
        }
    };
    let value: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is not a size such as 512MiB"))?;
    Ok((value * factor).round() as u64)
}

/// A duration such as `10ms`, `1.5s`, `2m` or `1h`; a bare `0` is allowed, other numbers need a unit.
///
/// ```
/// assert_eq!(steelyard::args::duration("10ms").unwrap().as_millis(), 10);
/// assert!(steelyard::args::duration("10").is_err());
/// ```
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_number(text);
    let value: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is not a duration such as 10ms or 2m"))?;
    let seconds = match unit {
        "ns" => value / 1e9,
        "us" => value / 1e6,
        "ms" => value / 1e3,
        "s" => value,
        "m" | "min" => value * 60.0,
        "h" => value * 3600.0,
        "" if value == 0.0 => 0.0,
        _ => return Err(format!("{text:?} needs a unit: ns, us, ms, s, m or h")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("{text:?}: {error}"))
}

/// A list of CPUs in the kernel's notation, such as `0-3,8`, in the order given.
///
/// ```
/// assert_eq!(steelyard::args::cpu_list("0-2,5"), Ok(vec![0, 1, 2, 5]));
/// assert!(steelyard::args::cpu_list("3-1").is_err());
/// ```
pub fn cpu_list(text: &str) -> Result<Vec<usize>, String> {
    list(text, "CPU")
}

/// A list of NUMA nodes in the kernel's notation, in the order given.
///
/// ```
/// assert_eq!(steelyard::args::node_list("0-1"), Ok(vec![0, 1]));
/// ```
pub fn node_list(text: &str) -> Result<Vec<usize>, String> {
    list(text, "node")
}

fn list(text: &str, what: &str) -> Result<Vec<usize>, String> {
    let numbers = steelyard_kernel::cpu_list::parse(text.as_bytes());
    match numbers.filter(|numbers| !numbers.is_empty()) {
        Some(numbers) => Ok(numbers.into_iter().map(|number| number as usize).collect()),
        None => Err(format!("{text:?} is not a {what} list such as 0-3,8")),
    }
}
