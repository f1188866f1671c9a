"""Computes in one thread."""

import sys
import time


def main() -> None:
    """Do it for as many seconds as the first argument says."""
    end = time.monotonic() + float(sys.argv[1])
    value = 1
    while time.monotonic() < end:
        for _ in range(10_000):
            value = value * 1103515245 + 12345 & 0x7FFFFFFF


if __name__ == "__main__":
    main()
