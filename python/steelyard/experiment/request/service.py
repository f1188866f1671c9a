"""Where a new experiment is made, from what was typed: beside a running service, or on two hosts.

In: sources as ``--ops`` takes them, hosts. Out: what the record holds of them. Raises UsageError and
EnvironmentLacksError for what cannot be read or reached. Not here: trials (``steelyard.experiment.live``,
``steelyard.experiment.hosts``).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from steelyard._base import UsageError
from steelyard.bench.operations.sources import parse_all
from steelyard.bench.operations.watching import check
from steelyard.bench.parameters import Parameter, nearest
from steelyard.experiment.hosts import check_hosts
from steelyard.experiment.live import INTERVALS, LEAST_INTERVAL_S
from steelyard.records.experiment import ExperimentArm, ExperimentLive, ExperimentMetric
from steelyard.stats.contrasts import FEWEST_BLOCKS

_WINDOW = "60s"
_WINDOW_S = Parameter(
    "--window",
    "seconds",
    "a time, such as 60s or 5min",
    minimum=INTERVALS * LEAST_INTERVAL_S,
    maximum=86_400.0,
)


def source_names(sources: Sequence[str]) -> list[str]:
    """Return the names of sources, which are those of their metrics."""
    return [spec.name for spec in parse_all(sources)]


def live_metric(sources: Sequence[str], metric: str | None, better: str) -> ExperimentMetric:
    """Return what is compared: the source that ``--metric`` names, else the first."""
    names = source_names(sources)
    name = metric or names[0]
    if name not in names:
        raise UsageError(
            f"--metric {name}: no source has this name{nearest(name, names)}",
            hint=f"there is {', '.join(names)}",
        )
    return ExperimentMetric(name=name, unit="", better=better)


def live_of(
    sources: Sequence[str], window: str | None, benchmark: str | None, out: Path
) -> ExperimentLive | None:
    """Return the service that is looked at, None without sources; each is asked once."""
    if not sources:
        if window is not None:
            raise UsageError("--window is how long a trial looks at --ops")
        return None
    if benchmark is not None:
        raise UsageError(
            "--ops looks at a running service: arms are the commands that apply a variant to it",
            hint="a benchmark starts its own servers: leave --ops out",
        )
    specs = parse_all(sources)
    names = [spec.name for spec in specs]
    for spec in specs:
        if spec.kind == "load":
            raise UsageError(f"--ops {spec.given}: a load result is of a run that is over")
        if names.count(spec.name) > 1:
            raise UsageError(f"--ops {spec.given}: two sources are called {spec.name}", hint="set name=")
    for line in check(specs, starts=False, out=out):
        print(f"steelyard: {line}", file=sys.stderr)
    return ExperimentLive(sources=list(sources), window_s=float(_WINDOW_S.parse(window or _WINDOW)))


def hosts_of(
    text: str | None, ssh: str, arms: Sequence[ExperimentArm], blocks: int, *, is_live: bool
) -> list[str]:
    """Return the two hosts that change places, none without ``--hosts``; each is reached once."""
    if text is None:
        return []
    hosts = [host.strip() for host in text.split(",")]
    if len(set(hosts)) != 2 or len(hosts) != 2:
        raise UsageError(f"--hosts {text}: not two different hosts", hint="such as --hosts user@a,user@b")
    for host in hosts:
        if host.startswith("-") or any(sign.isspace() for sign in host) or not host:
            raise UsageError(f"--hosts {text}: {host!r} is no host such as user@host")
    if len(arms) != 2 or any(arm.placement or arm.cpus for arm in arms):
        raise UsageError(f"--hosts is for two arms, and there are {len(arms)}")
    if is_live:
        raise UsageError("--hosts start their trials themselves, --ops looks at a service that runs")
    if blocks % 2:
        raise UsageError(f"--blocks {blocks}: an even number is needed where hosts change places")
    if blocks < 2 * FEWEST_BLOCKS:
        raise UsageError(
            f"--blocks {blocks}: at least {2 * FEWEST_BLOCKS} are needed where hosts change places"
        )
    if not ssh.split():
        raise UsageError("--ssh is empty", hint="name it with its options: --ssh 'ssh -p 2222'")
    check_hosts(hosts, ssh)
    return hosts
