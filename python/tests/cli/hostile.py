"""Records as somebody careless or hostile would leave them: what is drawn, and how files break."""

import copy
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    10**30,
    1e308,
    -1e308,
    5e-324,
    math.nan,
    math.inf,
    "",
    "x",
    "\0",
    "\ud800",
    "../../../../etc/passwd",
    "/dev/zero",
    "\x1b[31mred\x1b[0m",
    "<script>alert(1)</script>",
    "[bold]",
    "0-99999999999",
    "A" * 100_000,
    [],
    {},
    [[[[[]]]]],
    {"": {"\n": None}},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a JSON document."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found += places(one, (*path, key))
    return found


@st.composite
def changed(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """A document in which one to three values were dropped, replaced, or given another key."""
    made = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(made) or [()]))
        if not path:
            break
        parent = made
        for key in path[:-1]:
            parent = parent[key]
        how = draw(st.sampled_from(("drop", "replace", "replace", "nest", "rename")))
        if how == "drop":
            del parent[path[-1]]
        elif how == "nest":
            nested: Any = 0
            for _ in range(draw(st.sampled_from((3, 100, 300)))):
                nested = [nested]
            parent[path[-1]] = nested
        elif how == "rename" and isinstance(parent, dict):
            parent[draw(st.sampled_from(("", "\n", "\0", "x" * 300, "__class__")))] = parent.pop(path[-1])
        else:
            # A copy: the next change may fall into it.
            parent[path[-1]] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
    return made


def text_of(document: dict[str, Any]) -> bytes:
    """Return a document as a file holds it, half surrogate pairs included."""
    return json.dumps(document).encode()


def fifo(path: Path) -> None:
    """Put a named pipe in a file's place, which nobody writes to."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def folder(path: Path) -> None:
    """Put a folder in a file's place."""
    path.unlink(missing_ok=True)
    path.mkdir()


def link_to(target: str) -> Callable[[Path], None]:
    """Put a link to ``target`` in a file's place."""

    def put(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return put


def content(data: bytes) -> Callable[[Path], None]:
    """Put ``data`` in a file's place."""

    def put(path: Path) -> None:
        path.write_bytes(data)

    return put


BREAKAGES: dict[str, Callable[[Path], None]] = {
    "named pipe": fifo,
    "folder": folder,
    "endless device": link_to("/dev/zero"),
    "link to itself": lambda path: link_to(path.name)(path),
    "brackets without end": content(b"[" * 200_000),
    "braces without end": content(b'{"a":' * 200_000),
    "nesting inside a field": content(b'{"kind": "run", "hooks": ' + b"[" * 200_000),
    "number of 10,000 digits": content(
        b'{"kind": "run", "schema_version": "1.0", "x": ' + b"9" * 10_000 + b"}"
    ),
    "not UTF-8": content(b'{"kind": "\xff\xfe"}'),
    "empty": content(b""),
    "zeroes": content(b"\0" * 10_000),
    "another kind": content(b'{"kind": "load_result", "schema_version": "1.0"}'),
    "kind that is no text": content(b'{"kind": {"a": 1}, "schema_version": "1.0"}'),
    "version of the future": content(b'{"kind": "run", "schema_version": "9.0"}'),
}
