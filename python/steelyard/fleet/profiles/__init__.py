"""Profiles of a fleet: where cycles go, the difference of two parts, shares with intervals."""
