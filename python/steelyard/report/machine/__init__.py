"""Inventories, charts of a machine's telemetry, and what a machine can measure."""
