"""Runs threads that hand one lock round: each holds it while it works, and nobody else can."""

import sys
import threading
import time


def main() -> None:
    """Do it for as many seconds as the first argument says."""
    lock = threading.Lock()
    end = time.monotonic() + float(sys.argv[1])

    def work() -> None:
        """Hold the lock for most of the time."""
        while time.monotonic() < end:
            with lock:
                sum(range(2_000))

    threads = [threading.Thread(target=work) for _ in range(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
