"""The driver of the recommender: makes ratings, fits a model by alternating least squares, checks it.

In: the arguments below, and the line ``go`` on standard input once the warm-up is over. Out: JSON lines as
``driver.py`` prints them; a ``query`` is one fit. A failure is one line on standard error and exit code 4.

The estimator is Spark's own, on the Java side: PySpark's would need NumPy.
"""

import argparse
import re
import sys
import time

from driver import HERE, Files, filled, reason, say

VERSION = 1
"""Of the ratings: others give other models."""
RATINGS_PER_USER, RATINGS_PER_ITEM = 154, 400
"""As in MovieLens 25M: 25,000,095 ratings of 162,541 users, 62,423 films."""


def make_ratings(spark, files, options):
    """Make the ratings unless they are there; return what they are."""
    users = max(100, options.ratings // RATINGS_PER_USER)
    items = max(50, options.ratings // RATINGS_PER_ITEM)
    names = {"rows": options.ratings, "users": users, "items": items, "partitions": options.partitions}
    wanted = {"version": VERSION, "seed": options.data_seed, "ratings": options.ratings}
    known = files.read(f"{options.tables}/tables.json")
    reused = known is not None and all(known.get(name) == value for name, value in wanted.items())
    begin_ns = time.monotonic_ns()
    if not reused:
        text = re.sub(r"^--.*\n", "", (HERE / "ratings.sql").read_text(), flags=re.MULTILINE)
        table = spark.sql(filled(text.strip().rstrip(";"), names, options.data_seed))
        table.write.mode("overwrite").parquet(f"{options.partial}/ratings")
        known = {
            **wanted,
            "users": users,
            "items": items,
            "events_bytes": files.size_bytes(f"{options.partial}/ratings"),
        }
        files.write(f"{options.partial}/tables.json", known)
        files.move(options.partial, options.tables)
    spark.read.parquet(f"{options.tables}/ratings").createOrReplaceTempView("ratings")
    return {**known, "reused": reused, "seconds": (time.monotonic_ns() - begin_ns) / 1e9}


def fit(spark, options, name, rows):
    """Factorise the ratings once; return the model."""
    java = spark.sparkContext._jvm.org.apache.spark.ml.recommendation.ALS()
    java.setUserCol("user_id").setItemCol("item_id").setRatingCol("rating")
    java.setRank(options.rank).setMaxIter(options.iterations).setRegParam(0.1).setSeed(options.data_seed)
    # What has no rating in the training set has no prediction, and is no part of the error.
    java.setColdStartStrategy("drop").setNumUserBlocks(options.partitions).setNumItemBlocks(
        options.partitions
    )
    spark.sparkContext.setJobGroup(name, f"fit {name}")
    begin_ns = time.monotonic_ns()
    model = java.fit(rows._jdf)
    # Factors are computed when they are asked for.
    factors = model.userFactors().count() + model.itemFactors().count()
    say("query", name=name, begin_ns=begin_ns, end_ns=time.monotonic_ns(), factors=int(factors))
    spark._jvm.System.gc()
    return model


def judge(spark, model):
    """Return the error of a model over ratings that it has not seen, and that of the mean rating."""
    from pyspark.sql import DataFrame

    unseen = spark.sql("SELECT user_id, item_id, rating FROM ratings WHERE is_test")
    DataFrame(model.transform(unseen._jdf), spark).createOrReplaceTempView("predicted")
    row = spark.sql(
        "SELECT count(*), sqrt(avg(pow(rating - prediction, 2))), stddev_pop(rating) FROM predicted"
    ).first()
    return {"predicted": int(row[0]), "rmse": float(row[1]), "deviation": float(row[2])}


def work(options):
    """Do everything in order."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(options.master).appName("steelyard-als")
    for name, value in (text.split("=", 1) for text in options.conf):
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        say("ready", version=spark.version, slots=spark.sparkContext.defaultParallelism)
        spark.sparkContext.setJobGroup("tables", "generated ratings")
        say("tables", **make_ratings(spark, Files(spark), options))
        rows = spark.sql("SELECT user_id, item_id, rating FROM ratings WHERE NOT is_test").persist()
        rows.count()
        for number in range(options.warmups):
            fit(spark, options, f"warmup-{number + 1}", rows)
        say("warm")
        if sys.stdin.readline().strip() != "go":
            return
        models = [fit(spark, options, f"query-{number + 1}", rows) for number in range(options.fits)]
        say("measured")
        spark.sparkContext.setJobGroup("verify", "error of the models")
        say("checksums", found=[judge(spark, model) for model in models])
    finally:
        spark.stop()
    say("end")


def parse(arguments):
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", required=True)
    parser.add_argument("--tables", required=True, help="folder or URL of the ratings")
    parser.add_argument("--partial", required=True, help="folder or URL where they are made")
    parser.add_argument("--ratings", type=int, required=True)
    parser.add_argument("--data-seed", type=int, required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--warmups", type=int, default=1)
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    return parser.parse_args(arguments)


def main():
    """Run; a failure is one line."""
    options = parse(sys.argv[1:])
    try:
        work(options)
    except Exception as error:
        print(f"als: {reason(error)}", file=sys.stderr)
        sys.exit(4)


if __name__ == "__main__":
    main()
