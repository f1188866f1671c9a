"""Programs that record beside a workload, as hooks of a run and characterizations both start them."""
