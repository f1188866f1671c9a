//! What a connection to Redis opens with: who asks (AUTH) and the database (SELECT).
//!
//! In: credentials and a database's number. Out: commands, and what a refusal of one of them means. Not here: HELLO,
//! whose version 3 changes no figure.

use crate::settings::{Credentials, Settings};

/// Commands that come before the first request.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    pub(super) bytes: Vec<u8>,
    /// What each command asks for, in their order.
    pub(super) asked: Vec<&'static str>,
}

impl Greeting {
    /// The commands that `settings` ask for.
    pub(super) fn of(settings: &Settings) -> Self {
        let mut greeting = Self::default();
        if let Some(Credentials { user, password }) = &settings.credentials {
            let words = [user.as_bytes(), password.as_bytes()];
            // Servers before version 6 know no users.
            let words = if user.is_empty() { &words[1..] } else { &words };
            greeting.add("AUTH", words, "the user or the password");
        }
        if let Some(number) = settings.database {
            greeting.add("SELECT", &[number.to_string().as_bytes()], "the database");
        }
        greeting
    }

    fn add(&mut self, name: &str, words: &[&[u8]], asked: &'static str) {
        let head = format!("*{}\r\n", words.len() + 1);
        self.bytes.extend_from_slice(head.as_bytes());
        for word in std::iter::once(name.as_bytes()).chain(words.iter().copied()) {
            self.bytes
                .extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.bytes.extend_from_slice(word);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.asked.push(asked);
    }
}
