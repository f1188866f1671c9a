"""Folders that Steelyard wrote, shown again: what is in one, and the answer that it gives."""
