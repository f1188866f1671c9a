"""``steelyard serve`` and ``steelyard mcp`` as the parser has them: servers of one folder of runs."""
