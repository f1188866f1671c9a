"""One page of each command that compares, with a name from outside wherever its record has one."""

import csv
import itertools
import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steelyard._base import schemas_dir
from steelyard.cli.main import invoke
from steelyard.cli.tune.make import show_tuning
from steelyard.records import Check, Colocation, Level, Phase, Run, Suite, Verdict, read, write
from steelyard.records.tuning import Tuning
from steelyard.report.answer.page import write_page
from steelyard.report.colocation.answer import answer
from tests.cli.suites import write_suite
from tests.report.runs import write_run

GOLDEN = schemas_dir() / "golden"
PAGE = "page.html"


def answered(words: list[str], path: Path) -> Path:
    """Run a command that writes a page; its answer may be no."""
    code = invoke([*words, "--report", str(path)])
    assert code in (0, 1), f"{words[:2]} ended with {code}"
    return path


def runs_compared(folder: Path, name: str) -> Path:
    """Write the page that compares two runs of different settings."""
    sides = []
    for side, scale in (("a", 1.0), ("b", 1.3)):
        changes = {
            "benchmark": f"tao{name}",
            "hooks": {f"{side}{name}": {}},
            "parameters": {f"depth{name}": {"value": f"{side}{name}", "source": "set"}},
            "metrics": {f"rate{name}": {"value": 100 * scale, "unit": "1/s", "better": "higher"}},
            "verdict": Verdict.of([Check(id=f"x{name}", level=Level.SUSPECT, claim=name)]),
        }
        run = write_run(folder / side, scale=scale, without=("telemetry",), comm=name, changes=changes)
        stacks = f"{name};main [{name}];{side}{name.replace(';', ':')} [x]"
        (run / "profile.folded").write_text(f"{stacks} 1000\nb;main [b] 500\n")
        sides.append(str(run))
    return answered(["compare", *sides], folder / PAGE)


def suites_compared(folder: Path, name: str) -> Path:
    """Write the page that compares two suites."""
    sides = []
    for side, scale in (("a", 1.0), ("b", 1.3)):
        where = write_suite(folder / side, ("tao", "feed"), scale=scale)
        suite = read(Suite, where / "suite.json")
        members = [
            one.model_copy(update={"benchmark": f"{one.benchmark}{name}", "refused": name})
            for one in suite.members
        ]
        update = {"members": members, "suite_id": f"{side}{name}", "command": [side, name]}
        write(suite.model_copy(update=update), where / "suite.json")
        for path in where.glob("*/run.json"):
            run = read(Run, path)
            verdict = Verdict.of([Check(id=f"x{name}", level=Level.SUSPECT, claim=name)])
            changes = {"benchmark": f"{run.benchmark}{name}", "verdict": verdict, "command": [side, name]}
            write(run.model_copy(update=changes), path)
        sides.append(str(where))
    return answered(["compare", *sides], folder / PAGE)


def _renamed(value: Any, names: Mapping[str, str], name: str) -> Any:
    """Return a document whose texts under the keys ``names`` have ``name`` behind them."""
    if isinstance(value, list):
        return [_renamed(one, names, name) for one in value]
    if isinstance(value, dict):
        return {key: _named(key, one, names, name) for key, one in value.items()}
    return value


def _named(key: str, value: Any, names: Mapping[str, str], name: str) -> Any:
    if key not in names:
        return _renamed(value, names, name)
    if isinstance(value, list):
        return [f"{one}{name}" for one in value]
    return value if value is None else f"{value}{name}"


_NAMED = dict.fromkeys(("name", "command", "arm", "factor", "reason", "notes", "listed", "status_reason"))


def experiment(folder: Path, name: str) -> Path:
    """Write the page of an experiment: arms, factor, readings, guardrails and reasons are others' words."""
    document = _renamed(json.loads((GOLDEN / "experiment.json").read_text()), _NAMED, name)
    # The values of a guardrail are found by its name.
    for trial in document["trials"]:
        trial["readings"] = {f"{key}{name}": value for key, value in trial["readings"].items()}
    (folder / "experiment.json").write_text(json.dumps(document))
    return answered(["compare", str(folder)], folder / PAGE)


def numa_scenarios(folder: Path, name: str) -> Path:
    """Write the page of NUMA scenarios whose metric and co-runner others named."""
    path = folder / "figures.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["scenario", "co_runner", "replicate", f"rate{name}"])
        noise = random.Random(7)
        for block, scenario in itertools.product(range(8), range(1, 7)):
            for beside in ("",) if scenario <= 3 else (f"search{name}", f"batch{name}"):
                rate = (100 - 3 * scenario) * noise.uniform(0.995, 1.005)
                rows.writerow([scenario, beside, f"{block}{name}", rate])
    return answered(["numa", "experiment", "--from", str(path)], folder / PAGE)


def scaling(folder: Path, name: str) -> Path:
    """Write the page of a scaling curve, with functions of both ends."""
    curve = ["cpus,ops_per_s,cycles,instructions,operations"]
    curve += [
        f"{cpus},{rate},{cpus * 10**7},{rate * 2000},{rate}"
        for cpus, rate in ((1, 1000), (2, 1900), (4, 3300), (8, 4700))
    ]
    path, ends = folder / f"curve{name[:40].replace('/', '-')}.csv", []
    path.write_text("\n".join(curve) + "\n")
    for end, count in (("low", 10), ("high", 900)):
        stacks = folder / f"{end}.folded"
        text = name.replace(";", ":")
        stacks.write_text(f"{text};main [{text}];lock{text} [x] {count}\nb;main [b] 1000\n")
        ends += [f"--profile-{end}", str(stacks)]
    return answered(["scale", "--from", str(path), *ends], folder / PAGE)


def colocation(folder: Path, name: str) -> Path:
    """Write the page of two workloads side by side."""
    names = _NAMED | dict.fromkeys(("claim", "run_id", "colocation_id", "missing", "refused", "limits"))
    document = _renamed(json.loads((GOLDEN / "colocation.json").read_text()), names, name)
    for workload in document["workloads"]:
        workload["prediction"]["missing"] = None
    record = Colocation.model_validate(document)
    return write_page(folder / PAGE, answer(record, folder / "colocation"))


def matrix(folder: Path, name: str) -> Path:
    """Write the page of the pressure points of a suite's workloads."""
    where = write_suite(folder / "suite", ("redis",))
    shutil.rmtree(where / "redis-1")
    path = write_run(where / "redis-1", changes={"benchmark": "redis", "tier": "quick"}) / "run.json"
    run = read(Run, path)
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert measure.end_ns is not None
    steps = [Phase(name=name, begin_ns=measure.begin_ns, end_ns=measure.end_ns)]
    verdict = Verdict.of([Check(id=f"x{name}", level=Level.INVALID, claim=name)])
    benchmark = f"redis{name}"
    write(run.model_copy(update={"steps": steps, "verdict": verdict, "benchmark": benchmark}), path)
    suite = read(Suite, where / "suite.json")
    members = [one.model_copy(update={"benchmark": benchmark}) for one in suite.members]
    write(suite.model_copy(update={"members": members, "suite_id": name}), where / "suite.json")
    return answered(["characterize", "--suite", str(where)], folder / PAGE)


def workloads(folder: Path, name: str) -> Path:
    """Write the page that compares two workloads whose files name metrics and functions of their own."""
    sides = []
    for side, scale in (("a", 1.0), ("b", 1.3)):
        document = {
            "name": f"{side}{name}",
            "metrics": {
                f"rate{name}": {"values": [10 * scale, 11 * scale, 12 * scale], "unit": "1/s"},
                f"depth{name}": {"missing": name} if side == "a" else {"value": 1, "unit": "1"},
                "cpu_user_ratio": [0.4 / scale, 0.41 / scale, 0.42 / scale],
            },
            "functions": {f"copy{name}": 0.3 * scale, f"{side}{name}": 0.2},
        }
        path = folder / f"{side}.json"
        path.write_text(json.dumps(document))
        sides.append(str(path))
    return answered(["fidelity", *sides], folder / PAGE)


def choice(folder: Path, name: str) -> Path:
    """Write the page that chooses among machines whose names, results and processors are a file's own."""
    header = [
        "machine",
        "processor",
        "price_usd",
        "budgeted_power_w",
        f"web{name}_per_s",
        f"batch{name}_per_s",
    ]
    rows = [[f"{side}{name}", name, "5000", "300", at, 100 - at] for side, at in (("a", 30), ("b", 40))]
    with (folder / "machines.csv").open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])
    words = ["--power-price", "0.1", "--order-by", "perf-per-watt"]
    return answered(["choose", str(folder / "machines.csv"), *words], folder / PAGE)


def ranking(folder: Path, name: str) -> Path:
    """Write the page that ranks machines whose names and results are a file's own."""
    rows = [
        [f"{side}{name}", name, at + noise, 100 - at, missing]
        for side, at, missing in (("a", 30, name), ("b", 40, 7), ("c", 50, 8), ("d", 45, 9))
        for noise in (0, 0.1, 0.2)
    ]
    header = ("machine", "processor", f"web{name}_per_s", f"batch{name}_per_s", f"few{name}_per_s")
    with (folder / "results.csv").open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])
    return answered(["score", str(folder / "results.csv"), "--baseline", f"b{name}"], folder / PAGE)


def projection(folder: Path, name: str) -> Path:
    """Write the page that projects machines whose names, results and processors are a file's own."""
    noise = random.Random(7)
    rows = []
    for at, processor in enumerate("abcd"):
        for cpus in (2, 4, 8):
            rate = 100 * (1 + at) * cpus
            target = "" if at == 3 and cpus == 8 else rate * noise.uniform(0.95, 1.05)
            rows.append([f"{processor}{cpus}{name}", f"{processor}{name}", cpus, rate, target])
    header = ("machine", "processor", "cpus", f"bench{name}_per_s", f"web{name}_per_s")
    with (folder / "machines.csv").open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])
    words = [str(folder / "machines.csv"), "--target", f"web{name}_per_s", "--explain"]
    return answered(["project", *words], folder / PAGE)


def sizing(folder: Path, name: str) -> Path:
    """Write the page that sizes machines whose names are a file's own."""
    steps = [(f"m{name}", 8, 2, cpus, 1000 * min(cpus, 8) + 30 * cpus) for cpus in (1, 2, 4, 8, 16)]
    with (folder / "curves.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("machine", "cores", "threads_per_core", "cpus", "ops_per_s"), *steps])
    with (folder / "types.csv").open("w", newline="") as out:
        csv.writer(out).writerows(
            [("machine", "cpus", "price_per_hour_usd"), (f"m{name}", 16, 0.5), (f"other{name}", 8, 0.2)]
        )
    words = [str(folder / "types.csv"), "--curve", str(folder / "curves.csv"), "--rate", "1e5"]
    return answered(["size", *words], folder / PAGE)


def tuning(folder: Path, name: str) -> Path:
    """Write the page of a tuning: knobs, levels, files and reasons may be of the user's own."""
    names = _NAMED | dict.fromkeys(("about", "found", "knob", "level", "levels", "experiment", "template"))
    document = _renamed(json.loads((GOLDEN / "tuning.json").read_text()), names, name)
    page = folder / PAGE
    assert show_tuning(folder, Tuning.model_validate(document), page, as_json=False) in (0, 1)
    return page


KINDS = {
    "compared runs": runs_compared,
    "compared suites": suites_compared,
    "experiment": experiment,
    "numa scenarios": numa_scenarios,
    "scaling": scaling,
    "colocation": colocation,
    "matrix": matrix,
    "workloads": workloads,
    "choice": choice,
    "sizing": sizing,
    "ranking": ranking,
    "projection": projection,
    "tuning": tuning,
}
"""How a page of each kind is written into a folder, from a name."""
PRINTS = frozenset(KINDS) - {"colocation"}
"""Kinds whose command prints the answer too."""
