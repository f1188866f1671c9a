"""Runs threads that hand one lock round: each holds it while it works, and nobody else can."""

import sys
import threading
import time


def main() -> None:
    """Do it for as many seconds as the first argument says."""
    lock = threading.Lock()
    end = time.monotonic() + float(sys.argv[1])

    def work() -> None:
        """Hold the lock while 2 ms of CPU time are used, then leave it to another."""
        while time.monotonic() < end:
            with lock:
                until_s = time.thread_time() + 0.002
                while time.thread_time() < until_s:
                    pass
            time.sleep(0.0001)

    threads = [threading.Thread(target=work) for _ in range(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
