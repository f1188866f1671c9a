"""Where the ``steelyard`` command begins.

``--help`` is printed before the command line is loaded. An interrupt while that is loaded ends the process
as it ends any other, without a traceback; ``main`` takes interrupts from then on.
"""

import os
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:] in (["--help"], ["-h"]) and _printed():
        return
    from steelyard.cli import main as command_line

    command_line.main()


def _printed() -> bool:
    """Print the help; return False where nothing can be written, which the command line reports."""
    from steelyard.cli.overview import overview

    try:
        os.write(1, overview().encode())
    except OSError:
        return False
    return True
