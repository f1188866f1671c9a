//! What one step of an operation sends, by protocol, checked for what the protocol cannot carry.

use super::text::{Piece, Text};

/// What one step of an operation sends.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    /// The words of a command.
    Redis(Vec<Text>),
    /// The words of a command, of which the last may be a value.
    Memcached(Vec<Text>),
    /// A request.
    Http(HttpTemplate),
    /// A statement.
    Cql(CqlTemplate),
    /// A call.
    Thrift(ThriftTemplate),
}

impl Template {
    /// Every text in it.
    pub fn texts(&self) -> Vec<&Text> {
        match self {
            Self::Redis(words) | Self::Memcached(words) => words.iter().collect(),
            Self::Http(http) => {
                let headers = http.headers.iter().map(|(_, value)| value);
                headers.chain([&http.path, &http.body]).collect()
            }
            Self::Cql(cql) => cql.binds.iter().collect(),
            Self::Thrift(thrift) => {
                let mut texts = Vec::new();
                for argument in &thrift.arguments {
                    argument.value.collect_texts(&mut texts);
                }
                texts
            }
        }
    }

    /// The same, to change them.
    pub fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            Self::Redis(words) | Self::Memcached(words) => words.iter_mut().collect(),
            Self::Http(http) => {
                let headers = http.headers.iter_mut().map(|(_, value)| value);
                headers.chain([&mut http.path, &mut http.body]).collect()
            }
            Self::Cql(cql) => cql.binds.iter_mut().collect(),
            Self::Thrift(thrift) => {
                let mut texts = Vec::new();
                for argument in &mut thrift.arguments {
                    argument.value.collect_texts_mut(&mut texts);
                }
                texts
            }
        }
    }
}

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpTemplate {
    /// Method.
    pub method: String,
    /// Path and query.
    pub path: Text,
    /// Headers beside those that the codec writes: Host (unless it is here) and Content-Length.
    pub headers: Vec<(String, Text)>,
    /// Body.
    pub body: Text,
}

impl HttpTemplate {
    /// A GET of `path`.
    pub fn get(path: &str) -> Result<Self, String> {
        Self {
            method: "GET".to_owned(),
            path: Text::parse(path)?,
            headers: Vec::new(),
            body: Text::default(),
        }
        .checked()
    }

    /// Refuses what would not be one HTTP request.
    pub fn checked(self) -> Result<Self, String> {
        if self.method.is_empty() || !self.method.bytes().all(|b| b.is_ascii_uppercase()) {
            return Err(format!("{:?} is not a method", self.method));
        }
        if self.method == "CONNECT" {
            return Err("CONNECT makes a tunnel, which cannot be measured as a request".to_owned());
        }
        let begins = match self.path.pieces().first() {
            Some(Piece::Literal(bytes)) => {
                bytes[0] == b'/' || (bytes == b"*" && self.method == "OPTIONS")
            }
            _ => false,
        };
        if !begins {
            return Err("the path does not begin with /".to_owned());
        }
        if !literals(&self.path).all(|b| b > b' ' && b != 0x7f) {
            return Err("the path holds a space or a control character".to_owned());
        }
        if self.path.has_binary() {
            return Err("the path holds {value}, which is not text: use {text}".to_owned());
        }
        for (name, value) in &self.headers {
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if name.is_empty() || !name.bytes().all(token) {
                return Err(format!("{name:?} is not a header's name"));
            }
            for ours in ["content-length", "transfer-encoding", "connection"] {
                if name.eq_ignore_ascii_case(ours) {
                    return Err(format!(
                        "the header {name} is written by the load generator"
                    ));
                }
            }
            if !literals(value).all(|b| b == b'\t' || (b >= b' ' && b != 0x7f)) {
                return Err(format!("the header {name} holds a control character"));
            }
            if value.has_binary() {
                return Err(format!(
                    "the header {name} holds {{value}}, which is not text: use {{text}}"
                ));
            }
        }
        Ok(self)
    }
}

fn literals(text: &Text) -> impl Iterator<Item = u8> {
    text.pieces().iter().flat_map(|piece| match piece {
        Piece::Literal(bytes) => bytes.clone(),
        _ => Vec::new(),
    })
}

/// Commands of memcached's text protocol that a mix may send: their words after the name, how many at least and
/// at most, and whether the last is a block of data.
pub const MEMCACHED_COMMANDS: [(&str, usize, usize, bool); 11] = [
    ("get", 1, 100, false),
    ("gets", 1, 100, false),
    ("set", 2, 2, true),
    ("add", 2, 2, true),
    ("replace", 2, 2, true),
    ("append", 2, 2, true),
    ("prepend", 2, 2, true),
    ("delete", 1, 1, false),
    ("incr", 2, 2, false),
    ("decr", 2, 2, false),
    ("touch", 2, 2, false),
];

/// Refuses words that are no command of memcached.
pub fn check_memcached(words: &[Text]) -> Result<(), String> {
    let name = words.first().and_then(Text::as_literal).unwrap_or_default();
    let Some((name, least, most, data)) = MEMCACHED_COMMANDS
        .iter()
        .find(|(known, ..)| known.as_bytes() == name)
    else {
        let known: Vec<&str> = MEMCACHED_COMMANDS.iter().map(|(name, ..)| *name).collect();
        return Err(format!(
            "{:?} is not a memcached command: known are {}",
            String::from_utf8_lossy(name),
            known.join(", ")
        ));
    };
    let arguments = &words[1..];
    if !(*least..=*most).contains(&arguments.len()) {
        return Err(format!(
            "memcached's {name} takes {least} words, not {}",
            arguments.len()
        ));
    }
    let in_line = &arguments[..arguments.len() - usize::from(*data)];
    for word in in_line {
        if word.is_empty() || word.has_binary() || !literals(word).all(|b| b > b' ' && b != 0x7f) {
            return Err(format!(
                "a word of memcached's {name} is empty or holds a space, a control character or {{value}}"
            ));
        }
    }
    Ok(())
}

/// A CQL statement, prepared once and executed with these values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlTemplate {
    /// The statement, with a question mark for each bind.
    pub statement: String,
    /// What is bound, in the order of the question marks.
    pub binds: Vec<Text>,
}

/// A Thrift call.
#[derive(Debug, Clone, PartialEq)]
pub struct ThriftTemplate {
    /// The method's name.
    pub method: String,
    /// Its arguments.
    pub arguments: Vec<ThriftArgument>,
    /// What its answer must hold.
    pub expect: Option<ThriftExpectation>,
}

/// A whole number that an answer must hold, or the answer counts as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThriftExpectation {
    /// Where it is: ids of fields within fields, beginning in the result. Empty: the result itself.
    pub fields: Vec<i16>,
    /// What it must be; None: anything.
    pub i64: Option<i64>,
}

/// An argument of a call, or a field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct ThriftArgument {
    /// Field id.
    pub id: i16,
    /// Thrift type, such as `i64`, `string` or `struct`.
    pub kind: String,
    /// What is sent.
    pub value: ThriftValue,
}

/// The value of an argument or field.
#[derive(Debug, Clone, PartialEq)]
pub enum ThriftValue {
    /// A number, a string or a binary, as text with placeholders.
    Text(Text),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Boolean(bool),
    /// The fields of a struct.
    Struct(Vec<ThriftArgument>),
    /// The items of a list, all of the type that follows `list:` in the argument's type.
    List(Vec<ThriftValue>),
}

impl ThriftValue {
    fn collect_texts<'a>(&'a self, texts: &mut Vec<&'a Text>) {
        match self {
            Self::Text(text) => texts.push(text),
            Self::Struct(fields) => {
                for field in fields {
                    field.value.collect_texts(texts);
                }
            }
            Self::List(items) => {
                for item in items {
                    item.collect_texts(texts);
                }
            }
            Self::Integer(_) | Self::Float(_) | Self::Boolean(_) => {}
        }
    }

    fn collect_texts_mut<'a>(&'a mut self, texts: &mut Vec<&'a mut Text>) {
        match self {
            Self::Text(text) => texts.push(text),
            Self::Struct(fields) => {
                for field in fields {
                    field.value.collect_texts_mut(texts);
                }
            }
            Self::List(items) => {
                for item in items {
                    item.collect_texts_mut(texts);
                }
            }
            Self::Integer(_) | Self::Float(_) | Self::Boolean(_) => {}
        }
    }
}
