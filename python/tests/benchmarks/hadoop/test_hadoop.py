"""Benchmarks of Hadoop: settings on machines of any size, reports of jobs, checks, and what is refused."""

import json
import re
import shutil
import socket
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError, schemas_dir, workloads_dir
from steelyard.analyze.pressure.matrix import published
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.bench.tiers import suites
from steelyard.benchmarks.bayes.benchmark import BayesBench, accuracy_check
from steelyard.benchmarks.hadoop import benchmark as shared
from steelyard.benchmarks.hadoop import cluster, parameters
from steelyard.benchmarks.hadoop import section as report
from steelyard.benchmarks.hadoop.jobs import round_of
from steelyard.benchmarks.hadoop.metrics import documents_check, result_check, round_metrics, tasks_check
from steelyard.benchmarks.hadoop.profile import PROFILES, load_settings
from steelyard.benchmarks.nutch.benchmark import NutchBench, queries_check
from steelyard.records import Level, Machine, read

GIB = 1 << 30
MIB = 1 << 20
MACHINE = read(Machine, schemas_dir() / "golden" / "machine.json")
HADOOP = workloads_dir() / "hadoop"
BENCHES = {"nutch": NutchBench, "bayes": BayesBench}


def settings_on(bench=NutchBench, *, cpus=8, memory_bytes=64 * GIB, tier="smoke", **chosen):
    memory = MACHINE.memory.model_copy(update={"total_bytes": memory_bytes, "limit_bytes": None})
    machine = MACHINE.model_copy(update={"memory": memory})

    def suggest(known):
        placed = Placement(tuple(range(cpus)), ())
        return {"seed": 1, **bench.suggest(known, machine=machine, tier=tier, placement=placed)}

    texts = {name: str(value) for name, value in chosen.items()}
    return Settings.resolve(bench.parameters, texts, suggest, owner="hadoop"), machine


# Settings


@given(
    st.integers(1, 1000),
    st.integers(6 * GIB, 1 << 45),
    st.sampled_from(sorted(BENCHES)),
    st.sampled_from(PROFILES),
    st.sampled_from(["smoke", "quick", "full"]),
)
def test_settings_fit_any_machine(cpus, memory_bytes, name, profile, tier):
    settings, machine = settings_on(
        BENCHES[name], cpus=cpus, memory_bytes=memory_bytes, tier=tier, profile=profile
    )
    assert parameters.memory_needed_bytes(settings) <= available_memory_bytes(machine)
    parameters.check_memory(settings, machine)
    assert settings["slots"] <= (cpus if profile == "tuned" else 6)
    assert settings["reduces"] == (settings["slots"] if profile == "tuned" else 1)
    found = parameters.hadoop_settings(settings, 10**9, ("cluster", "job"))
    node = int(found["yarn.nodemanager.resource.memory-mb"])
    left = node - parameters.master_mib(settings)
    assert left // parameters.container_mib(settings) == settings["slots"]
    assert not [value for value in found.values() if re.search(r"[{}]", value)]


def test_the_tuned_profile_is_the_papers_recipe():
    for name, heap in (("nutch", "1200"), ("bayes", "800")):
        settings, _ = settings_on(BENCHES[name], cpus=16)
        found = parameters.hadoop_settings(settings, 10**9, ("cluster", "job"))
        assert settings["slots"] == 16
        assert found["mapreduce.map.java.opts"].startswith(f"-Xmx{heap}m")
        assert float(found["mapreduce.job.reduce.slowstart.completedmaps"]) > 0.05
        assert int(found["mapreduce.job.reduces"]) > 1
        assert found["mapreduce.map.output.compress"] == "true"


def test_the_stock_profile_leaves_tasks_as_they_come():
    settings, _ = settings_on(profile="stock")
    found = parameters.hadoop_settings(settings, 10**9, ("cluster", "job"))
    assert found["yarn.nodemanager.resource.memory-mb"] == "8192"
    assert found["mapreduce.job.reduces"] == "1"
    assert not [name for name in found if "java.opts" in name or "compress" in name or ".sort." in name]


def test_every_setting_has_a_reason_and_stands_once():
    for profile in PROFILES:
        values = dict.fromkeys(
            ("reduces", "container_mib", "heap_mib", "sort_mib", "split_bytes", "master_mib", "node_mib"), 1
        )
        settings = load_settings(profile, values)
        assert len({setting.name for setting in settings}) == len(settings)
        assert all(len(setting.reason) > 5 for setting in settings)


def test_the_full_tiers_are_the_papers_sizes():
    assert settings_on(tier="full")[0]["pages"] == 10_000_000
    assert BayesBench.data_bytes(settings_on(BayesBench, tier="full")[0]) == pytest.approx(45e9, rel=0.01)


def test_both_are_members_of_the_suite_and_in_table_4():
    assert {"nutch", "bayes"} <= set(suites()["characterization"].benchmarks)
    assert {"nutch", "bayes"} <= published().keys()


@pytest.mark.parametrize(("bench", "size"), [(NutchBench, "pages"), (BayesBench, "documents")])
def test_a_size_that_the_disk_does_not_hold_is_refused(tmp_path, bench, size):
    free = shutil.disk_usage(tmp_path).free
    settings, _ = settings_on(bench, data=tmp_path, directory=tmp_path, **{size: free // 2000})
    with pytest.raises(EnvironmentLacksError, match=rf"{size}=.* needs about .* of disk space") as raised:
        bench.check_space(settings)
    assert f"{size}=" in raised.value.hint
    small, _ = settings_on(bench, data=tmp_path, directory=tmp_path)
    bench.check_space(small)
    demands = bench.footprint(small, placement=None).disks
    assert {disk.folder for disk in demands} >= {tmp_path}
    assert all(disk.size_bytes > 0 for disk in demands)


def test_memory_that_is_not_there_is_refused():
    settings, machine = settings_on(memory_bytes=8 * GIB, slots=6)
    with pytest.raises(EnvironmentLacksError, match=r"slots=6 .* more than the 8192 MiB"):
        parameters.check_memory(settings, machine)


def test_a_corpus_without_classes_is_refused(tmp_path):
    (tmp_path / "one").mkdir()
    settings, _ = settings_on(BayesBench, corpus=tmp_path)
    with pytest.raises(EnvironmentLacksError, match="no two folders of classes"):
        BayesBench.check_corpus(settings)


# The machine


def java_of(folder, version):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)


@pytest.fixture
def javas(monkeypatch, tmp_path):
    """Only the versions of Java that a test makes are there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("STEELYARD_JVMS", str(tmp_path / "jvms"))
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path / "stacks"))
    return tmp_path / "jvms"


@pytest.mark.parametrize("versions", [(), ("1.8.0_392",), ("25.0.1",)])
def test_without_a_java_that_fits_the_versions_here_are_named(javas, versions):
    for version in versions:
        java_of(javas / version, version)
    settings, machine = settings_on()
    java = versions[0] if versions else "there is no Java"
    with pytest.raises(
        EnvironmentLacksError, match=f"Hadoop 3.4 needs Java 17 or 21, and .*{java}"
    ) as raised:
        NutchBench.checks(settings, machine=machine)
    assert raised.value.hint == "steelyard install nutch"


def test_what_is_not_installed_is_named(javas):
    java_of(javas / "17", "17.0.15")
    settings, machine = settings_on(BayesBench)
    with pytest.raises(EnvironmentLacksError, match="the files of hadoop") as raised:
        BayesBench.checks(settings, machine=machine)
    assert raised.value.hint == "steelyard install bayes"


def test_a_port_that_is_taken_is_refused(monkeypatch, javas, tmp_path):
    java_of(javas / "17", "17.0.15")
    monkeypatch.setattr(shared, "require", lambda recipe, benchmark: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings, machine = settings_on(data=tmp_path, directory=tmp_path, port=port)
        with pytest.raises(EnvironmentLacksError, match=f"port {port} of 127.0.0.1 cannot be used"):
            NutchBench.checks(settings, machine=machine)


# Clusters


def site(folder, **properties):
    lines = "".join(
        f"<property><name>yarn.resourcemanager.{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    (folder / "yarn-site.xml").write_text(f"<configuration>{lines}</configuration>")


def test_a_cluster_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has no yarn-site"):
        parameters.check_cluster(str(tmp_path))
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    with pytest.raises(UsageError, match="cannot be read"):
        parameters.check_cluster(str(tmp_path))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        # It does not listen: nobody answers, and nobody else gets the port.
        site(tmp_path, address=f"127.0.0.1:{probe.getsockname()[1]}")
        with pytest.raises(EnvironmentLacksError, match=r"no resource manager answers at 127\.0\.0\.1:\d+"):
            parameters.check_cluster(str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        site(tmp_path, address=address)
        parameters.check_cluster(str(tmp_path))
        # Of two that stand in for each other one is enough.
        site(tmp_path, **{"ha.rm-ids": "a,b", "address.a": "127.0.0.1:1", "address.b": address})
        parameters.check_cluster(str(tmp_path))


def test_sites_hold_what_was_set(tmp_path):
    cluster._site(tmp_path / "x.xml", {"a.b": "1 < 2 & 3"})
    [each] = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert (each.findtext("name"), each.findtext("value")) == ("a.b", "1 < 2 & 3")


def test_services_listen_on_loopback():
    addresses = cluster._addresses(0)
    assert {value for name, value in addresses.items() if name.endswith("address")} == {"127.0.0.1:0"}
    assert cluster._addresses(4711)["yarn.resourcemanager.address"] == "127.0.0.1:4711"


# Reports of jobs


def phase(*spans, **counters):
    names = (
        *("tasks", "cpu_ms", "gc_ms", "input_records", "input_bytes", "output_records", "output_bytes"),
        *("spilled_records", "shuffled_bytes", "file_read_bytes", "file_written_bytes"),
    )
    return {
        **dict.fromkeys(names, 0),
        "tasks": len(spans),
        "spans_ms": [list(span) for span in spans],
        **counters,
    }


MAPS = phase(
    (1000, 1400), (1000, 1500), cpu_ms=800, gc_ms=90, input_bytes=6000, output_records=10, spilled_records=20
)
REDUCES = phase((1300, 2000), cpu_ms=400, input_records=10, shuffled_bytes=500, spilled_records=10)


def run_event(*jobs, failed=0):
    return {
        "name": "run-1",
        "begin_ns": 0,
        "end_ns": 1_300_000_000,
        "jobs": [
            {"name": name, "end_ms": 2000, "failed_attempts": failed, "phases": phases}
            for name, phases in jobs
        ],
    }


ROUND = round_of(run_event(("index", {"map": MAPS, "reduce": REDUCES})), offset_ns=-(10**9))


def test_reduce_tasks_that_waited_for_map_tasks_count_from_their_end():
    phases = dict(ROUND.phases())
    assert (phases["map"].begin_ns, phases["map"].end_ns) == (0, 500_000_000)
    assert (phases["reduce"].begin_ns, phases["reduce"].end_ns) == (500_000_000, 1_000_000_000)
    # The job's end is the history's, not when the client noticed.
    assert ROUND.end_ns == 1_000_000_000


def test_phases_of_several_jobs_bear_their_names():
    several = round_of(run_event(("count", {"map": MAPS}), ("train", {"map": MAPS, "reduce": REDUCES})), 0)
    assert [name for name, _ in several.phases()] == ["count_map", "train_map", "train_reduce"]


def test_metrics_are_of_all_phases():
    values = {name: metric.value for name, metric in round_metrics([ROUND, ROUND], 2, 50).items()}
    assert values["documents_per_s"] == 50
    assert values["jobs_per_hour"] == 3600
    assert values["input_bytes_per_s"] == 6000
    assert values["shuffle_bytes"] == 500
    assert values["spilled_records"] == 30
    assert values["spilled_ratio"] == 3
    assert values["gc_ratio"] == pytest.approx(0.09 / 1.6)
    assert values["task_cpu_ratio"] == pytest.approx(1.2 / 2)
    assert values["map_cpu_ratio"] == pytest.approx(0.8)
    assert values["reduce_s"] == pytest.approx(0.5)


@pytest.mark.parametrize("damage", [{"jobs": [{}]}, {"jobs": 3}, {"end_ns": "x"}])
def test_a_malformed_report_is_named(damage):
    with pytest.raises(WorkloadFailedError, match="report of a round cannot be read"):
        round_of({**run_event(("index", {"map": MAPS})), **damage}, 0)


# Checks


def results(*found, expected="ab", first=False):
    return {"found": list(found), "expected": expected, "first_run": first}


def indexed(checksum="ab", documents=9, hits=3):
    queries = [{"query": "koto", "hits": hits, "expected": 3}]
    return {"name": "run-1", "checksum": checksum, "documents": documents, "queries": queries}


def test_wrong_results_are_invalid():
    good = results(indexed(), first=True)
    assert result_check(good).level is Level.VALID
    assert documents_check(good, 9, "indexed").claim == "all 9 documents were indexed"
    assert "made for them: 3" in queries_check(good).claim
    wrong = results(indexed(), indexed(checksum="cd", documents=8, hits=2))
    for check in (result_check(wrong), documents_check(wrong, 9, "indexed"), queries_check(wrong)):
        assert check.level is Level.INVALID
    assert "finds 2 pages of 3" in queries_check(wrong).claim
    assert "indexed 8 of 9" in documents_check(wrong, 9, "indexed").claim


def test_failed_tasks_are_invalid():
    assert tasks_check([ROUND]).claim == "all 3 tasks succeeded"
    assert tasks_check([round_of(run_event(("index", {"map": MAPS}), failed=1), 0)]).level is Level.INVALID


@pytest.mark.parametrize(
    ("right", "best", "level"),
    [
        (80, 0.88, Level.VALID),
        (40, 0.88, Level.INVALID),
        # Better than who knows how the documents were made: something was counted wrongly.
        (95, 0.88, Level.INVALID),
        (31, None, Level.VALID),
        (30, None, Level.INVALID),
    ],
)
def test_accuracy_has_a_band(right, best, level):
    assert accuracy_check({"right": right, "largest_class": 30}, 100, best).level is level


# The page


def test_a_page_without_rounds_says_so(tmp_path):
    sections = report.sections(SimpleNamespace(folder=tmp_path, steps=()))
    assert sections[0].charts[0].missing
    assert sections[1].tables[0].rows == ()


def test_a_page_shows_phases_queries_and_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_running", lambda data, rounds: None)
    confusion = {"a\ta": 8, "a\tb": 2, "b\tb": 5}
    document = {
        "slots": 2,
        "rounds": [ROUND.as_document()],
        "results": results({**indexed(), "confusion": confusion}),
    }
    (tmp_path / "rounds.json").write_text(json.dumps(document))
    _, phases, queries, classes = report.sections(SimpleNamespace(folder=tmp_path))
    assert [row[1].text for row in phases.tables[0].rows] == ["map tasks", "reduce tasks"]
    assert [cell.text for cell in queries.tables[0].rows[0]] == ["run-1", "koto", "3", "3"]
    rows = [[cell.text for cell in row] for row in classes.tables[0].rows]
    assert [(row[0], row[3]) for row in rows] == [("a", "b"), ("b", "none")]


# The payload


def test_every_jar_is_pinned_and_no_host_is_named():
    lines = (HADOOP / "jars.sha256").read_text().splitlines()
    names = [line.split("  ")[1] for line in lines]
    assert len(set(names)) == len(names) > 100
    assert all(re.fullmatch(r"[0-9a-f]{64}  \S+\.jar", line) for line in lines)
    pom = ElementTree.parse(HADOOP / "pom.xml").getroot()
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    for each in pom.findall(".//m:dependency", space):
        name = f"{each.findtext('m:artifactId', None, space)}-{each.findtext('m:version', None, space)}.jar"
        assert name in names
