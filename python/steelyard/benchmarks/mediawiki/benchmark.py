"""MediaWiki: a wiki's whole stack of servers under a mix of its pages, after DCPerf's benchmark.

In: settings that follow from the machine. Out: the most requests per second that the servers answer,
percentiles by kind of page, CPU time by server, hits of the cache, queries of the database.

nginx passes requests over a Unix socket to PHP-FPM, which runs MediaWiki, which asks memcached and MariaDB.
The wiki is generated (``content``), imported once (``prepare``) and copied for each run. The load keeps two
requests per CPU in flight, so that the servers' CPUs are the limit.

Not here: configuration of the programs (``servers``), metrics from counters (``metrics``).
"""

import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import EnvironmentLacksError, WorkloadFailedError, executable
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Disk, Footprint, load_span_s
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.settings import check_load
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.ports import HOST, check_port, free_port
from steelyard.bench.stack.recipe import prepared_dir
from steelyard.benchmarks.mediawiki.parameters import PARAMETERS

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.executor import Process
    from steelyard.bench.load.watch import LoadWatch
    from steelyard.benchmarks.mediawiki.counters import ServerWatch
    from steelyard.records import Machine

WORKERS_PER_CPU = 2
CONNECTIONS_PER_CPU = 2
"""As DCPerf's load."""
WORKER_BYTES = 64 << 20
"""Memory of a PHP process beside what it shares with the others: 11 MiB were measured, and a page may need up
to ``memory_limit``."""
CODE_BYTES = 512 << 20
"""Memory that PHP processes share: compiled code, and MediaWiki's cache within a server."""
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 60.0
SETTLED_TOLERANCE_RATIO = 0.1
"""Throughput that may still move by less than this share of itself has settled. Pages differ in cost: at 36
pages/s the mix alone makes the throughput of a second vary by 6 %, and a minute cannot show less. What is
left shows in the measure phase, which is judged at 5 %."""
_WORKER_DIED = re.compile(r"\[pool www\] child (\d+) exited on signal (\d+)")


@dataclass(frozen=True, slots=True)
class _Lengths:
    """What a tier means here."""

    articles: int
    database_bytes: int
    cache_bytes: int
    warmup_min_s: float
    warmup_max_s: float
    measure_s: float


_TIERS = {
    "smoke": _Lengths(30, 64 << 20, 64 << 20, 3.0, 10.0, 8.0),
    "quick": _Lengths(200, 256 << 20, 128 << 20, 15.0, 60.0, 60.0),
    "standard": _Lengths(1500, 1 << 30, 512 << 20, 60.0, 300.0, 300.0),
    # As DCPerf: ten minutes after the warm-up.
    "full": _Lengths(5000, 4 << 30, 2 << 30, 120.0, 900.0, 600.0),
}


class MediaWiki(Benchmark):
    """A wiki's stack of servers."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    # A page costs the load a hundredth of what it costs the servers; one core is ample for fifty.
    load_ratio = 0.02

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        lengths = _TIERS[tier]
        cpus, hosts = len(placement.server), LoadHosts.of(chosen).hosts
        return {
            "articles": lengths.articles,
            "workers": WORKERS_PER_CPU * cpus,
            "connections": max(len(hosts), CONNECTIONS_PER_CPU * cpus),
            "load_threads": max(1, cpus // 16 if hosts else min(len(placement.load), cpus // 16)),
            "database_memory": lengths.database_bytes,
            "cache_memory": lengths.cache_bytes,
            "warmup_min": lengths.warmup_min_s,
            "warmup_max": lengths.warmup_max_s,
            "measure": lengths.measure_s,
        }

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError or EnvironmentLacksError when ``settings`` cannot work on ``machine``."""
        from steelyard.benchmarks.mediawiki.servers import find_programs

        check_load(settings)
        needed, limits = _memory_bytes(settings), [machine.memory.total_bytes, machine.memory.limit_bytes]
        available = min(limit for limit in limits if limit is not None)
        if needed > available:
            raise EnvironmentLacksError(
                f"the servers need {needed >> 20} MiB, and this machine or its cgroup has"
                f" {available >> 20} MiB",
                hint="--set workers=..., database_memory=... and cache_memory=... make them smaller",
            )
        check_port(int(settings["port"]), LoadHosts.of(settings).address)
        find_programs()

    # Install

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: the servers' memory, and the wiki's data with the run's copy."""
        from steelyard.benchmarks.mediawiki.prepare import ARTICLE_BYTES, EMPTY_BYTES, SPARE_BYTES

        articles = int(settings["articles"])
        size_bytes, smaller = EMPTY_BYTES + articles * ARTICLE_BYTES, "--set articles=... makes it smaller"
        disks = [Disk(size_bytes + SPARE_BYTES, smaller=smaller)]
        untimed = ""
        # Without its programs' versions, of which the name holds a digest.
        if not list(prepared_dir("mediawiki").glob(f"wiki-{articles}-*")):
            disks.append(Disk(size_bytes, prepared_dir("mediawiki"), smaller, stays=True))
            untimed = f"importing {articles} articles"
        least_s, most_s = load_span_s(settings)
        return Footprint(least_s, most_s, untimed, _memory_bytes(settings), tuple(disks))

    def install(self) -> None:
        """See that the programs are there, and make the wiki's data unless it is there."""
        from steelyard.benchmarks.mediawiki import prepare
        from steelyard.benchmarks.mediawiki.servers import find_programs

        for name in ("steelyard-load", "steelyard-exec"):
            executable(name)
        self._programs = find_programs()
        self._wiki = prepare.prepared(
            self._programs,
            seed=self.settings.count("content_seed"),
            articles=self.settings.count("articles"),
        )
        prepare.prepare(self.session, self._programs, self._wiki)
        prepare.check_disk(self.session.directory, prepare.folder_bytes(self._wiki.database))
        self._load: LoadWatch | None = None
        self._watch: ServerWatch | None = None
        self._warmup: WarmUp | None = None
        self._span: tuple[int, int] | None = None
        self._servers: dict[str, Process] = {}

    # Start

    def start(self) -> None:
        """Start the servers and return when the main page comes."""
        from steelyard.bench.scratch import scratch_folder
        from steelyard.benchmarks.mediawiki import content, load, servers
        from steelyard.benchmarks.mediawiki.prepare import socket_folder

        begin_ns = self.session.clock.monotonic_ns()
        folder = self.session.directory.absolute()
        data = scratch_folder(self.session, "", "data")
        data.chmod(0o700)
        self._places = servers.Places(
            config=folder / "config",
            run=socket_folder(self.session, data / "run", "sockets"),
            data=data / "database",
            messages=self._wiki.messages,
        )
        self._address = LoadHosts.of(self.settings).address
        self._port = self.settings.count("port") or free_port(self._address)
        self._cache_port = free_port()
        servers.write_configuration(
            self._places,
            address=self._address,
            port=self._port,
            cache_port=self._cache_port,
            cores=len(self.session.placement.server),
            workers=self.settings.count("workers"),
            database_bytes=self.settings.count("database_memory"),
            cache_bytes=self.settings.count("cache_memory"),
        )
        copy = ["cp", "-a", "--reflink=auto", str(self._wiki.database), str(self._places.data)]
        copying = self.session.start_process("copy-data", copy, cpus=None)
        cache_bytes = self.settings.count("cache_memory")
        self._serve("memcached", servers.cache_command(self._programs, self._cache_port, cache_bytes))
        self._serve("php-fpm", servers.php_command(self._programs, self._places))
        self.session.join(copying, READY_TIMEOUT_S * 10, what="copying the wiki's data")
        self._serve("mariadb", servers.database_command(self._programs, self._places))
        check_port(self._port, self._address)
        self._serve("nginx", servers.web_command(self._programs, self._places))
        for name, path in (("php-fpm", "php.sock"), ("mariadb", "database.sock")):
            self.session.wait_for(
                (self._places.run / path).is_socket,
                READY_TIMEOUT_S,
                what=f"the start of {name}",
                hint=f"see {self._servers[name].log}",
            )
        front = load.page_kinds(self._wiki.articles)[0]

        def is_there() -> bool:
            try:
                page = load.example(front, self._wiki.articles)
                status, text = load.fetch(self._port, page, self._address)
            except (OSError, http.client.HTTPException):
                return False
            return status == http.client.OK and content.MAIN_PAGE_TEXT in text

        self.session.wait_for(
            is_there,
            READY_TIMEOUT_S,
            what="the first page",
            hint=f"see {self._servers['php-fpm'].log}",
        )
        self._ready_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9

    def _serve(self, name: str, command: list[str]) -> None:
        comm = Path(self._programs.php_fpm).name if name == "php-fpm" else None
        self._servers[name] = self.session.start_process(
            name, command, cpus=self.session.placement.server, comm=comm, grace_s=STOP_TIMEOUT_S
        )

    # Load

    def warm_up(self) -> None:
        """See that each kind of page comes, start the load, and wait until throughput has settled."""
        from steelyard.bench.load.settled import wait_until_settled
        from steelyard.bench.load.watch import LoadWatch
        from steelyard.benchmarks.mediawiki import load, servers
        from steelyard.benchmarks.mediawiki.counters import ServerWatch

        for kind in load.page_kinds(self._wiki.articles):
            load.check_page(self._port, kind, self._wiki.articles, self._address)
            self.session.check()
        client = servers.client_command(self._programs, self._places, "--skip-column-names", "--unbuffered")
        self._watch = ServerWatch(
            self.session,
            {name: process.pid for name, process in self._servers.items()},
            f"{HOST}:{self._cache_port}",
            self.session.start_process("counters", client, cpus=self._load_cpus(), is_aside=True),
        )
        mix = self.session.directory / "mix.toml"
        load.write_mix(mix, articles=self._wiki.articles, popularity=self.settings.text("popularity"))
        command = [
            *load.load_command(
                self.settings,
                target=f"{self._address}:{self._port}",
                mix=LoadHosts.of(self.settings).arguments(self.session, mix),
            ),
            *("--hlog", str(self.session.directory / "latency.hlog")),
            *("--output", str(self.session.directory / "load.json")),
        ]
        self._load = LoadWatch(self.session.start_process("load", command, cpus=self._load_cpus()))
        self._warmup = wait_until_settled(
            self.session,
            [self._load],
            least_s=self.settings.number("warmup_min"),
            most_s=self.settings.number("warmup_max"),
            hit_ratio=self._look,
            tolerance_ratio=SETTLED_TOLERANCE_RATIO,
        )

    def _load_cpus(self) -> tuple[int, ...]:
        """Return the CPUs of the load and of what reads counters; the servers' with a load elsewhere."""
        return self.session.placement.load or self.session.placement.server

    def _look(self) -> float | None:
        """Read the servers' counters, and see that no worker has died."""
        if self._watch is None:
            raise AssertionError("started before the load")
        self._check_workers()
        return self._watch.hit_ratio()

    def _check_workers(self) -> None:
        """Raise WorkloadFailedError when a PHP worker was killed: PHP-FPM replaces it and goes on."""
        for _, line in self._servers["php-fpm"].lines():
            died = _WORKER_DIED.search(line)
            if died is not None:
                raise WorkloadFailedError(
                    f"php-fpm: worker {died[1]} was killed by signal {died[2]}",
                    hint="signal 9 without a sender is the kernel's, out of memory: make it smaller with"
                    f" --set workers=...; see {self._servers['php-fpm'].log}",
                )

    def measure(self) -> int:
        """Measure; return when the phase ended."""
        from steelyard.bench.load import watch

        if self._load is None or self._watch is None:
            raise AssertionError("started in the warm-up")
        self._watch.read()
        self._span = watch.measure(self.session, [self._load], self.settings.number("measure"), self._look)
        self._look()
        return self._span[1]

    def drain(self) -> None:
        """Let the load finish, then stop the servers, those that ask before those that answer."""
        if self._load is not None:
            self._load.finish(self.session, DRAIN_TIMEOUT_S)
        self._check_workers()
        if self._watch is not None:
            self._watch.close()
        for name in ("nginx", "php-fpm", "mariadb", "memcached"):
            self.session.stop_process(self._servers[name], STOP_TIMEOUT_S)

    def collect(self) -> Outcome:
        """Return metrics over the measure phase."""
        from steelyard.benchmarks.mediawiki.metrics import outcome

        if self._span is None or self._watch is None:
            raise WorkloadFailedError("there was no measure phase")
        return outcome(
            self.session,
            self._span,
            self._warmup,
            samples=self._watch.samples,
            facts=self._wiki.facts,
            ready_s=self._ready_s,
            memory_bytes=_memory_bytes(self.settings),
        )


def _memory_bytes(settings: Mapping[str, Setting]) -> int:
    """Return the memory that the servers may use."""
    stores = int(settings["database_memory"]) + int(settings["cache_memory"])
    return stores + CODE_BYTES + int(settings["workers"]) * WORKER_BYTES
