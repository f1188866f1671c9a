//! Columns of `profiles`.

use super::columns::Columns;
use super::{Row, Table};
use crate::rows::{Origin, ProfileRow};

impl Row for ProfileRow {
    const TABLE: Table = Table::Profiles;
    const NAME: &'static str = "profiles";

    fn time_unix_s(&self) -> i64 {
        self.window_start_unix_s
    }

    fn columns(rows: &[Self], origin: &Origin, columns: &mut Columns) {
        let all = || rows.iter();
        columns.text("machine", all().map(|_| &*origin.machine));
        columns.text("platform", all().map(|_| &*origin.platform));
        columns.text("job", all().map(|row| &*row.job));
        columns.text("task", all().map(|row| &*row.task));
        columns.long(
            "window_start_unix_s",
            all().map(|row| row.window_start_unix_s),
        );
        columns.double("window_s", all().map(|row| row.window_s));
        columns.text("event", all().map(|row| &*row.event));
        columns.double("hz", all().map(|row| row.hz));
        columns.text("stack", all().map(|row| &*row.stack));
        columns.long("samples", all().map(|row| row.samples));
        columns.double("weight", all().map(|row| row.weight));
        columns.double("sampled_ratio", all().map(|row| row.sampled_ratio));
    }
}
