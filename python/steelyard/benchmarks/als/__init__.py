"""Recommendations by alternating least squares in Spark."""
