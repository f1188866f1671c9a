"""The load of DjangoBench: the mix of the five views.

In: an address that answers. Out: a load that warms up until it is told to measure.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import executable
from steelyard.bench.django.declaration import VIEWS
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.watch import LoadWatch

if TYPE_CHECKING:
    from steelyard.bench.session import Session

DRAIN_S = 15
METHODS = {"seen": "POST"}


def mix_text(users: int, distribution: str) -> str:
    """Return the mix: every view with its share, for accounts of ``users`` users."""
    head = (
        'schema_version = "1.0"\nkind = "mix"\n'
        'description = "DjangoBench: views of a photo network"\n\n'
        f'[keys]\ncount = {users}\ndistribution = "{distribution}"\nsizes = 12\n'
    )
    return head + "".join(_operation(view, weight) for view, weight in VIEWS.items())


def _operation(view: str, weight: int) -> str:
    method = METHODS.get(view, "GET")
    accept = 'headers = { Accept = "application/json", Accept-Encoding = "gzip" }'
    return (
        f'\n[[operation]]\nname = "{view}"\nweight = {weight}\n'
        f'http = {{ method = "{method}", path = "/{view}/{{key}}", {accept} }}\n'
    )


def start_load(session: "Session", target: str) -> LoadWatch:
    """Start the load, which warms up until it is told to measure."""
    settings = session.settings
    mix: Path = session.directory / "mix.toml"
    mix.write_text(mix_text(settings.count("users"), settings.text("user_distribution")), encoding="utf-8")
    command = [
        *(str(executable("steelyard-load")), "--protocol", "http", "--target", target),
        *LoadHosts.of(settings).arguments(session, mix),
        *("--threads", str(settings.count("load_threads"))),
        *("--connections", str(settings.count("connections"))),
        *("--duration", f"{settings.number('measure'):g}s"),
        *("--warmup", f"{settings.number('warmup_min') * 1e3:.0f}ms", "--hold"),
        *("--drain", f"{DRAIN_S}s"),
        *("--seed", str(settings.count("seed"))),
        *("--hlog", str(session.directory / "latency.hlog")),
        *("--output", str(session.directory / "load.json")),
        *("--progress", "json"),
    ]
    if settings.number("rate") > 0:
        command += ["--rate", f"{settings.number('rate'):g}", "--arrival", "poisson"]
    place = session.placement
    return LoadWatch(session.start_process("load", command, cpus=place.load or place.server))
