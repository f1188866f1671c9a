"""Benchmarks of Hadoop for real: whole runs, a direct computation, another cluster, and what dies."""

import bz2
import json
import os
import random
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from steelyard.bench.stack.recipe import payload_dir
from steelyard.benchmarks.hadoop.profile import PAYLOAD
from steelyard.records import Level, RunStatus
from tests.benchmarks.bayes import wiki_dump
from tests.benchmarks.hadoop import bayes_reference

TINY = ("pages=300", "slots=2", "heap=256MiB")
MANY = (*TINY, "rounds=1000")


@pytest.fixture
def data(tmp_path):
    if not (payload_dir(PAYLOAD) / ".installed").is_file():
        pytest.fail("Hadoop is not installed: scripts/install-test-packages --slow")
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def processes_of(live):
    """Return processes that name the run's folder: a task does not inherit the environment of a cluster."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(live.directory) in command:
            found[int(folder.name)] = command
    return found


def task_of(live):
    """Return the process of a running task."""
    every = processes_of(live).items()
    return next((pid for pid, command in every if "YarnChild" in command and "bash -c" not in command), None)


def checks_of(run):
    return {check.id: check for check in run.verdict.checks}


def ended(live):
    run = live.run()
    assert run.status is RunStatus.INCOMPLETE
    assert run.verdict is None
    assert run.metrics == {}
    return run.status_reason


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_index_is_the_same_with_other_settings(runner, data):
    live = runner.start(benchmark="nutch", settings=(*TINY, f"data={data}"))
    code, _, stderr = live.finish(280)
    # Other work on the machine makes the verdict invalid: that is 1.
    assert code in (0, 1), stderr
    assert processes_of(live) == {}
    run = live.run()
    assert {step.name for step in run.steps} == {"map", "reduce"}
    assert run.metrics["documents_per_s"].value > 0
    assert run.metrics["shuffle_bytes"].value > 0
    assert 0 < run.metrics["server_cpu_ratio"].value <= 1.05
    for name in ("result", "documents", "queries", "failed-tasks"):
        assert checks_of(run)[name].level is Level.VALID, name
    assert checks_of(run)["documents"].claim == "all 300 documents were indexed"
    missing = [metric.missing for metric in run.metrics.values() if metric.value is None]
    assert all(missing)
    page = (live.directory / "report.html").read_text()
    assert "Phases of jobs" in page
    assert not (live.directory / "scratch").exists()
    [crawl] = data.iterdir()
    # Other settings, other numbers of tasks, the same index. A result that is another one is seen.
    elsewhere = runner.out.parent / "other"
    other = runner.start(
        *("--out", str(elsewhere)),
        benchmark="nutch",
        settings=("pages=300", "profile=stock", "reduces=3", f"data={data}"),
    )
    assert other.finish(280)[0] in (0, 1)
    [folder] = elsewhere.iterdir()
    document = json.loads((folder / "rounds.json").read_text())
    first = json.loads((live.directory / "rounds.json").read_text())
    assert document["rounds"][0]["phases"]["reduce"]["tasks"] == 3
    assert document["results"]["first_run"] is False
    assert document["results"]["found"][0]["checksum"] == first["results"]["found"][0]["checksum"]
    assert json.loads((crawl / "result.json").read_text())["checksum"] == document["results"]["expected"]


VOCABULARY = [f"{first}{second}{third}" for first in "bdgk" for second in "aeiou" for third in "lmnrst"]


def make_corpus(folder):
    """Write three classes of short texts whose words overlap; return (class, file name, words)."""
    rng = random.Random(7)
    documents = []
    for at, label in enumerate(("north", "south", "west")):
        (folder / label).mkdir(parents=True)
        own = VOCABULARY[at * 25 : at * 25 + 60]
        for number in range(60 + 15 * at):
            words = [
                rng.choice(own if rng.random() < 0.35 else VOCABULARY) for _ in range(rng.randint(5, 40))
            ]
            name = f"{number:03d}.txt"
            (folder / label / name).write_text(" ".join(words).capitalize() + ".")
            documents.append((label, name, words))
    return documents


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_direct_computation_classifies_a_users_corpus_alike(runner, data, tmp_path):
    documents = make_corpus(tmp_path / "corpus")
    live = runner.start(
        benchmark="bayes",
        settings=(
            *("slots=2", "heap=256MiB", "training=0.5", "data_seed=3"),
            *(f"corpus={tmp_path / 'corpus'}", f"data={data}"),
        ),
    )
    code, _, stderr = live.finish(500)
    assert code in (0, 1), stderr
    parts = {True: [], False: []}
    for label, name, words in documents:
        parts[bayes_reference.is_training(f"{label}/{name}", 3, 0.5)].append((label, words))
    wanted = bayes_reference.confusion(parts[True], parts[False])
    document = json.loads((live.directory / "rounds.json").read_text())
    [result] = document["results"]["found"]
    found = Counter({tuple(names.split("\t")): count for names, count in result["confusion"].items()})
    assert result["documents"] == len(parts[False])
    assert found == wanted
    right = sum(count for (actual, taken_for), count in wanted.items() if actual == taken_for)
    run = live.run()
    assert run.metrics["accuracy_ratio"].value == pytest.approx(right / len(parts[False]))
    assert 0.5 < run.metrics["accuracy_ratio"].value < 1.0
    assert run.metrics["recognisable_ratio"].missing == "the texts are not generated"
    assert checks_of(run)["accuracy"].level is Level.VALID
    steps = [f"{job}_{phase}" for job in ("count", "train", "classify") for phase in ("map", "reduce")]
    assert [step.name for step in run.steps] == steps
    # A user's corpus leaves no copy.
    assert list(data.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_direct_computation_classifies_a_dump_alike(runner, data, tmp_path):
    text, articles, skipped = wiki_dump.make(pages=400)
    dump, categories = tmp_path / "wiki.xml.bz2", tmp_path / "categories.txt"
    dump.write_bytes(bz2.compress(text.encode()))
    categories.write_text(wiki_dump.LISTED)
    names = dict(zip(wiki_dump.LABELS, ("Towns, north of it", "south", "Far West & beyond"), strict=True))
    chosen = (
        *("slots=2", "heap=256MiB", "training=0.5", "data_seed=3"),
        *(f"corpus={dump}", f"categories={categories}", f"data={data}"),
    )
    live = runner.start(benchmark="bayes", settings=chosen)
    code, _, stderr = live.finish(400)
    assert code in (0, 1), stderr
    parts = {True: [], False: []}
    for label, title, words in articles:
        parts[bayes_reference.is_training(title, 3, 0.5)].append((names[label], words))
    document = json.loads((live.directory / "rounds.json").read_text())
    [result] = document["results"]["found"]
    found = Counter({tuple(each.split("\t")): count for each, count in result["confusion"].items()})
    assert found == bayes_reference.confusion(parts[True], parts[False])
    facts = document["data"]
    assert facts["labels"] == sorted(names.values())
    assert {reason: count for reason, count in facts["skipped"].items() if count} == skipped
    check = checks_of(live.run())["corpus"]
    assert check.claim.startswith(f"{len(articles)} of 400 documents of the corpus are classified; skipped: ")
    assert f"{skipped['redirects']} redirects" in (live.directory / "report.html").read_text()
    # The texts stay: a later run reads no dump, and has the same result.
    elsewhere = runner.out.parent / "other"
    again = runner.start("--out", str(elsewhere), benchmark="bayes", settings=chosen)
    assert again.finish(400)[0] in (0, 1)
    [folder] = elsewhere.iterdir()
    later = json.loads((folder / "rounds.json").read_text())
    assert later["data"]["made"] is False
    assert later["results"]["first_run"] is False
    assert later["results"]["found"][0]["confusion"] == result["confusion"]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("fault", ["cut off", "reader killed"])
def test_a_dump_that_is_not_read_to_its_end_is_no_corpus(runner, data, tmp_path, fault):
    text, _, _ = wiki_dump.make(pages=400)
    dump, categories = tmp_path / "wiki.xml", tmp_path / "categories.txt"
    categories.write_text(wiki_dump.LISTED)
    dump.write_text(text[:100_000] if fault == "cut off" else text)
    live = runner.start(
        benchmark="bayes",
        settings=(*("slots=2", "heap=256MiB", f"corpus={dump}", f"categories={categories}", f"data={data}"),),
    )
    if fault == "reader killed":
        # It waits for the driver, whose start takes a second.
        os.kill(live.until(lambda: live.pid_of("corpus"), 200), signal.SIGKILL)
    assert live.finish(200)[0] == 4
    messages = {"cut off": "is damaged or cut off after", "reader killed": "corpus was killed by SIGKILL"}
    assert messages[fault] in ended(live)
    assert list(data.iterdir()) == []
    assert not (live.directory / "scratch").exists()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("victim", ["task", "cluster", "orchestrator", "interrupt"])
def test_what_dies_in_the_measure_phase_leaves_nothing(runner, data, victim):
    live = runner.start(benchmark="nutch", settings=(*MANY, f"data={data}"))
    live.until(lambda: live.in_phase("measure"), 250)
    assert not live.unpacks_elsewhere()
    if victim == "task":
        task = live.until(lambda: task_of(live), 100)
        os.kill(task, signal.SIGKILL)
    elif victim == "interrupt":
        live.process.send_signal(signal.SIGINT)
    else:
        os.kill(live.pid_of("cluster") if victim == "cluster" else live.process.pid, signal.SIGKILL)
    code, _, _ = live.finish(100)
    assert code == (-signal.SIGKILL if victim == "orchestrator" else 4)
    live.until(lambda: not live.left() and not processes_of(live), 60)
    reason = ended(live)
    wanted = {
        "task": "task failed",
        "cluster": "cluster was killed by SIGKILL in phase measure",
        "orchestrator": "killed",
        "interrupt": "stopped by SIGINT in phase measure",
    }
    assert wanted[victim] in reason
    # A killed run cannot remove its data; the next start does.
    assert (live.directory / "scratch").exists() is (victim == "orchestrator")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_another_cluster_runs_the_jobs(runner, data, tmp_path):
    host = runner.start(benchmark="nutch", settings=(*MANY, "slots=3", f"data={data}"))
    host.until(lambda: host.in_phase("measure"), 250)
    configuration = tmp_path / "configuration"
    configuration.mkdir()
    shutil.copy(host.directory / "hadoop" / "cluster.xml", configuration / "yarn-site.xml")
    elsewhere = runner.out.parent / "other"
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    guest = runner.start(
        *("--out", str(elsewhere)),
        benchmark="nutch",
        settings=(*TINY, "rounds=1", f"cluster={configuration}", f"data={theirs}"),
    )
    code, _, stderr = guest.finish(280)
    assert code in (0, 1), stderr
    [folder] = elsewhere.iterdir()
    document = json.loads((folder / "run.json").read_text())
    assert document["metrics"]["server_cpu_ratio"]["missing"] == (
        "the cluster is not this machine: see task_cpu_ratio"
    )
    assert document["metrics"]["task_cpu_ratio"]["value"] > 0
    assert [process["name"] for process in document["processes"] if process["name"] == "cluster"] == []
    # Results are removed from the cluster's file system, data stay for the next run.
    assert [path.name for path in theirs.iterdir()] == ["v1-seed1-pages300"]
