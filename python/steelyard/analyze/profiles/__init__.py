"""Profiles: stacks, the tax map, the difference of two, functions behind a change."""
