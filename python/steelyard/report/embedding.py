"""Values inside a script element of a page, so that nothing in them is read as HTML.

In: plain values. Out: their JSON as Markup.
"""

import json
import re
from typing import Any

from markupsafe import Markup

# Characters that steer, as JSON writes them (after an even number of backslashes).
_ESCAPED_CONTROLS = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u(?:00[01][0-9a-f]|007f|00[89][0-9a-f]|200[ef]|202[89a-e]|206[6-9])"
)


def embed(value: Any) -> Markup:
    r"""Return ``value`` as JSON that is inert inside a script element, without characters that only steer.

    >>> embed("</script>")
    Markup('"\\u003c/script\\u003e"')
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    text = _ESCAPED_CONTROLS.sub(r"\1\\ufffd", text)
    for character, entity in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, entity)
    return Markup(text)  # noqa: S704 - nothing that HTML reads is left in it
