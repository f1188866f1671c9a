"""Copies memory that no cache holds."""

import sys
import time

import numpy as np


def main() -> None:
    """Do it for as many seconds as the first argument says."""
    source = np.ones(int(sys.argv[2]), dtype=np.uint8)
    target = np.empty_like(source)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        np.copyto(target, source)


if __name__ == "__main__":
    main()
