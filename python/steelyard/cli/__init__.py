"""Steelyard's cli package."""
