"""Profiles as pages, flame graphs, tables and the formats of others."""
