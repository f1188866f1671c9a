"""``steelyard fleet``: one module for each group of queries."""
