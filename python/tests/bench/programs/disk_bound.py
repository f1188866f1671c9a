"""Writes blocks past every cache, one at a time, into the file that is named."""

import mmap
import os
import sys
import time


def main() -> None:
    """Do it for as many seconds as the first argument says."""
    size = int(sys.argv[3])
    block = mmap.mmap(-1, size)
    block.write(os.urandom(size))
    file = os.open(sys.argv[2], os.O_CREAT | os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
    os.ftruncate(file, 64 << 20)
    end = time.monotonic() + float(sys.argv[1])
    at = 0
    while time.monotonic() < end:
        os.pwrite(file, block, at)
        at = (at + size) % (64 << 20)


if __name__ == "__main__":
    main()
