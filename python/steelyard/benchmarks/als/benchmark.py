"""Recommender after CloudSuite's in-memory analytics: alternating least squares over ratings of films.

In: settings that follow from the machine and the tier. Out: ratings that an iteration works through per
second, the time of a fit, and the error over ratings that the model has not seen.

Ratings are generated in the shape of MovieLens (``workloads/spark/ratings.sql``): as many for each user and
film, skewed activity and popularity, tastes of low rank. A model that predicts no better than the mean has
not worked.

Not here: the cluster and the driver's conversation (``stack.spark``), the fit (``workloads/spark/als.py``).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard.bench.benchmark import Outcome
from steelyard.bench.footprint import Disk, Footprint, work_span_s
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.scratch import check_parent, scratch_folder
from steelyard.bench.stack.java import find_java
from steelyard.bench.stack.recipe import payload_source, prepared_dir, require
from steelyard.benchmarks.als.declaration import DECLARATION
from steelyard.benchmarks.spark.stack.job import SparkJob
from steelyard.benchmarks.spark.stack.recipe import JAVA, PAYLOAD, RECIPE
from steelyard.benchmarks.spark.stack.settings import (
    CLUSTER_PARAMETERS,
    START_S,
    check_cluster,
    cluster_settings,
    is_here,
    memory_needed_bytes,
    slots_of,
)

if TYPE_CHECKING:
    from steelyard.benchmarks.spark.stack.cluster import Folders
    from steelyard.records import Check, Machine

VERSION = 1
"""Of the ratings, as in ``workloads/spark/als.py``."""
RATING_BYTES = 12
"""Of a rating in a Parquet file, amply."""
SHUFFLED_TIMES = 4
"""Copies of the ratings on disk at once, about: blocks by user and by film, of two stages."""
RATINGS_S_PER_M, ITERATION_S_PER_M = 2.5, 0.4
"""CPU time of making a million ratings and of an iteration over them, as measured once: for the estimate
before the first run only."""
ITERATION_S = 0.7
"""What an iteration takes beside its work: the starts of its stages."""
SLOWEST_PER_S = 2_000
"""Ratings of a fit per second, far below what any machine does: for timeouts only."""
LATE_S = 600.0
RESULT = "als.json"
_RATINGS = {"smoke": 200_000, "quick": 2_000_000, "standard": 25_000_095, "full": 250_000_000}
_FITS = {"smoke": 1, "quick": 2, "standard": 3, "full": 3}

PARAMETERS = (
    Parameter(
        "ratings",
        "count",
        "number of ratings",
        derived="per tier; standard: those of MovieLens 25M",
        minimum=10_000,
        maximum=10**11,
    ),
    Parameter("rank", "count", "factors of a user and of a film", default=10, minimum=1, maximum=1000),
    Parameter("iterations", "count", "iterations of a fit", default=10, minimum=1, maximum=1000),
    Parameter("fits", "count", "measured fits", derived="per tier", minimum=1, maximum=1000),
    Parameter("warmups", "count", "fits before those", default=1, minimum=0, maximum=100),
    Parameter("data_seed", "count", "seed of the ratings", default=1, minimum=0, maximum=2**53),
    *CLUSTER_PARAMETERS,
    Parameter(
        "partitions",
        "count",
        "blocks of users, and of films",
        derived="two for a CPU of the executors",
        minimum=1,
        maximum=100_000,
    ),
    Parameter(
        "seed", "count", "of the run; the ratings have their own", derived="random", minimum=0, maximum=2**53
    ),
)


class AlsBench(SparkJob):
    """Recommender."""

    name = DECLARATION.name
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        cluster = cluster_settings(chosen, machine=machine, tier=tier, placement=placement)
        slots = cluster["executors"] * cluster["executor_cores"]
        return {**cluster, "ratings": _RATINGS[tier], "fits": _FITS[tier], "partitions": 2 * slots}

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise where Java or Spark is missing, memory too small, or the cluster unreachable."""
        find_java(JAVA, benchmark=DECLARATION.name)
        require(RECIPE, DECLARATION.name)
        check_cluster(settings, machine)
        check_parent(str(settings["directory"]), "directory")

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: memory of its processes, the ratings, shuffled blocks."""
        size_bytes = RATING_BYTES * int(settings["ratings"])
        directory = Path(str(settings["directory"])) if settings["directory"] else None
        least_s, most_s = _time_span_s(settings)
        fits = int(settings["fits"]) + int(settings["warmups"])
        return Footprint(
            least_s,
            most_s,
            "" if least_s is not None else f"the ratings and {fits} fits",
            memory_bytes=memory_needed_bytes(settings),
            disks=(
                *_ratings(settings, size_bytes),
                Disk(
                    SHUFFLED_TIMES * size_bytes,
                    directory,
                    "--set ratings=..., or --set directory=... on another disk",
                ),
            ),
        )

    def place(self) -> "Folders":
        """Make the run's folders; the ratings stay for the next run."""
        from steelyard.benchmarks.spark.stack.cluster import Folders

        session, settings = self.session, self.settings
        scratch = scratch_folder(session, settings.text("directory"), "scratch")
        for name in ("local", "tmp", "work"):
            (scratch / name).mkdir()
        events = session.directory / "spark-events"
        events.mkdir()
        parent = prepared_dir(DECLARATION.name)
        parent.mkdir(parents=True, exist_ok=True)
        data = scratch_folder(session, str(parent), "tables")
        tables = _ratings_folder(settings)
        return Folders(
            scratch,
            events,
            tables.absolute().as_uri(),
            (data / "partial").as_uri(),
            (data / "output").as_uri(),
        )

    def driver(self, master: str, folders: "Folders", variables: Mapping[str, str]) -> list[str]:
        """Return the command of the driver."""
        from steelyard.benchmarks.spark.stack.cluster import python, settings_of_spark, with_variables

        settings = self.settings
        command = [
            *(str(python()), str(payload_source(PAYLOAD) / "als.py"), "--master", master),
            *("--tables", folders.tables, "--partial", folders.partial),
        ]
        for name in ("ratings", "data_seed", "partitions", "rank", "iterations", "warmups", "fits"):
            command += [f"--{name.replace('_', '-')}", str(settings.count(name))]
        for name, value in settings_of_spark(settings, master, folders).items():
            command += ["--conf", f"{name}={value}"]
        return with_variables(variables, *command)

    def patience_s(self) -> float:
        """Return how long a fit may take."""
        return LATE_S + self.settings.count("iterations") * self.settings.count("ratings") / SLOWEST_PER_S

    def measure(self) -> int:
        """Let the driver fit; return when the last fit ended."""
        self._times = self.run_jobs(self.settings.count("fits"))
        for name, begin_ns, end_ns in self._times:
            self.session.manifest.put_step(name.replace("query", "fit"), begin_ns, end_ns)
        return self._times[-1][2]

    def collect(self) -> Outcome:
        """Return the metrics of the fits."""
        from steelyard.records import Metric

        models: list[dict[str, Any]] = self._checksums["found"]
        fit_s = median((end_ns - begin_ns) / 1e9 for _, begin_ns, end_ns in self._times)
        work = self._tables["ratings"] * self.settings.count("iterations")
        used_s = self._used.total_s if self._is_here else None
        cpus = len(self.session.placement.server)
        missing = None if self._is_here else "the cluster is not this machine"
        metrics = {
            "ratings_per_s": Metric(value=work / fit_s, unit="1/s", better="higher"),
            "fit_s": Metric(value=fit_s, unit="s", better="lower"),
            "rmse": Metric(value=max(each["rmse"] for each in models), unit="1", better="lower"),
            "deviation": Metric(value=models[0]["deviation"], unit="1"),
            "server_cpu_ratio": Metric(
                value=None if used_s is None else used_s / self._wall_s / cpus, unit="ratio", missing=missing
            ),
            "tables_bytes": Metric(value=float(self._tables["events_bytes"]), unit="bytes"),
            "cluster_start_s": Metric(value=self._cluster_s, unit="s", better="lower"),
            "ready_s": Metric(value=self._ready_s, unit="s", better="lower"),
        }
        document = {"fits": self._times, "models": models, "ratings": self._tables}
        (self.session.directory / RESULT).write_text(json.dumps(document), encoding="utf-8")
        return Outcome(
            metrics=metrics,
            loads=None,
            memory_needed_bytes=memory_needed_bytes(self.settings),
            own_cpu_s=used_s,
            saturates=self._is_here,
            checks=[learnt(models)],
            artifacts={"als": RESULT, "spark_events": self._folders.events.name},
            own_commands=("java", "python", "python3"),
        )


def _time_span_s(settings: Mapping[str, Setting]) -> tuple[float | None, float | None]:
    """Return the least and most time of a run, from CPU time that was measured; None on another cluster."""
    if not is_here(str(settings["master"])):
        return None, None
    iterations = int(settings["iterations"]) * (int(settings["fits"]) + int(settings["warmups"]))
    makes = not _ratings_folder(settings).is_dir()
    cpu_s = int(settings["ratings"]) / 1e6 * (makes * RATINGS_S_PER_M + iterations * ITERATION_S_PER_M)
    return work_span_s(START_S + iterations * ITERATION_S, cpu_s, slots_of(settings))


def _ratings_folder(settings: Mapping[str, Setting]) -> Path:
    return (
        prepared_dir(DECLARATION.name)
        / f"v{VERSION}-seed{settings['data_seed']}-ratings{settings['ratings']}"
    )


def _ratings(settings: Mapping[str, Setting], size_bytes: int) -> tuple[Disk, ...]:
    """Return the ratings, unless an earlier run has made them."""
    if _ratings_folder(settings).is_dir():
        return ()
    folder = prepared_dir(DECLARATION.name)
    return (Disk(size_bytes, folder, "--set ratings=... makes them fewer", stays=True),)


def learnt(models: list[dict[str, Any]]) -> "Check":
    """Return whether every model predicts unseen ratings better than their mean does."""
    from steelyard.analyze import checks
    from steelyard.records import Level

    worst = max(models, key=lambda each: each["rmse"] / each["deviation"])
    ratio = worst["rmse"] / worst["deviation"]
    return checks.stated(
        "learnt",
        # As good as the mean is not learnt.
        Level.VALID if ratio < 1.0 else Level.INVALID,
        f"the error over {worst['predicted']} unseen ratings is {worst['rmse']:.3f} stars,"
        f" that of their mean {worst['deviation']:.3f}",
        ratio,
    )
