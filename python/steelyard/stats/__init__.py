"""Statistics that need nothing but numbers: intervals, means, steadiness, distributions.

In: plain sequences of numbers, or a distribution file of ``data/``. Out: frozen dataclasses and numbers.
Every function is pure and says in its docstring which units it takes, and where its formula comes from.
An answer that the data cannot give is ``None`` with a reason, never a number.

Not here: reading runs, judging them (``bench``), and comparing them (``decide``).
"""
