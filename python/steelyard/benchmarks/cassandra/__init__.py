"""Apache Cassandra, one node, under YCSB's core workloads; the node also serves other benchmarks."""
