"""Business logic of a large code base: generated functions that work on the data of a request.

Each request calls another part of them, so that the processor sees as much code as that of a large service.
"""

from django.conf import settings
from generated import TABLE

_STRIDE = 797
"""Prime, so that one request's calls spread over all modules."""


def work(view, user, items):
    """Return a number that depends on every function called; `items` have id, author, likes and text."""
    if not items:
        return 0
    state = user * 2654435761 + view
    place = state % len(TABLE)
    for _ in range(settings.FUNCTION_CALLS):
        state = TABLE[place](items, state)
        place = (place + _STRIDE) % len(TABLE)
    return state
