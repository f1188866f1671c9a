"""Capacity of cores that is left, and frequency that power capping took."""
