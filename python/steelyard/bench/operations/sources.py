"""What ``--ops`` may say: ``KIND[,OPTION=VALUE]...:TARGET``.

In: the text. Out: a `Spec`, or a UsageError with a hint. `KINDS` declares every kind with its options: the
parser, the errors and the reference page are made of it.

A comma, colon or backslash in an option's value has a backslash before it; the target is everything after the
first colon and is taken as it stands.

Not here: opening anything.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from steelyard._base import UsageError
from steelyard.bench.operations import selector

_AS = ("count", "counter", "rate", "gauge")


@dataclass(frozen=True)
class Option:
    """One option of a kind; ``choices`` are its values where it has a list of them."""

    name: str
    doc: str
    required: bool = False
    choices: tuple[str, ...] = ()


_NAME = Option("name", "name in the report; by default derived from the target")
_ZONE = Option(
    "zone", "time zone of stamps that have none: `UTC`, `local`, or a name such as `Europe/Berlin`"
)
_FORMAT = Option(
    "format", "how stamps are written, as strptime(3); by default ISO 8601, epoch, and the common log format"
)


@dataclass(frozen=True)
class Kind:
    """A kind of source."""

    name: str
    target: str
    doc: str
    example: str
    options: tuple[Option, ...]
    meanings: tuple[str, ...]
    """What its values may mean, the default first."""
    live: bool
    """Whether it is read while the clock runs."""


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "log",
            "PATH[:REGEX]",
            "a line that matches is an operation; without a pattern every line. Named groups: `time` is when"
            " it ended (else its arrival counts), `count` how many operations it stands for; any other names"
            " a series",
            r"""--ops 'log:/var/log/nginx/access.log:" (?P<status>\d)\d\d '""",
            (_FORMAT, _ZONE, _NAME),
            ("count",),
            live=True,
        ),
        Kind(
            "prometheus",
            'URL#METRIC[{LABEL="VALUE",...}]',
            "an endpoint in Prometheus' text format, read again and again during the run; every set of labels"
            " is a series. `=`, `!=`, `=~` and `!~` select labels",
            "--ops 'prometheus:http://127.0.0.1:9113/metrics#nginx_http_requests_total'",
            (
                Option(
                    "as",
                    "meaning of the values; by default the type that the endpoint declares",
                    False,
                    _AS[1:],
                ),
                Option("interval", "seconds between two readings; by default the run's, 0.25 at least"),
                _NAME,
            ),
            ("counter", "rate", "gauge"),
            live=True,
        ),
        Kind(
            "prometheus-query",
            "URL#PROMQL",
            "a Prometheus server's answer for the time of the run, asked after it; the query gives operations"
            " a second",
            "--ops 'prometheus-query:http://127.0.0.1:9090#sum(rate(http_requests_total[5s]))'",
            (
                Option("as", "meaning of the values", False, ("rate", "counter", "gauge")),
                Option("step", "seconds between two values; by default 1"),
                _NAME,
            ),
            ("rate", "counter", "gauge"),
            live=False,
        ),
        Kind(
            "csv",
            "PATH",
            "a table with a header, read after the run; without `value` every row is an operation",
            "--ops csv,time=timestamp,value=requests,as=counter:results.csv",
            (
                Option("time", "the column of stamps", required=True),
                Option("value", "the column of values"),
                Option(
                    "as",
                    "meaning: `count` operations of this row, a `counter`'s total, a `rate` a second,"
                    " a `gauge`; set it with `value`",
                    False,
                    _AS,
                ),
                Option("by", "a column whose values name series"),
                _FORMAT,
                _ZONE,
                _NAME,
            ),
            ("count", "counter", "rate", "gauge"),
            live=False,
        ),
        Kind(
            "load",
            "RUN|FILE",
            "the load result of a run or of `steelyard-load --json`, read after the run",
            "--ops load:load.json",
            (_NAME,),
            ("count",),
            live=False,
        ),
    )
}


@dataclass(frozen=True)
class Spec:
    """One source, parsed. ``path`` is the file of a log, a CSV or a load; ``url`` and ``what`` are of others.

    ``what`` is a log's pattern, a metric's selector or a query.
    """

    kind: str
    given: str
    options: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    url: str | None = None
    what: str = ""

    @property
    def meaning(self) -> str | None:
        """What its values are, None where only the source itself can tell."""
        if "as" in self.options:
            return self.options["as"]
        return None if self.kind == "prometheus" else KINDS[self.kind].meanings[0]

    @property
    def name(self) -> str:
        """What the report calls it."""
        if "name" in self.options:
            return self.options["name"]
        if self.kind in ("prometheus", "prometheus-query"):
            return self.what
        stem = self.path.name if self.path else self.given
        return f"{stem}: {self.options['value']}" if "value" in self.options else stem


def parse(text: str) -> Spec:
    """Return the source that ``text`` names. Raises UsageError with a hint for anything else."""
    head, colon, target = _split_head(text)
    words = _unescaped_split(head)
    kind = KINDS.get(words[0])
    if kind is None or not colon:
        raise _wrong(text, f"it begins with none of {', '.join(f'{name}:' for name in KINDS)}")
    options = _options(text, kind, words[1:])
    if not target:
        raise _wrong(text, f"{kind.target} is missing after the colon", kind)
    if kind.name == "log":
        path, pattern = _split_path(target)
        _check_pattern(text, pattern)
        return Spec(kind.name, text, options, path=path, what=pattern)
    if kind.name in ("csv", "load"):
        if "value" in options and "as" not in options:
            raise UsageError(
                f"--ops {text}: it does not say what {options['value']} is",
                hint="add as=count (operations of the row), as=counter (a running total), as=rate (operations"
                " a second) or as=gauge",
            )
        return Spec(kind.name, text, options, path=Path(target))
    url, hash_sign, selection = target.partition("#")
    _check_url(text, url)
    if not hash_sign or not selection.strip():
        raise _wrong(text, "there is no # with what to read after the address", kind)
    if kind.name == "prometheus":
        selector.parse(selection, where=f"--ops {text}")
    return Spec(kind.name, text, options, url=url, what=selection.strip())


def parse_all(texts: Sequence[str]) -> tuple[Spec, ...]:
    """Return all sources. Raises UsageError for one that is wrong."""
    return tuple(parse(text) for text in texts)


def reference() -> str:
    """Return the reference page, ``docs/reference/operations.md``."""
    parts = [_PAGE]
    for kind in KINDS.values():
        when = "While the clock runs" if kind.live else "After the run"
        parts.append(f"## {kind.name}\n\n    {kind.name}[,OPTION=VALUE]...:{kind.target}\n")
        parts.append(f"{when}: {kind.doc}.\n\n    {kind.example}\n\n| option | |\n|---|---|")
        for option in kind.options:
            choices = f" ({', '.join(f'`{choice}`' for choice in option.choices)})" if option.choices else ""
            required = " **Required.**" if option.required else ""
            parts.append(f"| `{option.name}=` | {option.doc}{choices}.{required} |")
        parts.append("")
    return "\n".join(parts)


_PAGE = """# Sources of operations

Generated by `python -m steelyard.bench.operations.sources`; a test compares this page with the code.

`steelyard characterize --ops SOURCE` counts the operations of an application; the option may be repeated. The
first source with operations gives the run's rate; charts show the others beside it.

    KIND[,OPTION=VALUE]...:TARGET

A comma, colon or backslash in an option's value has a backslash before it. The target is everything after the
first colon that has none, and is taken as it stands.

Values mean one of four things: `count`, operations of this row or line; `counter`, a running total, of which
differences count and a fall is a reset; `rate`, operations a second; `gauge`, a level that counts nothing and
is drawn.

Limits: 32 MiB and 6 seconds a page, GET only, no redirections and no proxies; 200 series of an endpoint and
50 of a log; lines of 64 KiB; 50 ms for the pattern on a line, after three slower ones the log is given up.

A source stands in the run's record as it was given: put no secret into an address.
"""


def _wrong(text: str, why: str, kind: Kind | None = None) -> UsageError:
    example = kind.example if kind else KINDS["log"].example
    return UsageError(f"--ops {text}: {why}", hint=f"such as {example}; docs/reference/operations.md")


def _split_head(text: str) -> tuple[str, str, str]:
    """Return what stands before the first colon without a backslash, the colon, and the rest."""
    match = re.match(r"((?:[^:\\]|\\.)*)(:?)(.*)", text, flags=re.DOTALL)
    if match is None:
        return text, "", ""
    return match[1], match[2], match[3]


def _unescaped_split(head: str) -> list[str]:
    parts = re.findall(r"(?:^|,)((?:[^,\\]|\\.)*)", head, flags=re.DOTALL)
    return [re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts]


def _options(text: str, kind: Kind, words: Sequence[str]) -> dict[str, str]:
    known = {option.name: option for option in kind.options}
    options: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        option = known.get(name)
        if option is None or not equals or not value:
            raise _wrong(text, f"{word!r} is no option of {kind.name} ({', '.join(known)})", kind)
        if name in options:
            raise _wrong(text, f"{name} is given twice", kind)
        if option.choices and value not in option.choices:
            raise _wrong(text, f"{name} is one of {', '.join(option.choices)}", kind)
        if name in ("interval", "step"):
            _check_seconds(text, name, value, kind)
        options[name] = value
    for option in kind.options:
        if option.required and option.name not in options:
            raise _wrong(text, f"{option.name}= is missing: {option.doc}", kind)
    return options


def _check_seconds(text: str, name: str, value: str, kind: Kind) -> None:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 3600:
        raise _wrong(text, f"{name} is a number of seconds from 0.01 to 3600", kind)


def _split_path(target: str) -> tuple[Path, str]:
    """Return path and pattern: the longest beginning before a colon that is a file, else the shortest."""
    colons = [match.start() for match in re.finditer(":", target)]
    if Path(target).is_file() or not colons:
        return Path(target), ""
    for place in reversed(colons):
        if target[:place] and Path(target[:place]).is_file():
            return Path(target[:place]), target[place + 1 :]
    return Path(target[: colons[0]]), target[colons[0] + 1 :]


def _check_pattern(text: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--ops {text}: the pattern cannot be read: {error}",
            hint="it is a regular expression of Python's re",
        ) from error


def _check_url(text: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--ops {text}: {url} is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"--ops {text}: {url} is no address of http or https", hint="as http://127.0.0.1:9090"
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"--ops {parts.scheme}://...@{parts.hostname}: a password in the address would be stored in"
            " the run's record",
            hint="let the service answer without one on loopback",
        )
    if port == 0:
        raise UsageError(f"--ops {text}: port 0 is not valid")


if __name__ == "__main__":
    print(reference(), end="")
