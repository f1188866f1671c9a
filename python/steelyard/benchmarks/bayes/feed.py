"""The process that reads a dump and hands its texts to the driver: ``feed DUMP CATEGORIES PIPE``.

In: a dump, a file of categories, a named pipe. Out: in the pipe, for each text its class, its title and
itself, each UTF-8 behind the number of its bytes (32 bits, big-endian); then what the whole came to as JSON
behind `END`. A failure is its reason behind `FAILED`: the driver says it.

Invariant: a pipe that ends without `END` or `FAILED` is one whose writer was killed.
"""

import json
import os
import signal
import struct
import sys
from pathlib import Path
from typing import BinaryIO

from steelyard._base import ExitCode, SteelyardError
from steelyard.benchmarks.bayes.dump import Categories, Reader

END, FAILED = -1, -2
_NUMBER = struct.Struct(">i")


def feed(dump: Path, categories: Path, pipe: BinaryIO) -> None:
    """Write every text of ``dump``, or why it cannot be read."""
    try:
        reader = Reader(dump, Categories.of_file(categories))
        for article in reader.articles():
            for part in (article.label, article.title, article.text):
                _write(pipe, part)
    except SteelyardError as error:
        pipe.write(_NUMBER.pack(FAILED))
        _write(pipe, error.message)
        return
    pipe.write(_NUMBER.pack(END))
    _write(pipe, json.dumps({"pages": reader.pages, "skipped": dict(reader.skipped)}))


def _write(pipe: BinaryIO, text: str) -> None:
    data = text.encode("utf-8", "replace")
    pipe.write(_NUMBER.pack(len(data)))
    pipe.write(data)


def main() -> None:
    """Feed, then wait to be stopped: whoever started this need not tell a kill from an end."""
    dump, categories, pipe = map(Path, sys.argv[1:])
    try:
        with pipe.open("wb", buffering=1 << 20) as file:
            feed(dump, categories, file)
    except BrokenPipeError:
        print("the driver stopped reading", file=sys.stderr)
        os._exit(int(ExitCode.FAILED))
    signal.pause()


if __name__ == "__main__":
    main()
