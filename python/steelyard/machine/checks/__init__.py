"""The checks of ``steelyard machine check``: rules by part of a machine, and their registry."""
