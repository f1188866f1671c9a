"""What holds for all tests.

How long one example of a property may take says nothing on a busy machine. A shell that starts
pytest in the background has it ignore SIGINT, and `nohup` SIGHUP, and every program that a test
starts would inherit that: tests send theirs both.

Bytecode is kept whatever the environment says: without it each of the hundreds of programs that tests start
compiles all that it imports, and pytest rewrites the assertions of a hundred modules before the first result.
"""

import os
import signal
import sys

from hypothesis import HealthCheck, settings

settings.register_profile("steelyard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steelyard")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
