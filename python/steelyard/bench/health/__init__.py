"""Health checks of a machine: making one, and the limits that it measured."""
