"""Readers of TOML: experiments, knobs, soft SKUs, rules of the tax map, mappings of importers."""

from pathlib import Path

from steelyard.analyze.profiles.tax_rules import rules_with
from steelyard.experiment.request.fields import ExperimentRequest
from steelyard.experiment.request.file import read_file
from steelyard.fleet.importers import mapping, prometheus
from steelyard.tune.deploy.softsku import read_softsku
from steelyard.tune.knobs.user import read_user_file

from .reader import Reader, holding

EXPERIMENT = """
benchmark = "tao"
metric = "requests_per_s"
guards = ["response_p99_ns=5%"]
blocks = 10
seed = 3
budget = "1h"
to_the_end = false
hooks = ["probe:enabled=false"]
[set]
measure = 5
[factors]
memory = ["64MiB", "256MiB"]
connections = [16, 64]
"""
ARMS = """
metric = "seconds"
lower_is_better = true
budget = "10m"
[arms.one]
command = ["gzip", "-1", "words"]
[arms.nine]
command = "gzip -9 words"
"""
KNOBS = """
[[knob]]
name = "queue_depth"
files = ["/sys/block/sda/queue/nr_requests"]
levels = ["64", "256"]
minimum = 4
maximum = 1e3
[[knob]]
name = "threads"
apply = ["service-ctl", "threads", "{}"]
read = ["service-ctl", "threads"]
levels = [4, 8]
risk = "low"
needs_reboot = false
[[knob]]
name = "cache_size"
file = "/etc/service.conf"
template = "cache = {value}\\n"
levels = ["1g", "2g"]
[[knob]]
environment = "MALLOC_ARENA_MAX"
levels = ["", "2"]
[[guard]]
name = "queue"
command = ["service-ctl", "queue-length"]
at_most = 100
[[guard]]
metric = "p99_ns"
at_least = 0.5
"""
SOFTSKU = """
# Found by: steelyard tune
tuning = "tune-1"
workload = "tao"
metric = "requests_per_s"
[confirmed]
gain_ratio = 1.05
[[knob]]
name = "governor"
level = "performance"
was = "powersave"
[[knob.evidence]]
purpose = "screen"
low = 0.99
"""
TAX_RULES = """
[[category]]
id = "ours"
title = "Our library"
group = "tax"
[[rule]]
id = "crc"
category = "ours"
functions = ["crc32*", "*::checksum*"]
modules = ["libours.so*"]
callers = ["main"]
only = "leaf"
[[rule]]
id = "wrap"
ask = "caller"
fallback = "ours"
functions = ["wrap_*"]
"""
MAPPING = """
table = "task_samples"
delimiter = ","
[columns]
machine = "host"
platform = { value = "epyc" }
job = "service"
task = "pod"
job_class = { value = "batch" }
window_start_unix_s = { column = "when", time = "ms" }
window_s = { value = 60.0 }
cpu_s = { column = "cpu_ms", scale = 0.001 }
operations = "requests"
[labels]
version = "build"
"""
SOURCE = """
[identity]
machine = "{node}"
job = "{namespace}/{container}"
[queries]
cpu_s = 'sum by (node) (increase(my_cpu_seconds_total[${step}]))'
cpi = 'avg by (node) (cpi)'
"""


def _experiment(folder: Path) -> None:
    read_file(folder / "x.toml", ExperimentRequest(words=[], out=Path("runs")))


def readers() -> list[Reader]:
    """Return them."""
    rules = holding({"x.toml": TAX_RULES})
    return [
        Reader("experiment of factors", holding({"x.toml": EXPERIMENT}), _experiment),
        Reader("experiment of arms", holding({"x.toml": ARMS}), _experiment),
        Reader("knobs", holding({"x.toml": KNOBS}), lambda folder: read_user_file(folder / "x.toml")),
        Reader("soft SKU", holding({"x.toml": SOFTSKU}), lambda folder: read_softsku(folder / "x.toml")),
        Reader("tax rules", rules, lambda folder: rules_with([folder / "x.toml"])),
        Reader(
            "mapping", holding({"x.toml": MAPPING}), lambda folder: mapping.read_mapping(folder / "x.toml")
        ),
        Reader(
            "mapping of prometheus",
            holding({"x.toml": SOURCE}),
            lambda folder: prometheus.read_source("http://127.0.0.1:9", folder / "x.toml"),
        ),
    ]
