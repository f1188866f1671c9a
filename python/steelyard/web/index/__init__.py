"""The index of a folder of runs: what is in it, found in milliseconds.

``entries`` reads one folder, ``store`` keeps what was read, ``filters`` is what can be asked of it.
"""
