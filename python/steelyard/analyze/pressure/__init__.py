"""How hard a workload presses on each resource of a machine, and what its threads did."""
