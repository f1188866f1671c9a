"""Every setting of a stack stands in a file of ``workloads``, with its reason."""

import re
import tomllib

import pytest

from steelyard._base import workloads_dir
from steelyard.bench.stack.tuning import flags, read_tuning

WORKLOADS = workloads_dir()
TUNINGS = sorted(path.parent.name for path in WORKLOADS.glob("*/tuning.toml"))
LISTS = sorted(
    str(path.relative_to(WORKLOADS))
    for pattern in ("cassandra/profiles/*.toml", "hadoop/settings.toml", "rocksdb/flags.toml")
    for path in WORKLOADS.glob(pattern)
)
COMMENTED = (
    "memcached/profiles.toml",
    "redis/stock.conf",
    "redis/tuned.conf",
    "spark/conf/spark-defaults.conf",
)
MEANT_BY_THE_RUN = (
    "daemon",
    "default_type",
    "fastcgi_param",
    "include",
    "index",
    "pid",
    "return",
    "server_name",
)
"""Directives of nginx that say what the wiki is, not how it is tuned."""


@pytest.mark.parametrize("workload", TUNINGS)
def test_each_setting_of_a_program_has_its_reason(workload):
    document = tomllib.loads((WORKLOADS / workload / "tuning.toml").read_text())
    for program, settings in document.items():
        for name, entry in settings.items():
            assert set(entry) == {"value", "why"}, (program, name)
            assert len(entry["why"]) > 15, (program, name)


@pytest.mark.parametrize("file", LISTS)
def test_each_setting_of_a_list_has_its_reason(file):
    document = tomllib.loads((WORKLOADS / file).read_text())
    [entries] = [value for value in document.values() if isinstance(value, list)]
    assert entries
    assert all(len(entry["reason"]) > 5 for entry in entries)


@pytest.mark.parametrize("file", COMMENTED)
def test_each_group_of_settings_has_a_comment_above_it(file):
    above = ""
    for line in (WORKLOADS / file).read_text().splitlines():
        is_setting = line.strip() and not line.startswith(("#", "["))
        assert not is_setting or above.strip(), line
        above = "" if line.startswith("[") else line


def test_nginx_gets_every_figure_from_the_tuning():
    """As a literal it would have no reason."""
    for line in (WORKLOADS / "mediawiki/nginx.conf").read_text().splitlines():
        found = re.fullmatch(r"\s*([a-z_]+) (.*);", line)
        if found and found[1] not in MEANT_BY_THE_RUN:
            assert not re.search(r"(?<![@\w.])(on|off|\d+[km]?)(?![\w@.])", found[2]), line


def test_flags_are_filled_in():
    found = flags(read_tuning("django")["memcached"], {"cache_mib": "64", "connections": "1040"})
    assert found == ["-m", "64", "-c", "1040", "-t", "4"]
