"""Steelyard's report package."""
