//! Where a file lies in the store, and what it is called.
//!
//! `<table>/schema=N/date=YYYY-MM-DD/cluster=<percent-encoded>/<machine percent-encoded>.<first window_start_unix_s>.<16
//! hex of the content's SHA-256>.parquet`: the same content has the same name, so that a second upload replaces the
//! first.

use ring::digest;

use super::Table;

/// A text as one part of a path: everything but letters, digits, `-` and `_` is written as `%XX`.
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A file's name.
pub fn file_name(machine: &str, first_unix_s: i64, bytes: &[u8]) -> String {
    let sum = digest::digest(&digest::SHA256, bytes);
    let sum: String = sum.as_ref()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}.{first_unix_s}.{sum}.parquet", percent_encode(machine))
}

/// A file's path below the store; the cluster is percent-encoded.
pub fn key(table: Table, date: &str, cluster: &str, name: &str) -> String {
    let major = table.major();
    format!("{table}/schema={major}/date={date}/cluster={cluster}/{name}")
}

/// The UTC day of a time, as YYYY-MM-DD. Source: the days of a civil calendar from days since 1970, by Howard Hinnant's
/// arithmetic on eras of 400 years.
pub fn date_of(unix_s: i64) -> String {
    let days = unix_s.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_known_times() {
        for (unix_s, date) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_709_164_800, "2024-02-29"),
            (1_735_689_599, "2024-12-31"),
            (4_102_444_800, "2100-01-01"),
        ] {
            assert_eq!(date_of(unix_s), date, "{unix_s}");
        }
    }

    #[test]
    fn a_name_is_of_its_content() {
        let name = file_name("rack 1/m-7.a", 1_700_000_000, b"abc");
        // SHA-256 of "abc", FIPS 180-2.
        assert_eq!(
            name,
            "rack%201%2Fm-7%2Ea.1700000000.ba7816bf8f01cfea.parquet"
        );
        assert_eq!(
            key(Table::TaskSamples, "2024-01-02", "eu%20west", &name),
            format!("task_samples/schema=2/date=2024-01-02/cluster=eu%20west/{name}")
        );
    }
}
