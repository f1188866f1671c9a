"""Which jobs share a machine, and which job belongs on which platform."""
