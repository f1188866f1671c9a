"""Results in the formats of others: a row a figure, metrics of monitoring systems, profiles, findings.

In: a folder that Steelyard wrote. Out: text, Arrow tables and bytes. Values are exact and in base units; one
that is missing stays missing, with its reason wherever the format has a place for it.

Not here: where an export goes, and programs that make one (``cli.export``).
"""
