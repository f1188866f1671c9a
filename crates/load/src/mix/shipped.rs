//! The mixes that come with the program: the files of `data/mixes`, in the executable itself, so that they are
//! found wherever it is installed.

/// A shipped mix.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// As `--mix` names it: its file's name without `.toml`.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        [$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../../data/mixes/", $name, ".toml")),
        }),*]
    };
}

/// Every shipped mix, by name.
pub const SHIPPED: &[Shipped] = &shipped!(
    "feed-rank",
    "http-pages",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
);
