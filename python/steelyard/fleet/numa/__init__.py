"""What NUMA locality costs a fleet."""
