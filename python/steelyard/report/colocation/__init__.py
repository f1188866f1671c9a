"""What co-location costs two workloads: on a terminal, and as a page."""
