"""Steelyard's telemetry package."""
