"""Steelyard's stats package."""
