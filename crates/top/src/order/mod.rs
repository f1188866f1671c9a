//! In which order rows stand, and which are shown.

use std::collections::HashMap;

use crate::column::Column;
use crate::column::Sort;
use crate::derive::{Row, Subject};

/// Rows in an order: largest first, what is missing last, ties by CPU time and then by id.
pub fn sort(rows: &mut [Row], sort: Sort, reverse: bool) {
    let tie = |row: &Row| row.figures.number(Column::Cpu).unwrap_or(-1.0);
    rows.sort_by(|one, other| {
        let (a, b) = (sort.key(&one.figures), sort.key(&other.figures));
        let order = match (a, b) {
            (Some(a), Some(b)) if reverse => a.total_cmp(&b),
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => std::cmp::Ordering::Equal,
        };
        order
            .then_with(|| tie(other).total_cmp(&tie(one)))
            .then_with(|| key(one).cmp(&key(other)))
    });
}

fn key(row: &Row) -> (u32, u32, &str) {
    match &row.subject {
        Subject::Task(id) => (id.pid, id.tid.unwrap_or(0), ""),
        Subject::Group(path) => (0, 0, path),
    }
}

/// Rows of control groups in the order of a tree, in which siblings stand in the order of `by`.
pub fn sort_tree(rows: Vec<Row>, by: Sort, reverse: bool) -> Vec<Row> {
    let mut children: HashMap<String, Vec<Row>> = HashMap::new();
    let mut roots = Vec::new();
    for row in rows {
        let Subject::Group(path) = &row.subject else {
            continue;
        };
        let parent = crate::sample::ancestors(path).nth(1).map(str::to_owned);
        match parent {
            Some(parent) => children.entry(parent).or_default().push(row),
            None => roots.push(row),
        }
    }
    for siblings in children.values_mut() {
        sort(siblings, by, reverse);
    }
    let mut waiting = roots;
    let mut sorted = Vec::new();
    while let Some(row) = waiting.pop() {
        if let Subject::Group(path) = &row.subject
            && let Some(mut below) = children.remove(&**path)
        {
            below.reverse();
            waiting.extend(below);
        }
        sorted.push(row);
    }
    sorted
}

/// Whether a row has `text` in its name, command line, user, control group or id.
pub fn matches(row: &Row, text: &str) -> bool {
    let text = text.to_lowercase();
    let holds = |field: &str| field.to_lowercase().contains(&text);
    let by_id = match &row.subject {
        Subject::Task(id) => {
            id.pid.to_string() == text || id.tid.is_some_and(|tid| tid.to_string() == text)
        }
        Subject::Group(_) => false,
    };
    by_id
        || holds(&row.who.name)
        || row.who.command.as_deref().is_some_and(holds)
        || row.who.user.as_deref().is_some_and(holds)
        || row.who.cgroup.as_deref().is_some_and(holds)
}

#[cfg(test)]
mod tests;
