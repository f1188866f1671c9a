//! Reads mix files.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Value;

use super::operation::{Effect, Operation};
use super::template::check_memcached;
use super::text::Text;
use super::{
    CqlSetup, CqlTemplate, HttpTemplate, Mix, MixKeys, SHIPPED, Template, ThriftArgument,
    ThriftExpectation, ThriftTemplate, ThriftValue,
};
use crate::protocol::Protocol;
use crate::sizes::SIZE_BYTES_MAX;
use crate::{LoadError, Sizes};

/// Most bytes that a mix file may have: far above any real one.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Structs and lists may nest this deep in a Thrift argument.
const THRIFT_DEPTH_MAX: usize = 16;

/// A mix as its file has it, in every protocol that it supports.
#[derive(Debug, Clone, PartialEq)]
pub struct MixFile {
    /// The shipped name, or the file's.
    pub name: String,
    keys: MixKeys,
    prefill: Option<String>,
    cql: CqlSetup,
    operations: Vec<FileOperation>,
}

#[derive(Debug, Clone, PartialEq)]
struct FileOperation {
    name: String,
    weight: f64,
    effect: Effect,
    inserts: bool,
    redis: Vec<Template>,
    memcached: Vec<Template>,
    http: Vec<Template>,
    cql: Vec<Template>,
    thrift: Vec<Template>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    schema_version: String,
    kind: String,
    #[serde(rename = "description")]
    _description: Option<String>,
    prefill: Option<String>,
    #[serde(default)]
    keys: KeysTable,
    #[serde(default)]
    values: ValuesTable,
    #[serde(default)]
    cql: CqlTable,
    operation: Vec<OperationTable>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct KeysTable {
    count: Option<u64>,
    distribution: Option<String>,
    sizes: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ValuesTable {
    sizes: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct CqlTable {
    #[serde(default)]
    setup: Vec<String>,
    consistency: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationTable {
    name: String,
    weight: f64,
    #[serde(default = "call")]
    effect: String,
    #[serde(default)]
    inserts: bool,
    redis: Option<Value>,
    memcached: Option<Value>,
    http: Option<Value>,
    cql: Option<Value>,
    thrift: Option<Value>,
}

fn call() -> String {
    "call".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpTable {
    #[serde(default = "get")]
    method: String,
    path: String,
    #[serde(default)]
    headers: toml::map::Map<String, Value>,
    #[serde(default)]
    body: String,
}

fn get() -> String {
    "GET".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CqlStep {
    statement: String,
    #[serde(default)]
    binds: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThriftStep {
    method: String,
    #[serde(default)]
    arguments: Vec<ArgumentTable>,
    expect: Option<ExpectTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectTable {
    fields: Vec<i16>,
    i64: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArgumentTable {
    id: i16,
    #[serde(rename = "type")]
    kind: String,
    value: Value,
}

impl MixFile {
    /// The shipped mix of this name, or the file.
    pub fn find(name: &str) -> Result<Self, LoadError> {
        let wrong = |why: String| LoadError::setting("--mix", why);
        if let Some(shipped) = SHIPPED.iter().find(|shipped| shipped.name == name) {
            return Self::parse(shipped.text, name, Path::new(""))
                .map_err(|why| wrong(format!("{name}: {why}")));
        }
        let path = Path::new(name);
        if !path.exists() {
            let known: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
            return Err(wrong(format!(
                "{name:?} is neither a file nor a shipped mix, which are {}",
                known.join(", ")
            )));
        }
        let text = read_bounded(path).map_err(|why| wrong(format!("{name}: {why}")))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, name, folder).map_err(|why| wrong(format!("{name}: {why}")))
    }

    /// The mix in `text`; names of distribution files in it are relative to `folder`. The error is one line.
    pub fn parse(text: &str, name: &str, folder: &Path) -> Result<Self, String> {
        let root: Root = toml::from_str(text).map_err(|error| one_line(text, &error))?;
        if root.kind != "mix" {
            return Err(format!("kind is {:?}, expected \"mix\"", root.kind));
        }
        if root.schema_version.split('.').next() != Some("1") {
            return Err(format!(
                "schema version {} of mix is not supported (this program reads 1.x)",
                root.schema_version
            ));
        }
        let sizes = |value: Option<Value>, of: &str| {
            value
                .map(|value| sizes(value, folder).map_err(|why| format!("{of}.sizes: {why}")))
                .transpose()
        };
        let mut operations: Vec<FileOperation> = Vec::new();
        for table in root.operation {
            let operation = operation(table)?;
            if operations.iter().any(|known| known.name == operation.name) {
                return Err(format!("two operations are called {}", operation.name));
            }
            operations.push(operation);
        }
        check_weights(operations.iter().map(|o| (o.name.as_str(), o.weight)))?;
        if let Some(prefill) = &root.prefill
            && !operations.iter().any(|o| o.name == *prefill)
        {
            return Err(format!(
                "prefill names {prefill:?}, which is not an operation"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            keys: MixKeys {
                count: root.keys.count,
                distribution: root.keys.distribution,
                key_sizes: sizes(root.keys.sizes, "keys")?,
                value_sizes: sizes(root.values.sizes, "values")?,
            },
            prefill: root.prefill,
            cql: CqlSetup {
                setup: root.cql.setup,
                consistency: root.cql.consistency,
            },
            operations,
        })
    }

    /// The mix in one protocol; fails where the protocol cannot do one of its operations.
    pub fn for_protocol(&self, protocol: Protocol) -> Result<Mix, LoadError> {
        let mut operations = Vec::new();
        for operation in &self.operations {
            let steps = match protocol {
                Protocol::Memcached => &operation.memcached,
                Protocol::Redis => &operation.redis,
                Protocol::Http => &operation.http,
                Protocol::Thrift => &operation.thrift,
                Protocol::Cql => &operation.cql,
            };
            let needed = operation.weight > 0.0 || self.prefill.as_deref() == Some(&operation.name);
            if steps.is_empty() && needed {
                let (mix, name) = (&self.name, &operation.name);
                return Err(LoadError::setting(
                    "--mix",
                    format!(
                        "{mix}: operation {name} cannot be done over {protocol}",
                        protocol = protocol.name()
                    ),
                ));
            }
            // What HTTP finds is a status, which is counted by class, not as a hit or a miss.
            let effect = if protocol == Protocol::Http {
                Effect::Call
            } else {
                operation.effect
            };
            operations.push(Operation {
                inserts: operation.inserts,
                ..Operation::new(&operation.name, effect, operation.weight, steps.clone())
            });
        }
        let place = |name: &String| operations.iter().position(|o| o.name == *name);
        Ok(Mix {
            name: self.name.clone(),
            protocol,
            keys: self.keys.clone(),
            prefill: self.prefill.as_ref().and_then(place),
            operations,
            cql: self.cql.clone(),
        })
    }
}

/// Refuses weights of which no mix can be made.
pub(crate) fn check_weights<'a>(
    weights: impl Iterator<Item = (&'a str, f64)>,
) -> Result<(), String> {
    let mut sum = 0.0;
    for (name, weight) in weights {
        if !(weight >= 0.0 && weight.is_finite()) {
            return Err(format!("{name}: {weight} is not a weight"));
        }
        sum += weight;
    }
    if sum <= 0.0 || !sum.is_finite() {
        return Err("no operation has a weight above 0".to_owned());
    }
    Ok(())
}

fn read_bounded(path: &Path) -> Result<String, String> {
    steelyard_record::read_text_file(path, FILE_BYTES_MAX).map_err(|error| error.to_string())
}

/// The parser's message with its line, without the picture that it draws.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    match error.span() {
        Some(span) => {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            format!("line {line}: {message}")
        }
        None => message,
    }
}

/// `100`, `"file.json"` or `[[0, 10], [1, 20]]`.
fn sizes(value: Value, folder: &Path) -> Result<Sizes, String> {
    match value {
        Value::Integer(bytes) => usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= SIZE_BYTES_MAX)
            .map(Sizes::fixed)
            .ok_or_else(|| format!("{bytes} is not a size from 0 to {SIZE_BYTES_MAX}")),
        Value::String(file) => {
            let path: PathBuf = folder.join(file);
            Sizes::read(&path).map_err(|error| match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            })
        }
        Value::Array(_) => {
            let points: Vec<(f64, f64)> = convert(value)?;
            Sizes::quantiles(points, "mix".to_owned())
        }
        _ => Err("expected a number of bytes, a file or quantiles".to_owned()),
    }
}

fn convert<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    value
        .try_into()
        .map_err(|error: toml::de::Error| error.message().replace('\n', " "))
}

fn operation(table: OperationTable) -> Result<FileOperation, String> {
    let name = table.name;
    if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) {
        return Err(format!("{name:?} is not a name for an operation"));
    }
    let within = |protocol: &str, why: String| format!("operation {name}: {protocol}: {why}");
    let effect = match table.effect.as_str() {
        "read" => Effect::Read,
        "write" => Effect::Write,
        "call" => Effect::Call,
        other => {
            return Err(format!(
                "operation {name}: effect {other:?} is not read, write or call"
            ));
        }
    };
    Ok(FileOperation {
        weight: table.weight,
        effect,
        inserts: table.inserts,
        redis: steps(table.redis, redis).map_err(|why| within("redis", why))?,
        memcached: steps(table.memcached, memcached).map_err(|why| within("memcached", why))?,
        http: steps(table.http, http).map_err(|why| within("http", why))?,
        cql: steps(table.cql, cql).map_err(|why| within("cql", why))?,
        thrift: steps(table.thrift, thrift).map_err(|why| within("thrift", why))?,
        name,
    })
}

/// One step, or a list of steps: a list of lists or of tables.
fn steps(
    value: Option<Value>,
    step: impl Fn(Value) -> Result<Template, String>,
) -> Result<Vec<Template>, String> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) if items.is_empty() => Err("it is empty".to_owned()),
        Some(Value::Array(items)) if items.iter().all(|i| i.is_array() || i.is_table()) => {
            items.into_iter().map(step).collect()
        }
        Some(value) => Ok(vec![step(value)?]),
    }
}

fn words(value: Value) -> Result<Vec<Text>, String> {
    let words: Vec<String> = convert(value)?;
    if words.is_empty() {
        return Err("a command has no words".to_owned());
    }
    words.iter().map(|word| Text::parse(word)).collect()
}

fn redis(value: Value) -> Result<Template, String> {
    Ok(Template::Redis(words(value)?))
}

fn memcached(value: Value) -> Result<Template, String> {
    let words = words(value)?;
    check_memcached(&words)?;
    Ok(Template::Memcached(words))
}

fn http(value: Value) -> Result<Template, String> {
    let table: HttpTable = convert(value)?;
    let header = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, Text::parse(&text)?)),
        _ => Err(format!("the header {name} is not a text")),
    };
    let template = HttpTemplate {
        method: table.method,
        path: Text::parse(&table.path)?,
        headers: table
            .headers
            .into_iter()
            .map(header)
            .collect::<Result<_, _>>()?,
        body: Text::parse(&table.body)?,
    };
    Ok(Template::Http(template.checked()?))
}

fn cql(value: Value) -> Result<Template, String> {
    let step: CqlStep = convert(value)?;
    Ok(Template::Cql(CqlTemplate {
        statement: step.statement,
        binds: step
            .binds
            .iter()
            .map(|bind| Text::parse(bind))
            .collect::<Result<_, _>>()?,
    }))
}

fn thrift(value: Value) -> Result<Template, String> {
    let step: ThriftStep = convert(value)?;
    Ok(Template::Thrift(ThriftTemplate {
        method: step.method,
        arguments: arguments(step.arguments, 0)?,
        expect: step.expect.map(|expect| ThriftExpectation {
            fields: expect.fields,
            i64: expect.i64,
        }),
    }))
}

fn arguments(tables: Vec<ArgumentTable>, depth: usize) -> Result<Vec<ThriftArgument>, String> {
    if depth > THRIFT_DEPTH_MAX {
        return Err(format!("arguments nest deeper than {THRIFT_DEPTH_MAX}"));
    }
    let argument = |table: ArgumentTable| {
        let value = match table.value {
            Value::Array(fields) if table.kind == "struct" => {
                let fields: Vec<ArgumentTable> =
                    fields.into_iter().map(convert).collect::<Result<_, _>>()?;
                ThriftValue::Struct(arguments(fields, depth + 1)?)
            }
            Value::Array(items) if table.kind.starts_with("list:") => {
                ThriftValue::List(items.into_iter().map(scalar).collect::<Result<_, _>>()?)
            }
            value => scalar(value)?,
        };
        Ok(ThriftArgument {
            id: table.id,
            kind: table.kind,
            value,
        })
    };
    tables.into_iter().map(argument).collect()
}

fn scalar(value: Value) -> Result<ThriftValue, String> {
    match value {
        Value::String(text) => Ok(ThriftValue::Text(Text::parse(&text)?)),
        Value::Integer(number) => Ok(ThriftValue::Integer(number)),
        Value::Float(number) => Ok(ThriftValue::Float(number)),
        Value::Boolean(truth) => Ok(ThriftValue::Boolean(truth)),
        other => Err(format!("a {} is not a value", other.type_str())),
    }
}
