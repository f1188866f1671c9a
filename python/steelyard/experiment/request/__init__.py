"""What may be asked of an experiment, and the record that a request begins.

``fields`` has the requests: each field is a flag of the command line and a key of a file. ``record`` makes
the record of an experiment without trials, ``curve`` that of a scaling curve, ``scenarios`` that of a NUMA
experiment; ``arms``, ``file`` and ``service`` are their parts. Not here: trials (``engine``).
"""
