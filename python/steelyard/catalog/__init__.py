"""The folder of runs as pages and agents see it: which runs there are, and which of its files may be read.

``index`` finds runs in milliseconds (``entries`` reads one folder, ``filters`` is what can be asked),
``roots`` refuses what lies outside, ``folder`` holds what a server was started with, ``comparison`` compares
runs by their paths, ``fields`` has what can be asked of a query as text values.

In: a folder of runs, a fleet's store, tables. Out: entries, answers. Not here: pages (``web``), tools
(``agents``).
"""
