"""Steelyard's bench package."""
