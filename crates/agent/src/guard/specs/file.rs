//! One published file of specifications, read.
//!
//! In: bytes of a file that another machine wrote, a record `cpi_specs`. Out: its rows, or why there are none.
//!
//! Invariants: work and memory are proportional to the bytes, of which there is a bound.

use std::path::Path;

use steelyard_record::{CpiSpec, CpiSpecs, parse};

/// Largest file that is read: specifications of 100,000 jobs on one platform have 25 MB.
const BYTES_MAX: usize = 64 << 20;

/// Most letters of a reason, which may quote the file.
const REASON_MAX: usize = 300;

/// The rows of the file `key` for `platform`.
pub fn decode(key: &str, bytes: &[u8], platform: &str) -> Result<Vec<CpiSpec>, String> {
    let specs = bounded(key, bytes)
        .map_err(|reason| reason.chars().take(REASON_MAX).collect::<String>())?;
    if specs.platform != platform {
        return Err(format!("{key}: its specifications are of another platform"));
    }
    Ok(specs.specs)
}

fn bounded(key: &str, bytes: &[u8]) -> Result<CpiSpecs, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!(
            "{key}: {} bytes is too large for a file of specifications",
            bytes.len()
        ));
    }
    parse(bytes, Path::new(key)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::{spec, specs_file};

    #[test]
    fn what_is_no_file_of_specifications_is_refused_in_one_line() {
        let good = specs_file(&[spec("web", 1.8, 0.16, 2.3)], "test");
        assert_eq!(decode("key", &good, "test").unwrap().len(), 1);
        let altered = |from: &str, to: &str| {
            let text = String::from_utf8(good.clone()).unwrap();
            assert!(text.contains(from), "{text}");
            text.replacen(from, to, 1).into_bytes()
        };
        for (bytes, reason) in [
            (Vec::new(), "EOF"),
            (b"PAR1 of another kind PAR1".to_vec(), "expected value"),
            (good[..good.len() / 2].to_vec(), "EOF"),
            (altered("\"cpi_sd\"", "\"sd\""), "missing field `cpi_sd`"),
            (altered("0.16", "\"wide\""), "invalid type"),
            (
                altered("0.16", &format!("\"{}\"", "wide".repeat(1000))),
                "invalid type",
            ),
            (altered("cpi_specs", "machine"), "machine"),
            (altered("\"1.0\"", "\"2.0\""), "version 2.0"),
            (
                altered("\"platform\":\"test\"", "\"platform\":\"other\""),
                "of another platform",
            ),
            (
                format!("{{\"specs\": {}", "[".repeat(1 << 20)).into_bytes(),
                "EOF while parsing",
            ),
            (vec![b' '; BYTES_MAX + 1], "too large"),
        ] {
            let error = decode("key", &bytes, "test").unwrap_err();
            assert!(
                error.starts_with("key: ") && error.contains(reason) && !error.contains('\n'),
                "{reason}: {error}"
            );
            assert!(error.len() <= REASON_MAX, "{error}");
        }
    }
}
