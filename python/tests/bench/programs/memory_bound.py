"""Copies memory that no cache holds, until it is ended; says when that memory is there."""

import sys

import numpy as np


def main() -> None:
    """Copy as many bytes as the first argument says, again and again."""
    source = np.ones(int(sys.argv[1]), dtype=np.uint8)
    target = np.ones_like(source)
    print("ready", flush=True)
    while True:
        np.copyto(target, source)


if __name__ == "__main__":
    main()
