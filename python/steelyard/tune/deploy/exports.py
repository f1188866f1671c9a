"""A soft SKU for machines without Steelyard: a script, a systemd unit, a drop-in, a TuneD profile.

In: what to write where. Out: texts. The script needs a shell and coreutils; registers need ``rdmsr`` and
``wrmsr`` of msr-tools. It saves what it changes before it changes anything, and puts it back.

Invariant: no function of the script counts on ``set -e``, which a shell ignores wherever a result is looked
at: each step says itself what its failure does.

Not here: levels (``softsku``).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from steelyard._base import parse_cpu_list
from steelyard.records.tuning import Tuning
from steelyard.tune.cells import (
    AffinityCell,
    BitsCell,
    CommandCell,
    EnvironmentCell,
    FileCell,
    GroupMemoryCell,
    SchemataCell,
    WholeFile,
)
from steelyard.tune.changes import Write

_HEAD = """#!/bin/sh
# A soft SKU{of}. Usage: softsku.sh apply|verify|restore
# Values that it changes are saved in $SOFTSKU_STATE first, and put back by restore.
set -eu
state=${{SOFTSKU_STATE:-/run/steelyard-softsku}}
"""
_TAIL = """
give_back() {
    put_back || { echo "softsku: not everything could be put back; its values are in $state" >&2; exit 1; }
    rm -rf "$state"
}
case "${1:-}" in
apply)
    if [ ! -e "$state/whole" ]; then
        rm -rf "$state"
        mkdir -p "$state"
        save || { rm -rf "$state"; echo "softsku: not applied: a value cannot be read" >&2; exit 1; }
        : > "$state/whole"
    fi
    change && check || {
        give_back
        echo "softsku: not applied; everything was put back" >&2
        exit 1
    }
    ;;
verify)
    check
    ;;
restore)
    [ -e "$state/whole" ] || { echo "softsku: nothing to restore"; exit 0; }
    give_back
    ;;
*)
    echo "usage: $0 apply|verify|restore" >&2
    exit 2
    ;;
esac
"""


def script(writes: Sequence[Write], tuning: Tuning) -> str:
    """Return a shell script that applies, verifies and restores."""
    parts = [_reader(cell, number) for number, (cell, _) in enumerate(writes)]
    parts += [_writer(cell, number) for number, (cell, _) in enumerate(writes)]
    numbers = range(len(writes))
    saved = "".join(f'    read_{n} > "$state/{n}" || return 1\n' for n in numbers)
    parts.append("save() {\n" + saved + "    :\n}")
    changes = "".join(
        f"    write_{n} {shlex.quote(text)} || return 1\n" for n, (_, text) in enumerate(writes)
    )
    parts.append("change() {\n" + changes + "    :\n}")
    checks = "".join(
        f'    [ "$(read_{n})" = {shlex.quote(text.rstrip(chr(10)))} ] ||'
        f" {{ echo {shlex.quote(_place(cell) + ' differs')} >&2; bad=1; }}\n"
        for n, (cell, text) in enumerate(writes)
    )
    parts.append("check() {\n    bad=0\n" + checks + "    return $bad\n}")
    undo = "".join(_restore(cell, n) for n, (cell, _) in reversed(list(enumerate(writes))))
    parts.append("put_back() {\n    bad=0\n" + undo + "    return $bad\n}")
    return (
        _HEAD.format(of=f" for {one_line(tuning.benchmark)}" if tuning.benchmark else "")
        + "\n".join(parts)
        + "\n"
        + _TAIL
    )


def _place(cell: object) -> str:
    return str(getattr(cell, "address", ""))


def _reader(cell: object, number: int) -> str:
    match cell:
        case FileCell(path):
            body = f"sed -n 's/.*\\[\\([^]]*\\)\\].*/\\1/;p' {shlex.quote(str(path))}"
        case WholeFile(path):
            body = f"cat {shlex.quote(str(path))}"
        case BitsCell(path, register, mask):
            read = f'now=$(rdmsr -p {path.parent.name} {register:#x}) && [ -n "$now" ]'
            body = f"{read} && printf '0x%x\\n' $((0x$now & {mask:#x}))"
        case SchemataCell(path, resource):
            # Of a pipe a shell sees the last command alone.
            read = f"now=$(sed -n 's/^ *{resource}://p' {shlex.quote(str(path))}) && [ -n \"$now\" ]"
            body = f"{read} && printf '%s\\n' \"$now\" | sed 's/=0*\\([0-9a-f]\\)/=\\1/g'"
        case CommandCell(_, read_words):
            body = shlex.join(read_words)
        case _:
            raise AssertionError(cell)
    return f"read_{number}() {{ {body}; }}"


def _writer(cell: object, number: int) -> str:
    match cell:
        case FileCell(path) | WholeFile(path):
            body = f"printf '%s' \"$1\" > {shlex.quote(str(path))}"
        case BitsCell(path, register, mask):
            cpu = path.parent.name
            body = (
                f'now=$(rdmsr -p {cpu} {register:#x}) && [ -n "$now" ] &&'
                f" wrmsr -p {cpu} {register:#x} $(printf '0x%x' $((0x$now & ~{mask:#x} | $1)))"
            )
        case SchemataCell(path, resource):
            # Files of resctrl have no size; a recorded one would lose its other lines (`SchemataCell.write`).
            file = shlex.quote(str(path))
            kept = (
                f'now=$(sed "s/^ *{resource}:.*/{resource}:$1/" {file}) && printf \'%s\\n\' "$now" > {file}'
            )
            body = f"if [ -s {file} ]; then {kept}; else printf '{resource}:%s\\n' \"$1\" > {file}; fi"
        case CommandCell(write_words, _):
            body = (
                " ".join('"$1"' if word == "{}" else _with_level(word) for word in write_words)
                + " > /dev/null"
            )
        case _:
            raise AssertionError(cell)
    return f"write_{number}() {{ {body}; }}"


def _with_level(word: str) -> str:
    """Return a word of a command with ``$1`` in the place of ``{}``."""
    return '"$1"'.join(shlex.quote(part) if part else "" for part in word.split("{}")) or "''"


def _restore(cell: object, number: int) -> str:
    if isinstance(cell, WholeFile):
        # An argument would lose the newlines at the end of the file.
        write = f'cat "$state/{number}" > {shlex.quote(str(cell.path))}'
    else:
        write = f'now=$(cat "$state/{number}") && write_{number} "$now"'
    return (
        f"    {{ {write}; }} || {{ echo {shlex.quote(_place(cell) + ' cannot be put back')} >&2; bad=1; }}\n"
    )


def unit(tuning: Tuning) -> str:
    """Return a systemd unit that applies at boot and restores when it is stopped."""
    return (
        "# Install: softsku.sh as /usr/local/sbin/softsku.sh, this file in /etc/systemd/system.\n"
        "[Unit]\n"
        f"Description=Soft SKU {tuning.tuning_id}\n"
        "After=local-fs.target sysinit.target\n\n"
        "[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        "ExecStart=/usr/local/sbin/softsku.sh apply\n"
        "ExecStop=/usr/local/sbin/softsku.sh restore\n\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def drop_in(writes: Sequence[Write], tuning: Tuning) -> str:
    """Return what the service's own unit says: CPUs, memory, environment; parameters as a comment."""
    lines = ["# Drop-in for the unit of the service itself.", "[Service]"]
    for cell, text in writes:
        if isinstance(cell, AffinityCell):
            lines.append(f"CPUAffinity={' '.join(map(str, parse_cpu_list(text) or []))}")
        elif isinstance(cell, GroupMemoryCell):
            lines.append(f"MemoryMax={one_line(text)}")
        elif isinstance(cell, EnvironmentCell):
            if text:
                # json quotes as systemd does, which reads % as the beginning of a specifier.
                lines.append(f"Environment={json.dumps(f'{cell.name}={text}').replace('%', '%%')}")
            else:
                lines.append(f"UnsetEnvironment={one_line(cell.name)}")
    levels = ", ".join(f"{name}={level}" for name, level in tuning.chosen.items())
    lines.append(f"# All levels, those of the program too: {one_line(levels)}")
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    """Return a text from outside as a part of one line: what would begin another one is written as an escape.

    >>> one_line("a\\nExecStartPre=/bin/evil"), one_line("plain")
    ('a\\\\nExecStartPre=/bin/evil', 'plain')
    """
    # A backslash at its end would join a comment and the next line.
    plain = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return plain + " " if plain.endswith("\\") else plain


def _is_plain(value: str) -> bool:
    """Return whether a value means itself in TuneD's file: one line, no variable, no white space around."""
    return (
        value.isprintable() and value == value.strip() and not any(mark in value for mark in ("${", "#", ";"))
    )


_DOTTED = str.maketrans("/.", "./")
"""From a path below /proc/sys to the name of a sysctl: a dot in it, as in that of a VLAN, becomes a slash."""


def tuned_profile(writes: Sequence[Write], tuning: Tuning) -> str:
    """Return a TuneD profile; what its plugins do not know is left to the script beside it."""
    sysctl, sysfs, others = [], [], 0
    for cell, text in writes:
        path = str(cell.path) if isinstance(cell, FileCell) else ""
        if not _is_plain(text):
            others += 1
        elif path.startswith("/proc/sys/"):
            sysctl.append(f"{path.removeprefix('/proc/sys/').translate(_DOTTED)}={text}")
        elif path.startswith("/sys/"):
            sysfs.append(f"{path}={text}")
        else:
            others += 1
    lines = [
        "# Install as tuned.conf in a folder of /etc/tuned.",
        "[main]",
        f"summary=Soft SKU {tuning.tuning_id}",
    ]
    if sysctl:
        lines += ["", "[sysctl]", *sysctl]
    if sysfs:
        lines += ["", "[sysfs]", *sysfs]
    if others:
        lines += ["", f"# {others} values that TuneD has no plugin for are set by softsku.sh alone."]
    return "\n".join(lines) + "\n"
