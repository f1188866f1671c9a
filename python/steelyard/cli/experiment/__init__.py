"""``steelyard experiment``: flags (``command``), a new one (``begin``), what is done with it (``make``)."""
