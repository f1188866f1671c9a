"""Steelyard's analyze package."""
