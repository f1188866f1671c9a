//! Lines of a trace: comma-separated values (RFC 4180) whose first line names the columns.
//!
//! Known columns, in any order, others being passed over: the time in a unit that its name gives, `operation`,
//! `key`, and `size` (bytes of the value; may be absent or empty). Not here: what an operation is.

use std::borrow::Cow;

/// Names of the time column, and how many nanoseconds its unit has.
pub const TIME_COLUMNS: [(&str, f64); 4] = [
    ("time_s", 1e9),
    ("time_ms", 1e6),
    ("time_us", 1e3),
    ("time_ns", 1.0),
];

/// Where the columns are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Columns {
    time: usize,
    unit_ns: f64,
    operation: usize,
    key: usize,
    size: Option<usize>,
}

/// One request of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// Its time in the trace's own count, ns.
    pub time_ns: f64,
    /// What was done.
    pub operation: Cow<'a, str>,
    /// To which key.
    pub key: Cow<'a, str>,
    /// Size of the value, if the trace has it, bytes.
    pub size: Option<u32>,
}

impl Columns {
    /// The columns that the first line names.
    pub fn parse(line: &str) -> Result<Self, String> {
        let names = fields(line)?;
        let place = |wanted: &str| {
            let mut places = (0..names.len()).filter(|&i| names[i].trim() == wanted);
            match (places.next(), places.next()) {
                (_, Some(_)) => Err(format!("two columns are called {wanted}")),
                (place, None) => Ok(place),
            }
        };
        let missing = |what: &str| format!("the header has no column {what}");
        let mut time = None;
        for (name, unit_ns) in TIME_COLUMNS {
            if let Some(found) = place(name)? {
                if time.is_some() {
                    return Err("the header has two columns of time".to_owned());
                }
                time = Some((found, unit_ns));
            }
        }
        let (time, unit_ns) = time.ok_or_else(|| missing("time_s, time_ms, time_us or time_ns"))?;
        Ok(Self {
            time,
            unit_ns,
            operation: place("operation")?.ok_or_else(|| missing("operation"))?,
            key: place("key")?.ok_or_else(|| missing("key"))?,
            size: place("size")?,
        })
    }

    /// The request in `line`.
    pub fn row<'a>(&self, line: &'a str) -> Result<Row<'a>, String> {
        let mut fields = fields(line)?;
        let count = fields.len();
        let mut take = |place: usize, name: &str| {
            fields
                .get_mut(place)
                .map(std::mem::take)
                .ok_or_else(|| format!("{count} fields, but {name} is field {}", place + 1))
        };
        let time = take(self.time, "the time")?;
        let time_ns = match time.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => number * self.unit_ns,
            _ => return Err(format!("{time:?} is not a time")),
        };
        let operation = take(self.operation, "operation")?;
        let key = take(self.key, "key")?;
        if key.is_empty() {
            return Err("the key is empty".to_owned());
        }
        let size = match self.size {
            None => None,
            Some(place) => {
                let size = take(place, "size")?;
                match size.trim() {
                    "" => None,
                    text => Some(
                        text.parse::<u32>()
                            .map_err(|_| format!("{text:?} is not a size"))?,
                    ),
                }
            }
        };
        Ok(Row {
            time_ns,
            operation,
            key,
            size,
        })
    }
}

/// The fields of a line; a field in quotes may hold commas, and quotes that are doubled.
fn fields(line: &str) -> Result<Vec<Cow<'_, str>>, String> {
    let mut fields = Vec::with_capacity(6);
    let mut rest = line;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut text = String::new();
            let mut inside = quoted;
            loop {
                let end = inside.find('"').ok_or("a quote is not closed")?;
                text.push_str(&inside[..end]);
                inside = &inside[end + 1..];
                match inside.strip_prefix('"') {
                    Some(after) => {
                        text.push('"');
                        inside = after;
                    }
                    None => break,
                }
            }
            fields.push(Cow::Owned(text));
            match inside.strip_prefix(',') {
                Some(after) => rest = after,
                None if inside.is_empty() => return Ok(fields),
                None => return Err("text follows a closed quote".to_owned()),
            }
        } else {
            match rest.split_once(',') {
                Some((field, after)) => {
                    fields.push(Cow::Borrowed(field));
                    rest = after;
                }
                None => {
                    fields.push(Cow::Borrowed(rest));
                    return Ok(fields);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_may_stand_in_any_order() {
        let columns = Columns::parse("client,key,time_ms,operation,size").unwrap();
        let row = columns.row("7,\"a,\"\"b\"\"\",1.5,get,").unwrap();
        assert_eq!(row.time_ns, 1.5e6);
        assert_eq!((&*row.key, &*row.operation), ("a,\"b\"", "get"));
        assert_eq!(row.size, None);
        assert_eq!(columns.row("7,k,2,set,300").unwrap().size, Some(300));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (bad, why) in [
            ("time_s,operation", "no column key"),
            ("operation,key", "no column time_s"),
            ("time_s,time_ms,operation,key", "two columns of time"),
            ("time_s,operation,key,key", "two columns are called key"),
            ("\"time_s,operation,key", "not closed"),
        ] {
            let error = Columns::parse(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
        let columns = Columns::parse("time_s,operation,key,size").unwrap();
        for (bad, why) in [
            ("", "not a time"),
            ("x,get,k,1", "not a time"),
            ("nan,get,k,1", "not a time"),
            ("1,get", "2 fields"),
            ("1,get,k", "3 fields"),
            ("1,get,,1", "key is empty"),
            ("1,get,k,-1", "not a size"),
            ("1,get,k,big", "not a size"),
            ("1,get,\"k\"x,1", "follows a closed quote"),
        ] {
            let error = columns.row(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in "[a-z0-9,\".]{0,60}") {
            let columns = Columns::parse("time_s,operation,key,size").unwrap();
            let _ = (columns.row(&line), Columns::parse(&line));
        }

        #[test]
        fn quoted_fields_come_back(key in "[ -~]{1,40}") {
            let columns = Columns::parse("time_ns,key,operation").unwrap();
            let line = format!("5,\"{}\",get", key.replace('"', "\"\""));
            prop_assert_eq!(&*columns.row(&line).unwrap().key, key.as_str());
        }
    }
}
