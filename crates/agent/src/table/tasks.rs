//! Columns of `task_samples` and `incidents`.

use arrow_array::types::{Float64Type, Int64Type};

use super::columns::Columns;
use super::{Row, Table};
use crate::rows::{Incident, JobClass, Origin, TaskSample};

impl Row for TaskSample {
    const TABLE: Table = Table::TaskSamples;
    const NAME: &'static str = "task_samples";

    fn time_unix_s(&self) -> i64 {
        self.window_start_unix_s
    }

    fn columns(rows: &[Self], origin: &Origin, columns: &mut Columns) {
        let all = || rows.iter();
        columns.text("machine", all().map(|_| &*origin.machine));
        columns.text("platform", all().map(|_| &*origin.platform));
        columns.text("job", all().map(|row| &*row.task.job));
        columns.text("task", all().map(|row| &*row.task.task));
        columns.text("job_class", all().map(|row| row.task.job_class.name()));
        columns.long(
            "window_start_unix_s",
            all().map(|row| row.window_start_unix_s),
        );
        columns.double("window_s", all().map(|row| row.window_s));
        columns.double("cpu_s", all().map(|row| row.cpu_s));
        columns.long_or_null("reference_cycles", all().map(|row| row.reference_cycles));
        columns.long_or_null("instructions", all().map(|row| row.instructions));
        columns.double_or_null("cpi", all().map(|row| row.cpi));
        columns.text_or_null("cpi_source", all().map(|row| row.cpi_source.as_deref()));
        columns.long_or_null("llc_misses", all().map(|row| row.llc_misses));
        columns.long_or_null("context_switches", all().map(|row| row.context_switches));
        columns.long_or_null("page_faults", all().map(|row| row.page_faults));
        columns.double_or_null("memory_bytes", all().map(|row| row.memory_bytes));
        columns.double_or_null("storage_bytes", all().map(|row| row.storage_bytes));
        columns.double_or_null("network_bytes", all().map(|row| row.network_bytes));
        columns.lists_or_null::<Float64Type>(
            "cpu_s_per_node",
            all().map(|row| row.cpu_s_per_node.as_deref()),
        );
        columns.lists_or_null::<Int64Type>(
            "pages_per_node",
            all().map(|row| row.pages_per_node.as_deref()),
        );
        columns.double_or_null("numa_score", all().map(|row| row.numa_score));
        columns.double_or_null("operations", all().map(|row| row.operations));
        columns.double_or_null("latency_mean_s", all().map(|row| row.latency_mean_s));
        columns.double_or_null("latency_p99_s", all().map(|row| row.latency_p99_s));
        columns.double_or_null("machine_cpu_ratio", all().map(|row| row.machine_cpu_ratio));
        columns.labels("labels", all().map(|row| &row.task.labels));
    }
}

impl Row for Incident {
    const TABLE: Table = Table::Incidents;
    const NAME: &'static str = "incidents";

    fn time_unix_s(&self) -> i64 {
        self.start_unix_s
    }

    fn columns(rows: &[Self], origin: &Origin, columns: &mut Columns) {
        let all = || rows.iter();
        columns.text("incident", all().map(|row| &*row.incident));
        columns.text("machine", all().map(|_| &*origin.machine));
        columns.text("platform", all().map(|_| &*origin.platform));
        columns.text("victim_job", all().map(|row| &*row.victim_job));
        columns.text("victim_task", all().map(|row| &*row.victim_task));
        columns.long("start_unix_s", all().map(|row| row.start_unix_s));
        columns.long_or_null("end_unix_s", all().map(|row| row.end_unix_s));
        columns.double("threshold_cpi", all().map(|row| row.threshold_cpi));
        columns.double("victim_cpi", all().map(|row| row.victim_cpi));
        columns.long("outliers", all().map(|row| row.outliers));
        columns.text_or_null(
            "antagonist_job",
            all().map(|row| row.antagonist_job.as_deref()),
        );
        columns.text_or_null(
            "antagonist_task",
            all().map(|row| row.antagonist_task.as_deref()),
        );
        let class = |row: &Self| row.antagonist_class.map(JobClass::name);
        columns.text_or_null("antagonist_class", all().map(class));
        columns.double_or_null("correlation", all().map(|row| row.correlation));
        columns.text("action", all().map(|row| &*row.action));
        columns.text("reason", all().map(|row| &*row.reason));
        columns.double_or_null("cap_cpu_ratio", all().map(|row| row.cap_cpu_ratio));
        columns.long_or_null("cap_start_unix_s", all().map(|row| row.cap_start_unix_s));
        columns.long_or_null("cap_end_unix_s", all().map(|row| row.cap_end_unix_s));
        columns.bool_or_null("undone", all().map(|row| row.undone));
        columns.double_or_null("victim_cpi_after", all().map(|row| row.victim_cpi_after));
    }
}
