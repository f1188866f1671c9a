"""What belongs to characterizations, which ``steelyard characterize`` makes."""

from steelyard.bench.declaration import Declaration

DECLARATION = Declaration(
    name="characterize",
    title="Characterization",
    doc="describes any command, process, cgroup or machine",
    benchmark="steelyard.bench.characterize.benchmark:Characterization",
    headline=(
        *(
            "operations_per_s",
            "operations_per_machine_cpu_s",
            "cpus_used",
            "cpu_time_s",
            "elapsed_s",
            "kernel_ratio",
        ),
        *("threads", "resident_bytes", "cpu_busy_ratio", "cpu_kernel_ratio", "context_switches_per_s"),
        *("machine_cpu_busy_ratio", "machine_cpu_stolen_ratio"),
    ),
    metric_names={"disk_written_bytes_per_s": "written for disks"},
    sections="steelyard.report.characterize.page:sections",
    describes=True,
    listed=False,
    show="steelyard.cli.characterize:show_again",
)
