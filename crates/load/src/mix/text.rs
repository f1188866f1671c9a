//! Text with places for what changes from request to request, such as `/item/{key}?size={uniform:1:100}`.
//!
//! In: a template as a mix file writes it. Out: its parts. Braces that mean themselves are doubled. Not here: its
//! bytes for one request, and what keys and values are (`workload`).

/// The placeholders that a template may hold, with what each stands for.
pub const PLACEHOLDERS: [(&str, &str); 7] = [
    ("{key}", "the key's text"),
    (
        "{value}",
        "the key's value: random bytes, as many as the value sizes give",
    ),
    (
        "{value:N}",
        "value number N of the key, for records of several fields",
    ),
    ("{value_bytes}", "the size of the key's value in bytes"),
    (
        "{text}",
        "as `{value}`, but of the digits and letters 0-9 and a-v only",
    ),
    ("{text:N}", "as `{value:N}`, but of digits and letters only"),
    (
        "{uniform:LOW:HIGH}",
        "a random whole number from LOW to HIGH, uniform, for each request",
    ),
];

/// Most different values that a key may have.
const NUMBERS_MAX: u32 = 1 << 16;

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Always the same.
    Literal(Vec<u8>),
    /// The key's text.
    Key,
    /// The key's value of this number.
    Value(u32),
    /// The size of the key's value.
    ValueBytes,
    /// The key's printable value of this number.
    Text(u32),
    /// A whole number drawn from the range; `place` distinguishes it from others of the same request.
    Uniform {
        /// Which of the request's draws.
        place: u64,
        /// Smallest.
        low: u64,
        /// How many there are.
        count: u64,
    },
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    pieces: Vec<Piece>,
}

impl Text {
    /// A template without places.
    pub fn literal(text: impl Into<Vec<u8>>) -> Self {
        let bytes: Vec<u8> = text.into();
        let pieces = if bytes.is_empty() {
            Vec::new()
        } else {
            vec![Piece::Literal(bytes)]
        };
        Self { pieces }
    }

    /// The template that `text` writes; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            if rest[at + 1..].starts_with(brace) {
                literal.push_str(brace);
                rest = &rest[at + 2..];
                continue;
            }
            if brace == "}" {
                return Err(format!("{text:?} closes a brace that is not open"));
            }
            let end = rest[at..]
                .find('}')
                .ok_or_else(|| format!("{text:?} has an open brace"))?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal).into_bytes()));
            }
            let place = pieces.len() as u64;
            pieces.push(placeholder(&rest[at + 1..at + end], place)?);
            rest = &rest[at + end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal.into_bytes()));
        }
        Ok(Self { pieces })
    }

    /// One template of several in a row.
    pub fn concat(texts: impl IntoIterator<Item = Self>) -> Self {
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in texts.into_iter().flat_map(|text| text.pieces) {
            if let (Some(Piece::Literal(before)), Piece::Literal(bytes)) =
                (pieces.last_mut(), &piece)
            {
                before.extend_from_slice(bytes);
            } else {
                pieces.push(piece);
            }
        }
        Self { pieces }
    }

    /// Tells its draws from all others of the same request, which have numbers up to `next`.
    pub fn number_draws(&mut self, next: &mut u64) {
        for piece in &mut self.pieces {
            if let Piece::Uniform { place, .. } = piece {
                *place = *next;
                *next += 1;
            }
        }
    }

    /// Its parts.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Its bytes, if they are always the same.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] => Some(&[]),
            [Piece::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Whether it holds a key's value, printable or not.
    pub fn has_value(&self) -> bool {
        let is_value = |p: &Piece| matches!(p, Piece::Value(_) | Piece::Text(_));
        self.pieces.iter().any(is_value)
    }

    /// Whether it depends on the key that is drawn.
    pub fn has_key(&self) -> bool {
        let is_keys = |p: &Piece| !matches!(p, Piece::Literal(_) | Piece::Uniform { .. });
        self.pieces.iter().any(is_keys)
    }

    /// Whether it depends on the size of the key's value.
    pub fn has_value_size(&self) -> bool {
        self.has_value() || self.pieces.contains(&Piece::ValueBytes)
    }

    /// Whether it holds bytes that no text protocol can carry.
    pub fn has_binary(&self) -> bool {
        self.pieces.iter().any(|p| matches!(p, Piece::Value(_)))
    }

    /// Whether it holds a number that is drawn for each request.
    pub fn has_draw(&self) -> bool {
        self.pieces
            .iter()
            .any(|p| matches!(p, Piece::Uniform { .. }))
    }

    /// Whether it never holds anything.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

fn placeholder(name: &str, place: u64) -> Result<Piece, String> {
    let mut words = name.split(':');
    let word = words.next().unwrap_or_default();
    let arguments: Vec<&str> = words.collect();
    let unknown = || {
        let known: Vec<&str> = PLACEHOLDERS.iter().map(|(text, _)| *text).collect();
        format!(
            "{{{}}} is not a placeholder: known are {}",
            name.escape_debug(),
            known.join(", ")
        )
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| unknown());
    match (word, arguments.as_slice()) {
        ("key", []) => Ok(Piece::Key),
        ("value", []) => Ok(Piece::Value(0)),
        ("text", []) => Ok(Piece::Text(0)),
        ("value_bytes", []) => Ok(Piece::ValueBytes),
        ("value" | "text", [which]) => {
            let which = number(which)?;
            if which >= u64::from(NUMBERS_MAX) {
                return Err(format!(
                    "{{{name}}}: values are numbered below {NUMBERS_MAX}"
                ));
            }
            let which = which as u32;
            Ok(if word == "value" {
                Piece::Value(which)
            } else {
                Piece::Text(which)
            })
        }
        ("uniform", [low, high]) => {
            let (low, high) = (number(low)?, number(high)?);
            if low > high || high - low == u64::MAX {
                return Err(format!("{{{name}}} is an empty range"));
            }
            let count = high - low + 1;
            Ok(Piece::Uniform { place, low, count })
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_is_reported_in_one_line() {
        for wrong in ["{\n =}", "{no\r\n:1}", "{", "}\n", "\n{"] {
            let why = Text::parse(wrong).unwrap_err();
            assert!(!why.contains('\n') && !why.contains('\r'), "{why}");
        }
    }

    #[test]
    fn literals_are_known() {
        assert!(Text::parse("").unwrap().is_empty());
        assert_eq!(Text::parse("a{{b").unwrap().as_literal(), Some(&b"a{b"[..]));
    }

    #[test]
    fn bad_templates_are_refused_with_the_reason() {
        for (bad, why) in [
            ("{keys}", "known are {key}"),
            ("{value:x}", "not a placeholder"),
            ("{value:70000}", "numbered below"),
            ("{uniform:9:1}", "empty range"),
            ("{uniform:1}", "not a placeholder"),
            ("{uniform:0:18446744073709551615}", "empty range"),
            ("{key", "open brace"),
            ("key}", "is not open"),
        ] {
            let error = Text::parse(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "[{}a-z:0-9]{0,40}") {
            let _ = Text::parse(&text);
        }
    }
}
