"""The driver of SparkBench: makes the tables, runs the query, checks its result.

In: the arguments below, and the line ``go`` on standard input once the warm-up is over. Out: a JSON line
for every step, with times of CLOCK_MONOTONIC in ns; Spark's event log, which has the figures of stages and
tasks. A failure is one line on standard error and exit code 4.

Uses nothing but PySpark and Python's own library.
"""

import argparse
import json
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
VERSION = 1
"""Of the tables and the query: others give other results."""
ITEMS, REGIONS, DEVICES, CATEGORIES = 50_000, 60, 300, 200
ROWS_PER_USER = 50
WORDS = (HERE / "words.txt").read_text().split()


def say(event, **fields):
    """Print one JSON line."""
    print(
        json.dumps(
            {"event": event, "monotonic_ns": time.monotonic_ns(), "realtime_ns": time.time_ns(), **fields}
        )
    )
    sys.stdout.flush()


def filled(text, names, seed):
    """Return SQL with its braces, u(), h(), zipf() and word() filled in.

    >>> filled("u(3) < {half}", {"half": "0.5"}, 1)
    '(shiftrightunsigned(xxhash64(id, 1, 3), 11) / 9007199254740992D) < 0.5'
    """
    for name, value in {**names, "seed": seed}.items():
        text = text.replace(f"{{{name}}}", str(value))
    words = "array(" + ", ".join(f"'{word}'" for word in WORDS) + ")"

    def zipf(match):
        column, count, exponent = int(match[1]), int(match[2]), float(match[3])
        # The inverse of the continuous distribution: (count + 1)^(1 - s) is where its last key ends.
        span, power = (count + 1) ** (1 - exponent) - 1, 1 / (1 - exponent)
        value = f"CAST(floor(pow(1 + u({column}) * {span!r}D, {power!r}D)) AS BIGINT)"
        return f"least(greatest({value}, 1L), {count}L)"

    text = re.sub(r"zipf\((\d+), (\d+), ([\d.]+)\)", zipf, text)
    text = re.sub(
        r"word\((\d+)\)", rf"element_at({words}, CAST(1 + floor(u(\1) * {len(WORDS)}) AS INT))", text
    )
    text = re.sub(
        r"\bh\((\w+), (\d+)\)",
        rf"(shiftrightunsigned(xxhash64(\1, {seed}, \2), 11) / 9007199254740992D)",
        text,
    )
    return re.sub(
        r"\bu\((\d+)\)", rf"(shiftrightunsigned(xxhash64(id, {seed}, \1), 11) / 9007199254740992D)", text
    )


class Files:
    """Files wherever Hadoop's clients reach."""

    def __init__(self, spark):
        self._jvm = spark._jvm
        self._conf = spark._jsc.hadoopConfiguration()

    def _at(self, url):
        path = self._jvm.org.apache.hadoop.fs.Path(url)
        return path.getFileSystem(self._conf), path

    def read(self, url):
        """Return a small file as JSON, None where it is not there."""
        system, path = self._at(url)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return json.loads(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, url, document):
        """Write a small JSON file."""
        system, path = self._at(url)
        stream = system.create(path, True)
        try:
            stream.write(bytearray(json.dumps(document).encode()))
        finally:
            stream.close()

    def move(self, source, target):
        """Rename a folder, replacing ``target``."""
        system, path = self._at(source)
        goal = self._at(target)[1]
        system.delete(goal, True)
        system.mkdirs(goal.getParent())
        if not system.rename(path, goal):
            raise RuntimeError(f"{source} cannot be renamed to {target}")

    def remove(self, url):
        """Remove a folder with all that is in it."""
        system, path = self._at(url)
        system.delete(path, True)

    def size_bytes(self, url):
        """Return the bytes of a folder's files."""
        system, path = self._at(url)
        return int(system.getContentSummary(path).getLength())


def make_tables(spark, files, options):
    """Make the tables unless they are there; return what they are."""
    names = {
        "rows": options.rows,
        "users": max(1000, options.rows // ROWS_PER_USER),
        "partitions": max(options.partitions, 1),
        "items": ITEMS,
        "regions": REGIONS,
        "devices": DEVICES,
        "categories": CATEGORIES,
    }
    wanted = {"version": VERSION, "seed": options.data_seed, "rows": options.rows}
    known = files.read(f"{options.tables}/tables.json")
    reused = known is not None and all(known.get(name) == value for name, value in wanted.items())
    begin_ns = time.monotonic_ns()
    if not reused:
        parts = re.split(r"^-- (\w+): .*$", (HERE / "tables.sql").read_text(), flags=re.MULTILINE)[1:]
        for name, statement in zip(parts[::2], parts[1::2], strict=True):
            table = spark.sql(filled(statement.strip().rstrip(";"), names, options.data_seed))
            writer = table.write.mode("overwrite")
            if name == "events":
                writer = writer.partitionBy("period")
            writer.parquet(f"{options.partial}/{name}")
        known = {
            **wanted,
            "users": names["users"],
            "events_bytes": files.size_bytes(f"{options.partial}/events"),
        }
        files.write(f"{options.partial}/tables.json", known)
        files.move(options.partial, options.tables)
    for name in ("events", "items", "regions", "devices"):
        spark.read.parquet(f"{options.tables}/{name}").createOrReplaceTempView(name)
    return {**known, "reused": reused, "seconds": (time.monotonic_ns() - begin_ns) / 1e9}


def run_query(spark, options, name):
    """Run the query once; its table is called ``name``."""
    text = re.sub(r"^--.*\n", "", (HERE / "query.sql").read_text(), flags=re.MULTILINE)
    text = text.replace("{output}", f"{options.output}/{name}").replace(
        "{partitions}", str(options.partitions)
    )
    spark.sparkContext.setJobGroup(name, f"query {name}")
    begin_ns = time.monotonic_ns()
    spark.sql(text)
    say("query", name=name, begin_ns=begin_ns, end_ns=time.monotonic_ns())
    # Spark removes the shuffle files of a query when Java has forgotten it.
    spark._jvm.System.gc()


def checksum(spark, url):
    """Return the rows of a table and a sum over them that does not depend on their order."""
    table = spark.read.parquet(url)
    columns = ", ".join(f"`{name}`" for name in sorted(table.columns))
    row = table.selectExpr("count(*)", f"sum(CAST(xxhash64({columns}) AS DECIMAL(38, 0)))").first()
    return {"rows": int(row[0]), "sum": str(row[1])}


def verify(spark, files, options, names):
    """Compare the results with each other and with the first ones of these tables."""
    spark.sparkContext.setJobGroup("verify", "checksum of the result")
    found = [{**checksum(spark, f"{options.output}/{name}"), "name": name} for name in names]
    first = {"rows": found[0]["rows"], "sum": found[0]["sum"]}
    place = f"{options.tables}/result.json"
    expected = files.read(place)
    is_new = expected is None
    if is_new and all(each["sum"] == first["sum"] for each in found):
        files.write(place, first)
    say(
        "checksums",
        found=found,
        expected=first if expected is None else expected,
        first_run=is_new,
        output_bytes=files.size_bytes(f"{options.output}/{names[0]}"),
    )


def parse(arguments):
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", required=True)
    parser.add_argument("--tables", required=True, help="folder or URL of the tables")
    parser.add_argument("--partial", required=True, help="folder or URL where tables are made")
    parser.add_argument("--output", required=True, help="folder or URL of results")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--data-seed", type=int, required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--warmups", type=int, default=1)
    parser.add_argument("--queries", type=int, default=1)
    parser.add_argument("--keep-output", action="store_true", help="leave the results of queries")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    return parser.parse_args(arguments)


def clear(files, options):
    """Remove what is of this run only. A failure is reported, and does not hide why the run ended."""
    try:
        files.remove(options.partial)
        if not options.keep_output:
            files.remove(options.output)
        say("removed")
    except Exception as error:
        print(f"driver: {options.partial} and {options.output} are left: {reason(error)}", file=sys.stderr)


def work(options):
    """Do everything in order."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(options.master).appName("steelyard-spark")
    given = dict(text.split("=", 1) for text in options.conf)
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    files = Files(spark)
    try:
        say("ready", version=spark.version, slots=spark.sparkContext.defaultParallelism)
        spark.sparkContext.setJobGroup("tables", "generated tables")
        say("tables", **make_tables(spark, files, options))
        for number in range(options.warmups):
            run_query(spark, options, f"warmup-{number + 1}")
            files.remove(f"{options.output}/warmup-{number + 1}")
        say("warm")
        if sys.stdin.readline().strip() != "go":
            return
        names = [f"query-{number + 1}" for number in range(options.queries)]
        for name in names:
            run_query(spark, options, name)
        say("measured")
        verify(spark, files, options, names)
    finally:
        clear(files, options)
        spark.stop()
    say("end")


def reason(error):
    """Return the line of a failure that says what failed: Java's cause, where there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    first = lines[0] if lines else type(error).__name__
    job = next(
        (line for line in lines if "Job aborted due to stage failure" in line or "SparkException:" in line),
        None,
    )
    return " ".join(dict.fromkeys([job or first, *causes[-1:]]))[:600]


def main():
    """Run; a failure is one line."""
    options = parse(sys.argv[1:])
    try:
        work(options)
    except Exception as error:
        print(f"driver: {reason(error)}", file=sys.stderr)
        sys.exit(4)


if __name__ == "__main__":
    main()
