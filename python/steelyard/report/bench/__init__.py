"""Sections of pages that belong to one benchmark, and those that several share: steps, operations."""
