"""What holds for all tests.

How long one example of a property may take says nothing on a busy machine. Which examples are tried follows
from the test, so that it passes or fails whoever runs it; `make fuzz` draws others.

A shell that starts pytest in the background has it ignore SIGINT, and `nohup` SIGHUP, and every program that
a test starts would inherit that: tests send theirs both.

What test processes share is removed by the process that started them: those that take long to end are killed.

Bytecode is kept whatever the environment says: without it each of the hundreds of programs that tests start
compiles all that it imports, and pytest rewrites the assertions of a hundred modules before the first result.
"""

import functools
import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from tests import shared_folder
from tests.browsing import browser as browser

_ALWAYS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steelyard", _ALWAYS, derandomize=True)
settings.register_profile("search", _ALWAYS, print_blob=True)
settings.load_profile("steelyard")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.add_cleanup(functools.partial(shared_folder.remove_root, shared_folder.make_root()))
