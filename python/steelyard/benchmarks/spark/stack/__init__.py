"""Apache Spark as benchmarks run it: a cluster, its settings, a driver that is followed, its event log."""
