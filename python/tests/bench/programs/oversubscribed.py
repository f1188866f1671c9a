"""Computes in as many processes as are named."""

import multiprocessing
import sys
import time


def work(seconds: float) -> None:
    """Compute."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(10_000))


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(float(sys.argv[1]),)) for _ in range(int(sys.argv[2]))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
