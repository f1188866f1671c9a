"""The datacenter tax: microbenchmarks."""
