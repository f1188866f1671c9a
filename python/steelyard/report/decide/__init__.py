"""Answers of decisions: which machine, how faithful, how much."""
