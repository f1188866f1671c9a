"""Where the ``steelyard`` command begins.

An interrupt while the command line is still being loaded ends the process as it ends any other, without a
traceback; ``main`` takes interrupts from then on.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run the command line and exit."""
    from steelyard.cli import main as command_line

    command_line.main()
