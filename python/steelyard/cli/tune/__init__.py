"""``steelyard tune``: its flags (``commands``), and what it does with them (``make``, ``deployed``)."""
