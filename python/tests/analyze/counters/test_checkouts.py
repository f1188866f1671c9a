"""Checkouts of others' definitions: each layout reads, and malformed files are reported in one line."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard._base import SteelyardError, UsageError
from steelyard.analyze.counters.checkouts import load_definitions
from steelyard.analyze.counters.choice import MachineFacts, choose, fits
from steelyard.analyze.counters.metrics import metrics_of
from steelyard.telemetry.counters import Gain, Gains
from tests.analyze.counters.test_choice import machine


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def gains(**counts: float) -> Gains:
    return Gains("system", "", 2.0, {name.replace("__", "."): Gain(count) for name, count in counts.items()})


CORE = [
    {"EventCode": "0x00", "UMask": "0x01", "EventName": "INST_RETIRED.ANY", "Counter": "Fixed counter 0"},
    {
        "EventCode": "0x00",
        "UMask": "0x02",
        "EventName": "CPU_CLK_UNHALTED.THREAD",
        "Counter": "Fixed counter 1",
    },
    {
        "EventCode": "0xB7, 0xBB",
        "UMask": "0x01",
        "EventName": "OCR.SOMETHING",
        "MSRIndex": "0x1a6,0x1a7",
        "MSRValue": "0x10003",
        "CounterMask": "0",
        "Invert": "0",
        "EdgeDetect": "0",
    },
    {"EventCode": "0x9C", "UMask": "0x01", "EventName": "IDQ.NONE", "CounterMask": "4", "EdgeDetect": "1"},
]


def perfmon(root: Path) -> Path:
    """Intel's layout: a map, and a folder with events and metrics for each family."""
    write(
        root / "mapfile.csv",
        "Family-model,Version,Filename,EventType,Core Type,Native Model ID,Core Role Name\n"
        "GenuineIntel-6-55-[01234],V1.1,/SKX/events/skylakex_core.json,core,,,\n"
        "GenuineIntel-6-55-[01234],V1.1,/SKX/events/skylakex_uncore.json,uncore,,,\n"
        "GenuineIntel-6-9A,V1.1,/ADL/events/alderlake_goldencove_core.json,hybridcore,0x40,0x000001,Core\n",
    )
    write(root / "SKX/events/skylakex_core.json", {"Header": {"Version": "1"}, "Events": CORE})
    uncore = [{"Unit": "iMC", "EventCode": "0x4", "UMask": "0x3", "EventName": "UNC_M_CAS_COUNT.RD"}]
    write(root / "SKX/events/skylakex_uncore.json", {"Events": uncore})
    metrics = [
        {
            "MetricName": "metric_CPI",
            "UnitOfMeasure": "per instr",
            "Events": [
                {"Name": "CPU_CLK_UNHALTED.THREAD", "Alias": "a"},
                {"Name": "INST_RETIRED.ANY", "Alias": "b"},
            ],
            "Constants": [],
            "Formula": "a / b",
        },
        {
            "MetricName": "metric_memory_read",
            "UnitOfMeasure": "MB/sec",
            "Events": [{"Name": "UNC_M_CAS_COUNT.RD", "Alias": "a"}],
            "Constants": [{"Name": "DURATIONTIMEINSECONDS", "Alias": "durationtimeinseconds"}],
            "Formula": "(a * 64 / 1000000) / durationtimeinseconds",
        },
        {
            "MetricName": "metric_per_core",
            "Events": [{"Name": "INST_RETIRED.ANY", "Alias": "a"}],
            "Constants": [
                {"Name": "HYPERTHREADING_ON", "Alias": "b"},
                {"Name": "system.odd[0]", "Alias": "c"},
            ],
            "Formula": "a / 2 if b else c",
        },
        {"MetricName": "metric_odd", "Events": [], "Formula": "a ? b : c"},
    ]
    write(root / "SKX/metrics/skylakex_metrics.json", {"Header": {}, "Metrics": metrics})
    return root


def test_intels_layout(tmp_path: Path) -> None:
    found = load_definitions(perfmon(tmp_path))
    assert list(found) == ["skx"]
    skx = found["skx"]
    assert skx.events["INST_RETIRED.ANY"].encoding == "cpu/event=0xc0/"
    assert skx.events["INST_RETIRED.ANY"].fixed
    assert skx.events["OCR.SOMETHING"].encoding == "cpu/event=0xb7,umask=0x1,offcore_rsp=0x10003/"
    assert skx.events["IDQ.NONE"].encoding == "cpu/event=0x9c,umask=0x1,cmask=0x4,edge=0x1/"
    assert skx.events["UNC_M_CAS_COUNT.RD"].encoding == "uncore_imc/event=0x4,umask=0x3/"
    counts = {"INST_RETIRED__ANY": 4e9, "CPU_CLK_UNHALTED__THREAD": 2e9, "UNC_M_CAS_COUNT__RD": 1e6}
    values = metrics_of(skx, gains(**counts), MachineFacts(smt_on=True))
    assert values["metric_CPI"].value == 0.5
    assert values["metric_memory_read"].value == pytest.approx(32.0)
    assert values["metric_per_core"].value == 2e9
    off = metrics_of(skx, gains(**counts), MachineFacts(smt_on=False))["metric_per_core"]
    assert off.missing == "#odd_0_ of the machine is not known"
    assert values["metric_odd"].missing
    assert fits(skx, "GenuineIntel-6-55-4")
    assert not fits(skx, "GenuineIntel-6-55-7")


def test_a_plan_from_a_checkout(tmp_path: Path) -> None:
    found = load_definitions(perfmon(tmp_path))
    here = machine("GenuineIntel-6-55-3", ["cpu", "software", "uncore_imc_0"], threads_per_core=2)
    choice = choose(here, among=found)
    assert choice.definition.id == "skx"
    assert {event.name for event in choice.plan.events} >= {"UNC_M_CAS_COUNT.RD", "INST_RETIRED.ANY"}
    other = choose(machine("GenuineIntel-6-6A-6", ["cpu"]), among=found)
    assert (other.definition.id, other.reason) == ("generic", "no definition is for GenuineIntel-6-6A-6")


def kernel(root: Path) -> Path:
    """The kernel's layout: a map for each architecture, folders, events that others refer to."""
    write(
        root / "arch/x86/mapfile.csv",
        "Family-model,Version,Filename,EventType\n"
        "GenuineIntel-6-8F,v1.1,sapphirerapids,core\n"
        "AuthenticAMD-25-[[:xdigit:]]+,v1,amdzen4,core\n",
    )
    write(root / "arch/x86/sapphirerapids/pipeline.json", CORE)
    metrics = [
        {"MetricName": "ipc", "MetricExpr": "INST_RETIRED.ANY / CPU_CLK_UNHALTED.THREAD"},
        {"MetricName": "cpi_percent", "MetricExpr": "1 / ipc", "ScaleUnit": "100%"},
        {"MetricName": "again", "MetricExpr": "cpi_percent * 2", "ScaleUnit": "1e3per_1k_instr"},
        {"MetricName": "loop", "MetricExpr": "loop + 1"},
        {"MetricName": "clock", "MetricExpr": "msr@tsc@ / duration_time / 1e9", "ScaleUnit": "1GHz"},
    ]
    write(root / "arch/x86/sapphirerapids/spr-metrics.json", metrics)
    umc = [{"EventName": "umc_cas_cmd.rd", "EventCode": "0x0a", "RdWrMask": "0x1", "Unit": "UMCPMC"}]
    write(root / "arch/x86/amdzen4/memory-controller.json", umc)
    write(
        root / "arch/arm64/mapfile.csv",
        "# Format:\n#\n0x00000000410fd0c0,v1,arm/neoverse-n1,core\n",
    )
    write(root / "arch/arm64/recommended.json", [{"EventCode": "0x08", "EventName": "INST_RETIRED"}])
    n1 = [{"ArchStdEvent": "INST_RETIRED", "PublicDescription": "..."}, {"ArchStdEvent": "UNKNOWN"}]
    write(root / "arch/arm64/arm/neoverse-n1/retired.json", n1)
    write(root / "arch/s390/mapfile.csv", "^IBM.281[78].*[13]\\.[1-5].[[:xdigit:]]+$,1,cf_z10,core\n")
    return root


def test_the_kernels_layout(tmp_path: Path) -> None:
    found = load_definitions(kernel(tmp_path))
    assert sorted(found) == ["amdzen4", "arm-neoverse-n1", "sapphirerapids"]
    assert found["arm-neoverse-n1"].events["INST_RETIRED"].encoding == "armv8_pmuv3/event=0x8/"
    assert fits(found["arm-neoverse-n1"], "0x00000000413fd0c1")
    assert found["amdzen4"].events["umc_cas_cmd.rd"].encoding == "amd_umc/event=0xa,rdwrmask=0x1/"
    assert fits(found["amdzen4"], "AuthenticAMD-25-11-1")
    spr = found["sapphirerapids"]
    counts = {"INST_RETIRED__ANY": 4e9, "CPU_CLK_UNHALTED__THREAD": 2e9, "msr/tsc/": 4e9}
    values = metrics_of(spr, gains(**counts))
    assert (values["cpi_percent"].value, values["cpi_percent"].unit) == (50.0, "%")
    # A metric in a formula is without its scale, as perf has it.
    assert values["again"].value == pytest.approx(1000.0)
    assert values["clock"].value == pytest.approx(2.0)
    assert values["loop"].missing == "the metric loop refers to itself"
    assert sorted(load_definitions(tmp_path / "arch/x86")) == ["amdzen4", "sapphirerapids"]
    assert sorted(load_definitions(tmp_path / "arch")) == sorted(found)


def test_arms_layout(tmp_path: Path) -> None:
    write(
        tmp_path / "data/pmu/cpu/neoverse/neoverse-v2.json",
        {
            "product_configuration": {
                "product_name": "Neoverse V2",
                "part_num": "0xd4f",
                "implementer": "0x41",
                "num_slots": 8,
            },
            "events": {"CPU_CYCLES": {"code": "0x0011"}, "STALL_SLOT_BACKEND": {"code": "0x003d"}},
            "metrics": {
                "backend_bound": {
                    "formula": "100 * (STALL_SLOT_BACKEND / (CPU_CYCLES * 8))",
                    "units": "percent of slots",
                },
                "broken": {"formula": "(((", "units": ""},
            },
        },
    )
    write(tmp_path / "data/pmu/cpu/schema.json", {"type": "object"})
    found = load_definitions(tmp_path)
    v2 = found["arm-neoverse-v2"]
    assert v2.slots == 8
    value = metrics_of(v2, gains(CPU_CYCLES=1000.0, STALL_SLOT_BACKEND=2000.0))["backend_bound"]
    assert (value.value, value.unit) == (25.0, "percent of slots")
    assert "broken" in v2.missing
    assert fits(v2, "0x00000000410fd4f1")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("SKX/events/skylakex_core.json", "{", "not JSON"),
        ("SKX/events/skylakex_core.json", "[" * 100_000, "not JSON"),
        ("SKX/events/skylakex_core.json", "3", "neither events nor metrics"),
        ("SKX/events/skylakex_core.json", '[{"EventName": "A", "EventCode": "x"}]', "'A'"),
        (
            "SKX/events/skylakex_core.json",
            '{"Metrics": [{"MetricName": "M", "Formula": "a", "Events": [1]}]}',
            "'M'",
        ),
        ("mapfile.csv", "GenuineIntel-6-55,v1\n", "2 columns"),
        ("mapfile.csv", "GenuineIntel-6-55,v1,../../etc,core\n", "leads out of the folder"),
        ("mapfile.csv", "(a*)*$,v1,/SKX/events/skylakex_core.json,core\n", "no pattern"),
        ("mapfile.csv", "GenuineIntel-6-[,v1,/SKX/events/skylakex_core.json,core\n", "no pattern"),
        ("mapfile.csv", "GenuineIntel-6-55,v1,/SKX/events/absent.json,core\n", "No such file"),
        ("mapfile.csv", "Family-model,Version,Filename,EventType\n", "no definitions"),
    ],
)
def test_malformed_files_are_reported_in_a_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    write(perfmon(tmp_path) / name, content)
    with pytest.raises(SteelyardError, match=message) as error:
        load_definitions(tmp_path)
    assert "\n" not in error.value.message


def test_a_folder_that_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no definitions of events"):
        load_definitions(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        load_definitions(tmp_path / "absent")


KEYS = (
    "Events Metrics EventName EventCode UMask MSRIndex Unit MetricName MetricExpr Formula Alias Name"
    " ScaleUnit product_configuration part_num events metrics code formula"
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.just("0x1")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=15,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(json_values, st.sampled_from(["map", "arm"]))
def test_any_json_is_read_or_reported(tmp_path: Path, content: object, layout: str) -> None:
    root = tmp_path / layout
    write(root / "x/events/core.json", content)
    if layout == "map":
        write(root / "mapfile.csv", "GenuineIntel-6-55,v1,/x/events/core.json,core\n")
    try:
        load_definitions(root)
    except SteelyardError as error:
        assert "\n" not in error.message  # noqa: PT017
