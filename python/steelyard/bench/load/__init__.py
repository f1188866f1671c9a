"""What benchmarks with a load generator share: metrics, and several load processes as one."""
