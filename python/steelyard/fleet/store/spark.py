"""Spark as an engine of the store: in this process (``spark-local``) or a standalone cluster.

In: files of a store. Out: Ibis tables on a session of its own, so that two open stores do not see each
other's views. Needs ``pip install steelyard[spark]`` and Java 17 or later; the workers must reach the store
by the same path. Nothing is downloaded: a bucket needs Hadoop's S3 client in Spark's own settings.

Not here: scheduling, which is Spark's.
"""

import importlib.util
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from steelyard._base import EnvironmentLacksError
from steelyard.fleet.store.engines import SQL_TYPES, reading, select_list
from steelyard.fleet.store.files import Place, reason
from steelyard.fleet.store.listing import StoreFile
from steelyard.fleet.store.row_checks import NOT_A_NUMBER
from steelyard.fleet.store.schema import PARTITIONS, TableSchema
from steelyard.telemetry.deferred import Deferred, built
from steelyard.telemetry.engine import fetch, fetch_batches

_SETTINGS = {
    # Days and clusters are words, whatever they look like.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # As in DuckDB, what cannot be computed is null and ends no query.
    "spark.sql.ansi.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": "-Dlog4j2.level=ERROR",
}


class SparkEngine:
    """Spark SQL behind Ibis."""

    dialect = 1

    def __init__(self, master: str) -> None:
        """Connect to ``master``: ``spark-local``, or a cluster's ``spark://HOST:PORT``."""
        _require()
        import ibis

        self.name = master
        self._session, self._owned = _session(master)
        self._connection = ibis.pyspark.connect(self._session.newSession())
        self._spark = self._connection._session
        for name, value in _SETTINGS.items():
            if name.startswith("spark.sql."):
                self._spark.conf.set(name, value)
        self._sources = 0

    def files(self, place: Place, schema: TableSchema, files: Sequence[StoreFile]) -> str:
        """Return the name of a view of the rows of ``files``."""
        scheme = "file://" if place.is_local else "s3a://"
        known = [column for column in schema.columns if column.name in files[0].columns]
        types = [
            f"`{schema.name_in(column.name, files[0].major)}` {SQL_TYPES[column.type][1]}" for column in known
        ]
        types += [f"`{name}` STRING" for name in (*PARTITIONS, "schema")]
        reader = self._spark.read.schema(", ".join(types))
        reader = reader.option("basePath", scheme + place.full(schema.name))
        self._sources += 1
        name = f"{schema.name}__{self._sources}"
        try:
            frame = reader.parquet(*(scheme + _escaped(place.full(file.path)) for file in files))
        except Exception as error:
            raise _refused(place, error) from error
        frame.createOrReplaceTempView(f"{name}_files")
        self.define(name, f"{select_list(schema, files[0], dialect=1)} FROM `{name}_files`")
        return name

    def define(self, name: str, query: str) -> None:
        """Give the rows of ``query`` a name."""
        self._spark.sql(query.replace(NOT_A_NUMBER, "isnan")).createOrReplaceTempView(name)

    def fetch_deferred(self, expression: Deferred) -> Any:
        """Return the rows of an expression over its tables, as an Arrow table."""
        with reading():
            return fetch(built(expression, lambda name, _: self._connection.table(name)))

    def fetch_batches(self, expression: Deferred, batch_rows: int) -> Iterator[Any]:
        """Yield the rows of an expression over its tables in its order, in batches."""
        with reading():
            yield from fetch_batches(
                built(expression, lambda name, _: self._connection.table(name)), batch_rows
            )

    def keep(self, expression: Deferred) -> Deferred:
        """Return the expression: Spark keeps nothing."""
        return expression

    def interrupt(self) -> None:
        """Stop the jobs of this application."""
        self._session.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """End the application, unless somebody else began it."""
        if self._owned:
            self._session.stop()


def _require() -> None:
    """Raise EnvironmentLacksError where PySpark or Java is not here."""
    if importlib.util.find_spec("pyspark") is None:
        raise EnvironmentLacksError(
            "PySpark is not installed", hint="pip install 'steelyard[spark]', or use --engine duckdb"
        )
    home = os.environ.get("JAVA_HOME")
    if shutil.which(os.path.join(home, "bin", "java") if home else "java") is None:
        raise EnvironmentLacksError(
            "Spark needs Java 17 or later, which is not here", hint="apt-get install openjdk-17-jre-headless"
        )


def _session(master: str) -> tuple[Any, bool]:
    """Return the session of ``master``, and whether it was begun for this."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    url = "local[*]" if master == "spark-local" else master
    if running is not None:
        held = running.sparkContext.master
        if held != url:
            raise EnvironmentLacksError(
                f"this process has a Spark application at {held} already",
                hint="close it before another is begun",
            )
        return running, False
    builder = SparkSession.builder.master(url).appName("steelyard")
    for name, value in (_SETTINGS | _addresses(url) | _bucket()).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate(), True
    except Exception as error:
        raise EnvironmentLacksError(
            f"Spark at {url} cannot be had: {_first_line(error)}",
            hint="check that the master runs, and that its workers can reach this machine",
        ) from error


def _addresses(master: str) -> dict[str, str]:
    """Return where executors find the driver: on loopback when the master is there, too."""
    if not master.startswith("spark://"):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    host, _, port = master.removeprefix("spark://").split(",")[0].rpartition(":")
    try:
        # Spark itself tries for a minute, and then prints a hundred lines.
        with socket.create_connection((host, int(port)), timeout=5):
            pass
    except (OSError, ValueError) as error:
        raise EnvironmentLacksError(
            f"no Spark master answers at {master}: {reason(error)}",
            hint="name one as spark://HOST:7077, or use --engine spark-local",
        ) from error
    if host in ("127.0.0.1", "localhost", "::1"):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {}


def _bucket() -> dict[str, str]:
    """Return what Hadoop's S3 client must know, from the same environment as AWS's tools."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return {}
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https")).lower(),
    }


def _refused(place: Place, error: BaseException) -> EnvironmentLacksError:
    message = _first_line(error)
    if "S3AFileSystem" in str(error):
        return EnvironmentLacksError(
            f"{place.url}: this Spark has no S3 client",
            hint="set spark.jars.packages org.apache.hadoop:hadoop-aws:3.4.1 in its spark-defaults.conf",
        )
    return EnvironmentLacksError(
        f"{place.url}: Spark cannot read it: {message}",
        hint="its workers must reach the store by the same path",
    )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _escaped(path: str) -> str:
    """Return ``path`` as a pattern that only it matches: Hadoop takes some letters for wildcards.

    >>> _escaped("/tmp/a{1}/b*")
    '/tmp/a\\\\{1\\\\}/b\\\\*'
    """
    return "".join(f"\\{letter}" if letter in "[]{}*?\\" else letter for letter in path)
