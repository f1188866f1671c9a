"""Files of metrics: TOML, JSON and CSV, and what is wrong with them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import RecordError, SteelyardError, UsageError
from steelyard.decide.fidelity.of_file import read_profile_file
from steelyard.decide.fidelity.workload import Replicate

TOML = """
name = "cache-a"

[metrics]
throughput_per_s = 153000
frequency_hz = { value = 1.94, unit = "GHz" }
llc_mpki = [1.0, 1.2, 1.4]
l1i_mpki = { missing = "not sampled" }
cpu_user_ratio = { value = 31, unit = "%" }
latency_p99_ns = { values = [4, 5], unit = "ms", windows = true }
compaction_ratio = { value = 0.2, unit = "ratio" }

[functions]
memcpy = 0.12
"""
JSON = '{"name": "cache-a", "metrics": {"ipc": 1.5, "llc_mpki": {"value": 1.0, "unit": "MPKI"}}}'
CSV = """metric,unit,value,repeat
ipc,,1.5,1
ipc,,1.7,2
ipc,,1.6,3
memory_bytes_per_s,GB/s,19,
l1i_mpki,,,
functions:memcpy,,0.2,
"""


def written(folder: Path, text: str, ending: str = "toml") -> Path:
    path = folder / f"target.{ending}"
    path.write_text(text)
    return path


def test_toml(tmp_path: Path) -> None:
    found = read_profile_file(written(tmp_path, TOML))
    assert found.name == "cache-a"
    assert found.metrics["frequency_hz"].value == pytest.approx(1.94e9)
    assert found.metrics["llc_mpki"].value == pytest.approx(1.2)
    assert found.metrics["llc_mpki"].values == (1.0, 1.2, 1.4)
    assert found.metrics["llc_mpki"].replicate is Replicate.REPEAT
    assert found.metrics["latency_p99_ns"].values == pytest.approx((4e6, 5e6))
    assert found.metrics["latency_p99_ns"].replicate is Replicate.WINDOW
    assert found.metrics["cpu_user_ratio"].value == pytest.approx(0.31)
    assert found.why_missing("l1i_mpki") == "not sampled"
    assert found.metrics["compaction_ratio"].metric.group == "other"
    assert found.mixes["functions"].parts["memcpy"] == 0.12


def test_json(tmp_path: Path) -> None:
    found = read_profile_file(written(tmp_path, JSON, "json"))
    assert found.metrics["llc_mpki"].value == 1.0


def test_csv(tmp_path: Path) -> None:
    found = read_profile_file(written(tmp_path, CSV, "csv"))
    assert found.metrics["ipc"].values == (1.5, 1.7, 1.6)
    assert found.metrics["memory_bytes_per_s"].value == 19e9
    assert found.why_missing("l1i_mpki") == "the file has no value"
    assert found.mixes["functions"].parts["memcpy"] == 0.2


@pytest.mark.parametrize(
    ("text", "ending", "said"),
    [
        ("[metrics]\nipc = -1", "toml", "ipc: -1 is negative"),
        ("[metrics]\nipc = nan", "toml", "ipc: nan is no number"),
        ("[metrics]\nipc = inf", "toml", "ipc: inf is no number"),
        ("[metrics]\nipc = 'fast'", "toml", "ipc: 'fast' is no number"),
        ("[metrics]\nipc = true", "toml", "ipc: True is no number"),
        ("[metrics]\nipz = 1.3", "toml", "unknown metric 'ipz', did you mean ipc"),
        ("[metrics]\nipc = []", "toml", "ipc has no value"),
        ("[metrics]\ncpu_user_ratio = 31", "toml", "cpu_user_ratio: 31 is more than the whole"),
        ("[metrics]\nfrequency_hz = { value = 2, unit = 'GB/s' }", "toml", "frequency_hz is in hz, not in"),
        ("[metrics]\nipc = 1\nipc = 2", "toml", "ipc|overwrite"),
        ("[metrics]\nfunctions = 0.5", "toml", "functions is a table of shares"),
        ("[metrics]\nipc = { valeu = 1 }", "toml", "ipc has no 'valeu'"),
        ("[functions]\na = 0.8\nb = 0.8", "toml", "functions: its parts sum up to 1.6"),
        ("", "toml", "states no metrics"),
        ("metrics = 3", "toml", "metrics must be a table"),
        ("[metric]\nipc = 1", "toml", "unknown key 'metric'"),
        ('{"metrics": {"ipc": 1, "ipc": 2}}', "json", "ipc is stated twice"),
        ("[1, 2]", "json", "a table of metrics is expected"),
        ("metric,value\nipc,1\nipc,2\n", "csv", "ipc is stated twice"),
        ("name,number\nipc,1\n", "csv", "the columns metric and value are needed"),
        ("metric,value,unit,repeat\nipc,1,,1\nipc,2,ms,2\n", "csv", "ipc is in None and in ms"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, ending: str, said: str) -> None:
    with pytest.raises((UsageError, RecordError), match=said):
        read_profile_file(written(tmp_path, text, ending))


@given(text=st.text(max_size=200), ending=st.sampled_from(["toml", "json", "csv"]))
def test_any_text_is_a_profile_or_an_error_of_one_line(
    text: str, ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("profiles") / f"target.{ending}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read_profile_file(path)
    except SteelyardError as error:
        said = error.message
    else:
        said = ""
    assert "\n" not in said
