//! Each record here against the JSON Schema that the control plane generates from its own model of it.
//!
//! From the schema a record is made in which every field has a value. It must come through this crate whole, which a
//! field that is missing on either side does not. Then each place of it is changed by itself: null is taken exactly
//! where the schema takes it, other kinds of values are refused, and every word of a list of words is known.

use std::io::Write;

use serde_json::{Map, Value, json};
use steelyard_record::{
    CacheStats, CapacityResult, CounterPlan, CpiSpecs, HealthResult, LoadResult, NumaScore,
    RankStats, Record, SweepResult, TaxResult, Telemetry, read,
};

/// A kind of record: its name, its version, and what comes back where it is read and written again.
type Entry = (&'static str, &'static str, fn(&Value) -> Option<Value>);

/// The records of this crate.
const RECORDS: &[Entry] = &[
    entry::<CacheStats>(),
    entry::<CapacityResult>(),
    entry::<CounterPlan>(),
    entry::<CpiSpecs>(),
    entry::<HealthResult>(),
    entry::<LoadResult>(),
    entry::<NumaScore>(),
    entry::<RankStats>(),
    entry::<SweepResult>(),
    entry::<TaxResult>(),
    entry::<Telemetry>(),
];

const fn entry<R: Record>() -> Entry {
    (R::KIND, R::VERSION, through::<R>)
}

/// What comes back from a record that is read and written again; None where it is refused.
fn through<R: Record>(value: &Value) -> Option<Value> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(value.to_string().as_bytes())
        .expect("written");
    let record: R = read(file.path()).ok()?;
    Some(serde_json::to_value(record).expect("JSON"))
}

/// One place of a record: the way to it, what the schema says of it, and whether it may be null.
struct Place {
    pointer: String,
    schema: Value,
    nullable: bool,
}

/// Makes a record with a value in every place, and lists the places.
struct Example {
    definitions: Value,
    places: Vec<Place>,
}

impl Example {
    /// The choices that a schema leaves, without null, and whether null is one.
    fn choices(&self, schema: &Value) -> (Vec<Value>, bool) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/$defs/").expect("a definition");
            return self.choices(&self.definitions[name]);
        }
        let Some(any) = schema["anyOf"].as_array() else {
            return (vec![schema.clone()], false);
        };
        let mut choices = Vec::new();
        let mut nullable = false;
        for one in any {
            let (more, null) = self.choices(one);
            choices.extend(more);
            nullable |= null;
        }
        let known = choices.len();
        choices.retain(|one| one["type"] != "null");
        (choices.clone(), nullable || choices.len() < known)
    }

    fn value(&mut self, schema: &Value, pointer: &str) -> Value {
        let (choices, nullable) = self.choices(schema);
        for choice in &choices {
            self.places.push(Place {
                pointer: pointer.to_owned(),
                schema: choice.clone(),
                nullable,
            });
        }
        let schema = &choices[0];
        match schema["type"].as_str() {
            Some("object") => {
                let mut object = Map::new();
                for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                    object.insert(
                        name.clone(),
                        self.value(field, &format!("{pointer}/{name}")),
                    );
                }
                if let Some(values) = schema
                    .get("additionalProperties")
                    .filter(|it| it.is_object())
                {
                    object.insert("x".to_owned(), self.value(values, &format!("{pointer}/x")));
                }
                Value::Object(object)
            }
            Some("array") => {
                let items = match schema["prefixItems"].as_array() {
                    Some(items) => items.clone(),
                    None => vec![
                        schema["items"].clone();
                        schema["minItems"].as_u64().unwrap_or(1).max(1) as usize
                    ],
                };
                let numbered = items.iter().enumerate();
                numbered
                    .map(|(number, item)| self.value(item, &format!("{pointer}/{number}")))
                    .collect()
            }
            _ => plain(schema),
        }
    }
}

/// A value of a schema that is neither object nor array.
fn plain(schema: &Value) -> Value {
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    match schema["type"].as_str() {
        Some("string") if schema["pattern"] == r"^1\.\d+$" => json!("1.0"),
        Some("string") => json!("some text"),
        Some("integer") => json!(1),
        Some("number") => json!(0.5),
        Some("boolean") => json!(true),
        _ => json!({"anything": [1, "x"]}),
    }
}

fn schema(kind: &str) -> Value {
    let path = format!(
        "{}/../../schemas/{kind}.schema.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON")
}

fn example(kind: &str) -> (Value, Vec<Place>) {
    let schema = schema(kind);
    let mut example = Example {
        definitions: schema["$defs"].clone(),
        places: Vec::new(),
    };
    let whole = example.value(&schema, "");
    (whole, example.places)
}

fn with(whole: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = whole.clone();
    *changed.pointer_mut(pointer).expect("a place") = value;
    changed
}

#[test]
fn every_field_of_either_side_is_in_the_other() {
    for (kind, version, through) in RECORDS {
        let (whole, _) = example(kind);
        assert_eq!(through(&whole).as_ref(), Some(&whole), "{kind}");
        assert_eq!(
            schema(kind)["properties"]["schema_version"]["default"],
            *version,
            "{kind}"
        );
    }
}

#[test]
fn both_sides_take_the_same_values_in_each_place() {
    for (kind, _, through) in RECORDS {
        let (whole, places) = example(kind);
        for Place {
            pointer,
            schema,
            nullable,
        } in places
        {
            let takes = |value: Value| {
                let changed = with(&whole, &pointer, value);
                through(&changed).is_some_and(|back| back == changed)
            };
            let here = format!("{kind}{pointer}: {schema}");
            if pointer.is_empty() || schema.get("type").is_none() || pointer == "/schema_version" {
                continue;
            }
            assert_eq!(takes(Value::Null), nullable, "null in {here}");
            for word in schema["enum"].as_array().into_iter().flatten() {
                assert!(takes(word.clone()), "{word} in {here}");
            }
            match schema["type"].as_str().expect("a type") {
                "string" => assert_eq!(
                    takes(json!("no such word")),
                    schema.get("enum").is_none(),
                    "{here}"
                ),
                "integer" => assert!(takes(json!(7)) && !takes(json!(7.5)), "{here}"),
                "number" => assert!(takes(json!(7.5)), "{here}"),
                "boolean" => assert!(takes(json!(false)), "{here}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_record_that_lacks_a_field_or_has_one_more_does_not_come_through_whole() {
    let (_, _, through) = RECORDS[0];
    let (whole, _) = example(RECORDS[0].0);
    let names: Vec<String> = whole
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect();
    for name in names {
        let mut less = whole.clone();
        less.as_object_mut().expect("an object").remove(&name);
        assert_ne!(through(&less).as_ref(), Some(&less), "{name}");
    }
    let mut more = whole.clone();
    more["field_of_the_future"] = json!(1);
    assert_ne!(through(&more).as_ref(), Some(&more));
}
