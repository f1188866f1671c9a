"""``steelyard serve``: runs, comparisons, trends, a fleet and decisions as web pages, and the same as an API.

In: a folder of runs, a fleet's store, tables. Out: pages rendered here, by the components of reports, and
JSON. It reads only: it starts no program and writes nothing but its index.

``serve`` starts the server, ``app`` has the routes, ``security`` stands before all of them, ``pages`` make
answers. Not here: which runs there are, and which of their files may be read (``catalog``).
"""
