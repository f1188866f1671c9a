//! Columns of `machines` and `machine_samples`.

use arrow_array::types::Float64Type;

use super::columns::Columns;
use super::{Row, Table};
use crate::rows::{Machine, MachineSample, Origin};

impl Row for Machine {
    const TABLE: Table = Table::Machines;
    const NAME: &'static str = "machines";

    fn time_unix_s(&self) -> i64 {
        self.seen_unix_s
    }

    fn columns(rows: &[Self], origin: &Origin, columns: &mut Columns) {
        let all = || rows.iter();
        columns.text("machine", all().map(|_| &*origin.machine));
        columns.text("platform", all().map(|_| &*origin.platform));
        columns.long("seen_unix_s", all().map(|row| row.seen_unix_s));
        columns.text_or_null("vendor", all().map(|row| row.vendor.as_deref()));
        columns.text_or_null("cpu_model", all().map(|row| row.cpu_model.as_deref()));
        columns.long_or_null("sockets", all().map(|row| row.sockets));
        columns.long_or_null("cores", all().map(|row| row.cores));
        columns.long_or_null("threads", all().map(|row| row.threads));
        columns.long_or_null("numa_nodes", all().map(|row| row.numa_nodes));
        columns.bool_or_null("smt_on", all().map(|row| row.smt_on));
        columns.long_or_null("memory_bytes", all().map(|row| row.memory_bytes));
        columns.double_or_null(
            "nominal_frequency_hz",
            all().map(|row| row.nominal_frequency_hz),
        );
        columns.double_or_null("max_frequency_hz", all().map(|row| row.max_frequency_hz));
        let memory = |row: &Self| row.memory_bandwidth_limit_bytes_per_s;
        columns.double_or_null("memory_bandwidth_limit_bytes_per_s", all().map(memory));
        columns.double_or_null(
            "disk_limit_bytes_per_s",
            all().map(|row| row.disk_limit_bytes_per_s),
        );
        columns.double_or_null(
            "network_limit_bytes_per_s",
            all().map(|row| row.network_limit_bytes_per_s),
        );
        columns.lists_or_null::<Float64Type>(
            "node_distances",
            all().map(|row| row.node_distances.as_deref()),
        );
        columns.text_or_null("kernel", all().map(|row| row.kernel.as_deref()));
        columns.labels("labels", all().map(|row| &row.labels));
    }
}

impl Row for MachineSample {
    const TABLE: Table = Table::MachineSamples;
    const NAME: &'static str = "machine_samples";

    fn time_unix_s(&self) -> i64 {
        self.window_start_unix_s
    }

    fn columns(rows: &[Self], origin: &Origin, columns: &mut Columns) {
        let all = || rows.iter();
        columns.text("machine", all().map(|_| &*origin.machine));
        columns.text("platform", all().map(|_| &*origin.platform));
        columns.long(
            "window_start_unix_s",
            all().map(|row| row.window_start_unix_s),
        );
        columns.double("window_s", all().map(|row| row.window_s));
        columns.long("threads", all().map(|row| row.threads));
        columns.long_or_null("cores", all().map(|row| row.cores));
        columns.double("cpu_s", all().map(|row| row.cpu_s));
        columns.double_or_null("core_busy_s", all().map(|row| row.core_busy_s));
        columns.long_or_null("core_cycles", all().map(|row| row.core_cycles));
        columns.long_or_null("reference_cycles", all().map(|row| row.reference_cycles));
        columns.long_or_null("instructions", all().map(|row| row.instructions));
        columns.double_or_null("frequency_hz", all().map(|row| row.frequency_hz));
        columns.double_or_null("power_w", all().map(|row| row.power_w));
        columns.double_or_null("power_cap_w", all().map(|row| row.power_cap_w));
        columns.double_or_null("throttled_s", all().map(|row| row.throttled_s));
        columns.double_or_null("steal_s", all().map(|row| row.steal_s));
        columns.long_or_null("memory_used_bytes", all().map(|row| row.memory_used_bytes));
        let bandwidth = |row: &Self| row.memory_bandwidth_bytes_per_s;
        columns.double_or_null("memory_bandwidth_bytes_per_s", all().map(bandwidth));
        columns.double_or_null("disk_busy_s", all().map(|row| row.disk_busy_s));
        columns.long_or_null("disk_read_bytes", all().map(|row| row.disk_read_bytes));
        columns.long_or_null("disk_write_bytes", all().map(|row| row.disk_write_bytes));
        columns.double_or_null("io_wait_s", all().map(|row| row.io_wait_s));
        columns.long_or_null(
            "network_receive_bytes",
            all().map(|row| row.network_receive_bytes),
        );
        columns.long_or_null(
            "network_send_bytes",
            all().map(|row| row.network_send_bytes),
        );
        columns.labels("labels", all().map(|row| &row.labels));
    }
}
