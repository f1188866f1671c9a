"""The load of an application: the mix of its views.

In: an address that answers. Out: a load that warms up until the order to measure.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import executable
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.watch import LoadWatch
from steelyard.benchmarks.django.stack.recipe import View

if TYPE_CHECKING:
    from steelyard.bench.session import Session

DRAIN_S = 15
TEXT_BYTES = "[[0, 20], [0.5, 80], [0.9, 240], [1, 600]]"
"""Sizes of what visitors type: a line for most, a paragraph for some."""


def mix_text(views: Sequence[View], users: int, distribution: str) -> str:
    """Return the mix: every view with its share, for accounts of ``users`` users."""
    head = (
        'schema_version = "1.0"\nkind = "mix"\n'
        'description = "Views of a social network"\n\n'
        f'[keys]\ncount = {users}\ndistribution = "{distribution}"\nsizes = 12\n\n'
        f"[values]\nsizes = {TEXT_BYTES}\n"
    )
    return head + "".join(map(_operation, views))


def _operation(view: View) -> str:
    accept = "application/json, text/html"
    headers = f'Accept = "{accept}", Accept-Encoding = "gzip"'
    method, body = "GET", ""
    if view.is_form:
        method, body = "POST", ', body = "text={text}"'
        headers += ', Content-Type = "application/x-www-form-urlencoded"'
    return (
        f'\n[[operation]]\nname = "{view.name}"\nweight = {view.weight}\n'
        f'http = {{ method = "{method}", path = "/{view.name}/{{key}}", headers = {{ {headers} }}{body} }}\n'
    )


def start_load(session: "Session", target: str, views: Sequence[View]) -> LoadWatch:
    """Start the load, which warms up until the order to measure."""
    settings = session.settings
    mix: Path = session.directory / "mix.toml"
    text = mix_text(views, settings.count("users"), settings.text("user_distribution"))
    mix.write_text(text, encoding="utf-8")
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
