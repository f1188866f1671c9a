"""The rules by which functions belong to categories of the datacenter tax, read from TOML.

In: ``data/tax-map/*.toml`` and files of the user's. Out: `Rules`, categories in the order of drawing and
rules in the order of asking.

A file holds ``[[category]]`` tables (``id``, ``title``, ``group``) and ``[[rule]]`` tables: ``id``,
``category`` or ``ask = "caller"``, and ``functions`` or ``modules`` or both, patterns in which only ``*`` is
special. ``callers`` lists functions of which one must be further out in the stack; ``fallback`` is the
category when nobody further out settles it; ``only = "leaf"`` holds a rule to functions that were running
themselves.

Invariants: a rule without patterns, with an unknown key or category, or with an id given twice is refused
with the file's name.

Not here: applying them to stacks (``tax_map``).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, data_dir
from steelyard._base.toml import read_toml
from steelyard.analyze.profiles.profile import Frame, plain_name

APPLICATION = "application"
UNCLASSIFIED = "unclassified"
IDLE = "idle"
ASK_CALLER = ""
"""The category of rules that pass the question to the caller."""
GROUPS = ("application", "tax", "kernel", "runtime", "rest")
_KEYS = {"id", "category", "ask", "functions", "modules", "callers", "fallback", "only", "note"}
_OWN_PREFIX = "user:"
_NAME_LENGTH = 1000
_BYTES_AT_MOST = 16 << 20
_FRAMES_KEPT = 1 << 14


@dataclass(frozen=True, slots=True)
class Category:
    """One category of the map."""

    id: str
    title: str
    group: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Which frames it is about, and what it says of them."""

    id: str
    category: str
    functions: re.Pattern[str] | None
    modules: re.Pattern[str] | None
    callers: re.Pattern[str] | None
    fallback: str | None
    leaf_only: bool = False
    """Whether it holds only where the function itself was running."""

    @property
    def conditional(self) -> bool:
        """Whether it depends on the stack and not on the frame alone."""
        return self.leaf_only or self.callers is not None

    def accepts(self, name: str, bare: str, module: str) -> bool:
        """Whether the rule is about a function: by its full name or the bare one, and its module."""
        if self.modules is not None and not self.modules.fullmatch(module):
            return False
        functions = self.functions
        return functions is None or bool(
            functions.fullmatch(bare) or (name != bare and functions.fullmatch(name))
        )

    def accepts_caller(self, frame: Frame) -> bool:
        """Whether ``frame`` is one of the callers that the rule asks for."""
        return self.callers is not None and bool(self.callers.fullmatch(bare_name(frame.bare[:_NAME_LENGTH])))


@dataclass(frozen=True)
class Rules:
    """Categories and rules in their order."""

    categories: tuple[Category, ...]
    rules: tuple[Rule, ...]

    def matching(self, frame: Frame) -> tuple[Rule, ...]:
        """Return the rules about ``frame`` that may settle it: conditional ones up to the first without
        condition.
        """
        return self._known(frame)

    @functools.cached_property
    def _known(self) -> Callable[[Frame], tuple[Rule, ...]]:
        # Profiles of one program or fleet have most of their frames in common.
        return functools.lru_cache(maxsize=_FRAMES_KEPT)(self._find)

    def _find(self, frame: Frame) -> tuple[Rule, ...]:
        # Names may be of any length in a hostile file, and several stars take time that grows with a power of
        # it.
        function = frame.bare[:_NAME_LENGTH]
        name, bare, module = plain_name(function), bare_name(function), (frame.module or "")[:_NAME_LENGTH]
        matching: list[Rule] = []
        for rule in self.rules:
            if rule.accepts(name, bare, module):
                matching.append(rule)
                if not rule.conditional:
                    break
        return tuple(matching)

    def group_of(self, category: str) -> str:
        """Return the group of a category."""
        return next((entry.group for entry in self.categories if entry.id == category), "rest")


def bare_name(function: str) -> str:
    """Return a function's name without arguments, return type and template arguments at its end.

    Demanglers of C++ add arguments and, for templates, the return type; Go writes receivers in parentheses,
    which stay.

    >>> bare_name("rocksdb::Stats::FinishedOps(rocksdb::DB*, long) const")
    'rocksdb::Stats::FinishedOps'
    >>> bare_name("void folly::AtomicNotificationQueue<int>::push<int>(int&&)")
    'folly::AtomicNotificationQueue<int>::push<int>'
    >>> bare_name("runtime.(*mcache).refill"), bare_name("operator new(unsigned long)")
    ('runtime.(*mcache).refill', 'operator new')
    >>> bare_name("(anonymous namespace)::work(int)")
    '(anonymous namespace)::work'
    >>> bare_name("std::function<void (int)>::operator()(int) const")
    'std::function<void (int)>::operator()'
    """
    name = plain_name(function)
    text = name.removesuffix(" const").removesuffix(" [clone]")
    if text.endswith(")"):
        depth = 0
        for at in range(len(text) - 1, -1, -1):
            depth += (text[at] == ")") - (text[at] == "(")
            if depth == 0:
                # operator() has its own pair, and Go's receivers stand behind a dot.
                if at > 0 and not text[:at].endswith(("operator", ".")):
                    name = text[:at]
                break
    return _without_return_type(name)


def _without_return_type(name: str) -> str:
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        character = name[at]
        if character in ">)":
            depth += 1
        elif character in "<(":
            depth -= 1
        elif character == " " and depth == 0:
            head, tail = name[:at], name[at + 1 :]
            if "operator" in head.rsplit("::", 1)[-1] or head.endswith("operator") or tail.startswith("["):
                return name
            # Only what looks like a type before a qualified name: "void ns::f", Java's "int[] pkg.Type.f".
            cpp = "::" in tail and re.fullmatch(r"[\w:<>,*&()\s]+", head)
            java = "." in tail and re.fullmatch(r"[\w.$]+(\[\])*", head) and re.fullmatch(r"[\w.$<>]+", tail)
            return tail if cpp or java else name
    return name


def _patterns(value: Any, where: str) -> re.Pattern[str] | None:
    if value is None:
        return None
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise RecordError(f"{where}: patterns are a list of texts that are not empty")
    return re.compile("|".join(map(_expression, texts)), re.DOTALL)


def _expression(pattern: str) -> str:
    """Return the expression of a pattern.

    Each part is taken where it first occurs, and never again: whatever the stars, matching takes no more than
    the length of the name times that of the pattern.
    """
    first, *rest = re.split(r"\*+", pattern)
    if not rest:
        return re.escape(first)
    middle = "".join(f"(?>.*?{re.escape(part)})" for part in rest[:-1])
    return f"{re.escape(first)}{middle}.*{re.escape(rest[-1])}"


def _read(path: Path) -> dict[str, Any]:
    document = read_toml(path, at_most_bytes=_BYTES_AT_MOST)
    unknown = set(document) - {"category", "rule"}
    if unknown or not all(_is_tables(document.get(key, [])) for key in ("category", "rule")):
        raise RecordError(
            f"{path}: rules are [[category]] and [[rule]]"
            f" tables{', not ' + ', '.join(sorted(unknown)) if unknown else ''}",
            hint="docs/concepts/tax-map.md shows how rules are written",
        )
    return document


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _category(table: dict[str, Any], path: Path) -> Category:
    values = [table.get(key) for key in ("id", "title", "group")]
    if set(table) - {"id", "title", "group", "note"} or not all(isinstance(v, str) and v for v in values):
        raise RecordError(f"{path}: a category has id, title and group: {table}")
    category = Category(*map(str, values))
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", category.id) or category.group not in GROUPS:
        raise RecordError(
            f"{path}: category {category.id}: lower case, in one of the groups {', '.join(GROUPS)}"
        )
    return category


def _rule(table: dict[str, Any], path: Path, prefix: str, known: set[str]) -> Rule:
    rule_id = table.get("id")
    where = f"{path}: rule {rule_id}"
    if not isinstance(rule_id, str) or not rule_id:
        raise RecordError(f"{path}: a rule has no id: {table}")
    if set(table) - _KEYS:
        raise RecordError(f"{where}: unknown {', '.join(sorted(set(table) - _KEYS))}")
    asks = table.get("ask") == "caller"
    category = table.get("category")
    if asks == (category is not None) or ("ask" in table and not asks):
        raise RecordError(f'{where}: wants either a category or ask = "caller"')
    for name in (category, table.get("fallback")):
        if name is not None and not (isinstance(name, str) and name in known):
            raise RecordError(f"{where}: there is no category {name!r}")
    if table.get("only", "leaf") != "leaf":
        raise RecordError(f'{where}: only may be "leaf"')
    functions, modules = _patterns(table.get("functions"), where), _patterns(table.get("modules"), where)
    if functions is None and modules is None:
        raise RecordError(f"{where}: wants functions or modules")
    return Rule(
        prefix + rule_id,
        ASK_CALLER if asks else str(category),
        functions,
        modules,
        _patterns(table.get("callers"), where),
        table.get("fallback"),
        "only" in table,
    )


def read_rules(paths: Iterable[Path], *, prefix: str = "", base: Rules | None = None) -> Rules:
    """Read rules from ``paths`` in this order; those of ``base`` are asked after them.

    Raises RecordError when a file cannot be read or a rule is wrong.
    """
    documents = [(path, _read(path)) for path in paths]
    categories = {category.id: category for category in (base.categories if base else ())}
    for path, document in documents:
        for table in document.get("category", []):
            category = _category(table, path)
            categories[category.id] = category
    rules: list[Rule] = []
    seen: set[str] = set()
    for path, document in documents:
        for table in document.get("rule", []):
            rule = _rule(table, path, prefix, set(categories))
            if rule.id in seen:
                raise RecordError(f"{path}: rule {rule.id}: the id is given twice")
            seen.add(rule.id)
            rules.append(rule)
    order = sorted(categories.values(), key=lambda category: GROUPS.index(category.group))
    return Rules(tuple(order), (*rules, *(base.rules if base else ())))


@functools.cache
def shipped_rules() -> Rules:
    """Return the rules that come with Steelyard."""
    return read_rules(sorted((data_dir() / "tax-map").glob("*.toml")))


def rules_with(paths: Sequence[Path]) -> Rules:
    """Return the user's rules of ``paths``, which are asked first, and the shipped ones."""
    return read_rules(paths, prefix=_OWN_PREFIX, base=shipped_rules()) if paths else shipped_rules()
