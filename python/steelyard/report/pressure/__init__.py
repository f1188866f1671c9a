"""The pressure point matrix: on a terminal, as JSON, and as a page with the figures of each workload."""
