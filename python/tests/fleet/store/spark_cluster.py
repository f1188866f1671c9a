"""A standalone Spark cluster on loopback: a master and workers of PySpark's own scripts, ended by id."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_READY = {
    "Master": "Starting Spark master at ",
    "Worker": "Successfully registered with master ",
}


@contextmanager
def cluster(folder: Path, hosts: Sequence[str] = ("127.0.0.1",)) -> Iterator[str]:
    """Run a master, and a worker on each address, in ``folder``; yield the master's address."""
    environment = os.environ | {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_NO_DAEMONIZE": "1",
    }
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, host: str, *arguments: str) -> str:
        log = folder / f"{name}-{host}.log"
        # The kernel ends the daemon when the test's process ends, however that comes.
        command = ["setpriv", "--pdeathsig", "KILL", str(_CLASS)]
        command += [f"org.apache.spark.deploy.{name.lower()}.{name}", "--host", host, "--port", "0"]
        with log.open("wb") as file:
            child = subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**environment, "SPARK_LOCAL_IP": host},
                cwd=folder,
            )
        running.append(child)
        until = time.monotonic() + 90
        while time.monotonic() < until and child.poll() is None:
            for line in log.read_text(errors="replace").splitlines():
                if _READY[name] in line:
                    return line.split(_READY[name])[1].split()[0]
            time.sleep(0.1)
        raise AssertionError(f"Spark's {name} did not start:\n{log.read_text(errors='replace')[-2000:]}")

    try:
        master = start("Master", "127.0.0.1")
        cores = str(max(1, 2 // len(hosts)))
        for host in hosts:
            work = folder / f"work-{host}"
            start("Worker", host, "--cores", cores, "--memory", "1g", "--work-dir", str(work), master)
        yield master
    finally:
        for child in reversed(running):
            child.kill()
            child.wait()
