"""``steelyard scale``: its flags (``command``), what it does with them (``make``), and its document
(``document``).
"""
