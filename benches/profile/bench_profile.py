#!/usr/bin/env python3
"""Folding beside ``perf script`` piped to a collapse script, and the cost of profiling the whole machine.

The stacks are those of a program made here, whose functions call each other, recorded by ``perf record``; the
same file is folded by both, in turn. The collapse script is in Perl, in the plain manner of those that are
about: a line a frame, joined at the end of each sample. Prints one JSON object a line,
as benches/run.py asks.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
OVERHEAD_S = 20.0

COLLAPSE = r"""
use strict; use warnings;
my (%count, $command, @stack);
sub finish { $count{join(';', $command, reverse @stack)}++ if defined $command; undef $command; @stack = () }
while (my $line = <STDIN>) {
    next if $line =~ /^#/;
    chomp $line;
    if ($line eq '') { finish() }
    elsif ($line =~ /^(\S.+?)\s+(\d+)(?:\/\d+)?\s/) { finish(); $command = $1 }
    elsif ($line =~ /^\s*([0-9a-f]+)\s+(.+) \((.*)\)$/) {
        my ($name, $module) = ($2, $3);
        $name =~ s/\+0x[0-9a-f]+$//;
        $name =~ tr/;/:/;
        push @stack, $name;
    }
}
finish();
print "$_ $count{$_}\n" for sort keys %count;
"""


def executable(name: str) -> str:
    """Return the path of one of our executables: the one built beside the interpreter, or of the path."""
    beside = Path(os.environ.get("STEELYARD_BIN_DIR", "")) / name
    return str(beside) if beside.is_file() else name


def source(functions: int, depth: int) -> str:
    """Return a C program whose functions call each other for ever, mostly the same one as real ones do."""
    lines = [
        "#include <stdint.h>",
        "static volatile uint64_t sink; static uint64_t state = 88172645463325252ull;",
    ]
    lines.append(
        "static uint64_t next(void){state^=state<<13;state^=state>>7;state^=state<<17;return state;}"
    )
    lines.append("typedef void call(int); static call *const table[];")
    for number in range(functions):
        usual, other = (number * 7 + 1) % functions, (number * 13 + 5) % functions
        lines.append(
            f"__attribute__((noinline)) void function_number_{number:04d}(int depth){{"
            f"for(int i=0;i<40;i++)sink+=i*{number + 1};"
            f"if(depth)table[next()%8?{usual}:{other}](depth-1);sink++;}}"
        )
    names = ",".join(f"function_number_{number:04d}" for number in range(functions))
    lines.append(f"static call *const table[]={{{names}}};")
    lines.append(f"int main(void){{for(;;)table[next()%8]({depth});}}")
    return "\n".join(lines)


def record(scratch: Path) -> Path:
    """Record a few seconds of the program at a high rate and return the perf.data."""
    program = scratch / "walker"
    (scratch / "walker.c").write_text(source(500, 50))
    compile_ = ["cc", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-o", program]
    subprocess.run([*compile_, scratch / "walker.c"], check=True)
    data = scratch / "perf.data"
    command = ["perf", "record", "-q", "-F", "10000", "-e", "cpu-clock", "-g", "-o", data, "--"]
    subprocess.run([*command, "timeout", "5", program], check=False, stdout=subprocess.DEVNULL)
    return data


def wall(command: str) -> float:
    """Run ``command`` and return how long it took, in seconds."""
    begin = time.perf_counter()
    subprocess.run(["sh", "-c", command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def total(command: str) -> int:
    """Return the sum of the counts that a folding command prints: nothing fast may be fast by leaving out."""
    text = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#"))


def pair(name: str, ours: str, theirs: str, size: int) -> dict[str, object]:
    """Measure both commands in turn and return the row."""
    if total(ours) != total(theirs):
        sys.exit(f"{name}: {total(ours)} samples are not {total(theirs)}")
    times = [(wall(ours), wall(theirs)) for _ in range(ROUNDS)]
    our, their = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(b / a for a, b in times)
    return {
        "name": name,
        "ours": size / our / 1e6,
        "theirs": size / their / 1e6,
        "unit": "MB/s",
        "ratio": ratio,
        "bar": ">= 20",
        "met": ratio >= 20,
        "note": f"{size / 1e6:.0f} MB, {our * 1e3:.0f} ms against {their * 1e3:.0f} ms",
    }


def folding(scratch: Path) -> list[dict[str, object]]:
    """Fold perf.data, and the text of it, by both."""
    missing = [tool for tool in ("perf", "cc", "perl") if not shutil.which(tool)]
    if missing:
        row = {"name": "profile: folding", "ours": None, "theirs": None, "unit": "MB/s", "ratio": None}
        return [row | {"bar": ">= 20", "met": None, "note": f"{', '.join(missing)} not installed"}]
    data, text = record(scratch), scratch / "script.txt"
    collapse, fold = scratch / "collapse.pl", f"{executable('steelyard-profile')} fold"
    collapse.write_text(COLLAPSE)
    # Inlined functions are looked up by neither side.
    script = f"perf script --no-inline -i {data}"
    subprocess.run(["sh", "-c", f"{script} > {text}"], check=True, stderr=subprocess.DEVNULL)
    perl = f"perl {collapse}"
    sizes = data.stat().st_size, text.stat().st_size
    return [
        pair("profile: perf.data to folded", f"{fold} {data}", f"{script} 2>&- | {perl}", sizes[0]),
        pair("profile: perf script's text to folded", f"{fold} {text}", f"{perl} < {text}", sizes[1]),
    ]


def cost() -> dict[str, object]:
    """Measure the CPU time that sampling all CPUs at 99 Hz takes while all are busy."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    try:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [executable("steelyard-profile"), "record", "--all", "--duration", f"{OVERHEAD_S}s"]
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ratio = used / OVERHEAD_S
    return {
        "name": f"profile: CPU of the recorder, all CPUs at 99 Hz for {OVERHEAD_S:g} s, names included",
        "ours": ratio * 100,
        "theirs": None,
        "unit": "% of one CPU",
        "ratio": None,
        "bar": "<= 1 %",
        "met": ratio <= 0.01,
        "note": f"{used * 1e3:.0f} ms of CPU time, most of it at the end, whatever the duration",
    }


def main() -> None:
    """Measure and print the rows."""
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        rows = folding(Path(scratch))
    for row in [*rows, cost()]:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
