"""Reads a kept input again: ``python -m tests.attack.readers NAME FOLDER``, with a traceback where it fails.

``--fuzz FOLDER SECONDS SEED NAME...`` is a worker's command line.
"""

import os
import sys
from pathlib import Path

from tests.attack.readers import all_readers
from tests.attack.readers.workers import fuzz_each, try_bounded

os.environ["STEELYARD_DEBUG"] = "1"
readers = {reader.name: reader for reader in all_readers()}
if sys.argv[1] == "--fuzz":
    folder, seconds, seed = sys.argv[2:5]
    fuzz_each([readers[name] for name in sys.argv[5:]], Path(folder), float(seconds), int(seed))
else:
    try_bounded(readers[sys.argv[1]], Path(sys.argv[2]).resolve())
    print("it is read, or refused as it should be")
