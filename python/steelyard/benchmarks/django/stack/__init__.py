"""The Django application as benchmarks run it: its servers with the network's data, its load, metrics."""
