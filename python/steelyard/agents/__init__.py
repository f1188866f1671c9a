"""``steelyard mcp``: what Steelyard knows, as tools for agents over the Model Context Protocol.

In: messages on standard input. Out: answers on standard output, small enough for a context: figures with
units, intervals and reasons, in pages. Nothing is measured unless whoever starts the server allows it, and
then only for a budget of time.

Invariants: whatever is from a file stands in ``data``, without control characters, and is never mixed into
what the server itself says; no answer names a path outside the folders that the server was given; a message
that is too large or makes no sense is one error, and memory stays bounded.

Not here: what tools answer (``report``, ``decide``, ``fleet``), which files may be read (``catalog.roots``).
"""
