use std::collections::BTreeMap;

use arrow_schema::DataType;
use serde_json::Value;

use super::*;

/// The store's word for an Arrow type.
fn word(type_: &DataType) -> String {
    match type_ {
        DataType::Utf8 => "string".to_owned(),
        DataType::Int64 => "int64".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::List(field) => format!("list<{}>", word(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => format!(
                "map<{}, {}>",
                word(fields[0].data_type()),
                word(fields[1].data_type())
            ),
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    }
}

fn columns_of<R: Row>() -> Vec<(String, String, bool)> {
    let origin = Origin {
        machine: "m".to_owned(),
        platform: "p".to_owned(),
        cluster: "c".to_owned(),
    };
    let batch = batch::<R>(&[], &origin).unwrap();
    let schema = batch.schema();
    let fields = schema.fields().iter();
    fields
        .map(|field| {
            (
                field.name().clone(),
                word(field.data_type()),
                field.is_nullable(),
            )
        })
        .collect()
}

#[test]
fn columns_are_those_of_the_store() {
    let text = include_str!("../../../../schemas/store.json");
    let store: Value = serde_json::from_str(text).unwrap();
    assert_eq!(store["schema_version"], SCHEMA_VERSION);
    let ours: BTreeMap<&str, Vec<(String, String, bool)>> = BTreeMap::from([
        (Machine::NAME, columns_of::<Machine>()),
        (MachineSample::NAME, columns_of::<MachineSample>()),
        (TaskSample::NAME, columns_of::<TaskSample>()),
        (ProfileRow::NAME, columns_of::<ProfileRow>()),
        (Incident::NAME, columns_of::<Incident>()),
    ]);
    assert_eq!(ours.len(), Table::ALL.len());
    for table in Table::ALL {
        let version = &store["tables"][table.name()]["schema_version"];
        assert_eq!(version, &format!("{}.0", table.major()), "{table}");
    }
    for (table, ours) in ours {
        let columns = store["tables"][table]["columns"].as_array().unwrap();
        let theirs: Vec<(String, String, bool)> = columns
            .iter()
            .map(|column| {
                let text = |key: &str| column[key].as_str().unwrap().to_owned();
                (
                    text("name"),
                    text("type").replace(",", ", ").replace(",  ", ", "),
                    column["nullable"].as_bool().unwrap(),
                )
            })
            .collect();
        let theirs: Vec<_> = theirs
            .into_iter()
            .filter(|(name, ..)| name != "date" && name != "cluster")
            .collect();
        assert_eq!(ours, theirs, "{table}");
    }
}

#[test]
fn tables_have_one_name() {
    for table in Table::ALL {
        assert_eq!(Table::named(table.name()), Some(table));
        assert_eq!(
            serde_json::to_string(&table).unwrap(),
            format!("\"{table}\"")
        );
    }
}

#[test]
fn malformed_rows_are_reported() {
    let origin = Origin {
        machine: "m".to_owned(),
        platform: "p".to_owned(),
        cluster: "c".to_owned(),
    };
    let message_for = |payload: &[u8]| {
        Table::Machines
            .encode(&[payload.to_vec()], &origin)
            .unwrap_err()
            .to_string()
    };
    assert!(message_for(b"{").starts_with("rows of table machines cannot be read back"));
    assert_eq!(message_for(b"[]"), "table machines: no rows");
}

#[test]
fn rows_that_an_earlier_version_left_in_the_journal_keep_their_cycles() {
    let row = MachineSample {
        core_cycles: Some(3),
        reference_cycles: Some(2),
        ..MachineSample::default()
    };
    let text = serde_json::to_string(&row).unwrap();
    let earlier = text.replace("\"core_cycles\"", "\"cycles\"");
    assert_ne!(earlier, text);
    assert_eq!(
        serde_json::from_str::<MachineSample>(&earlier).unwrap(),
        row
    );
    let text = r#"{"job": "j", "task": "t", "job_class": "batch", "labels": {}, "cgroup": "/",
        "window_start_unix_s": 1, "window_s": 60.0, "cpu_s": 1.0, "cycles": 5}"#;
    let row: TaskSample = serde_json::from_str(text).unwrap();
    assert_eq!(row.reference_cycles, Some(5));
}
