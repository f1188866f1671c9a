"""memcached as benchmarks run it: the server with its clients, its counters, metrics."""
