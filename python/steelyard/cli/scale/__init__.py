"""``steelyard scale``: its flags (``command``), and what it does with them (``make``)."""
