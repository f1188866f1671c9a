"""``make truth``: every statistic that is printed, against simulated truth.

A module of ``situations`` holds what is known of one statistic: the situations in which it is tried, each
with a trial that draws data whose truth is known, asks the product, and says whether the answer was right.
The result is ``docs/truth.md``; a part of it, with fewer trials, runs in the tests.

Situations take what the product takes for granted and vary it: bursty, clustered, correlated, few, constant.
A trial never imports how the product models its data: it draws from another model wherever it can.
"""
