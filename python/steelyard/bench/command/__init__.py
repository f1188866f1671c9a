"""A command that is run again and again."""
