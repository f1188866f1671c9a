//! Datacenter-tax and memory microbenchmarks.
