"""Steelyard's decide package."""
