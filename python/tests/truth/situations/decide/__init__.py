"""Situations of decisions: scores, choices, sizes, projections, distances of workloads."""
