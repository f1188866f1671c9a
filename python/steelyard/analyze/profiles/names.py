"""Names of functions, short enough for a line.

In: a function as a profile has it. Out: what a reader recognizes it by.

Not here: what a function belongs to (``tax_map``).
"""

from __future__ import annotations

import re

# What a JVM writes, its parameters taken off: the result's type, packages, class and method. Hidden classes
# have an address.
_JAVA = re.compile(
    r"(?:[\w.$\[\]]+ )?(?:[a-z_][\w$]*\.)+(?P<type>[\w$]+)(?:/0x[0-9a-f]+)?(?P<method>\.[\w$<>]+)"
    r"|\[?L?(?:[\w$]+/)+(?P<inner>[\w$]+;::[\w$<>]+)"
)


def short_function(function: str) -> str:
    """Return ``function`` without parameters, and a method of Java without its result's type and packages.

    >>> short_function("int org.apache.spark.UTF8String.levenshteinDistance(org.apache.spark.UTF8String)")
    'UTF8String.levenshteinDistance'
    >>> short_function("Lio/netty/channel/nio/NioEventLoop;::run")
    'NioEventLoop::run'
    >>> short_function("rocksdb::Cache<rocksdb::Key (*)(int)>::Find<true>(rocksdb::Slice const&, int) const")
    'rocksdb::Cache<rocksdb::Key (*)(int)>::Find<true>'
    >>> short_function("(anonymous namespace)::Table::operator()")
    '(anonymous namespace)::Table::operator()'
    >>> short_function("<Root as Service>::work")
    '<Root as Service>::work'
    """
    bare = _without_parameters(function)
    java = _JAVA.fullmatch(bare)
    if java is None:
        return bare
    # A dotted name without parameters may be of any language.
    if java["type"] is not None:
        return java["type"] + java["method"] if bare != function else function
    return java["inner"].replace(";::", "::")


def _without_parameters(function: str) -> str:
    end = function.removesuffix(" const")
    if not end.endswith(")"):
        return function
    depth = 0
    for place in range(len(end) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(end[place], 0)
        if depth == 0:
            before = end[:place]
            if before.endswith("operator"):
                return function
            is_call = bool(before) and (before[-1].isalnum() or before.endswith(("_", "$", ">", "]", "()")))
            return before if is_call else function
    return function
