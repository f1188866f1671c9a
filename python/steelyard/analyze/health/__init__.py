"""A health check held against earlier ones, and what changed of a machine."""
