"""A fleet's store, and the questions asked of it.

In: a store, which is a folder or an S3 bucket with Parquet files that agents, importers or the simulator
wrote (``docs/reference/store.md``). Out: typed answers, each from one Ibis expression that runs the same on
DuckDB and on Spark.

Invariants: rows are aggregated by the engine, never gathered in Python; what is missing is null, never 0; a
file that cannot be trusted is put aside and named, and changes no result.

Not here: recording (``steelyard-agent``), drawing (``report``), the command line (``cli``).
"""
