"""Steelyard's machine package."""
