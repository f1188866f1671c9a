"""The version of the records that this Steelyard writes; known without loading what checks them."""

SCHEMA_VERSION = "1.0"
"""Readers accept any minor version of the same major one."""
