"""Names of all checks that the sources can emit, found in the sources themselves.

In: the modules of ``python/steelyard`` that make checks (``checks.measured``, ``checks.stated``), and the
Rust files of ``crates`` that import ``steelyard_record::Check``. Out: each name with the file that emits it,
and whether it can object.

A name that this cannot follow raises ``LookupError``: teach it, or write the name where it is emitted.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_NAME = re.compile(r"[a-z]+(-[a-z]+)*\Z")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Emitted:
    """A name that a file emits; ``*`` stands for a part that is data."""

    name: str
    path: str
    objects: bool = True
    """False for a check that can only pass: nobody needs advice about it."""


@dataclass(frozen=True)
class Module:
    """A module of the package, and which function each of its nodes stands in."""

    path: Path
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        """The module parsed."""
        return ast.parse(self.source)

    @cached_property
    def functions(self) -> dict[ast.AST, Function]:
        """The innermost function around each node."""
        found: dict[ast.AST, Function] = {}
        for function in ast.walk(self.tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                # The walk goes from outer to inner functions.
                found |= dict.fromkeys(ast.walk(function), function)
        return found

    def makes_checks(self) -> bool:
        """Whether checks of verdicts are made here, and by the table: ``Check`` itself is for no one else."""
        if self.path.parts[-2:] == ("analyze", "checks.py"):
            return False
        if any(True for _ in self.calls("Check")) and self._imports("steelyard.records", "Check"):
            raise LookupError(f"{_relative(self.path)}: a Check that is not made by steelyard.analyze.checks")
        return self._imports("steelyard.analyze", "checks")

    def _imports(self, module: str, name: str) -> bool:
        return name in self.source and any(
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith(module)
            and any(alias.name == name for alias in node.names)
            for node in ast.walk(self.tree)
        )

    def made(self) -> Iterator[ast.Call]:
        """Yield the calls that make a check."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("checks.measured", "checks.stated"):
                yield node

    def calls(self, name: str) -> Iterator[ast.Call]:
        """Yield the calls of a function, by its name."""
        for node in ast.walk(self.tree) if name in self.source else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield node

    def constant(self, name: str) -> ast.expr | None:
        """Return what a name of the module stands for."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    return node.value
        return None


class Sources:
    """Modules of Python, read once."""

    def __init__(self, folder: Path = ROOT / "python/steelyard") -> None:
        self.modules = [Module(path, path.read_text()) for path in sorted(folder.rglob("*.py"))]

    def emitted(self) -> Iterator[Emitted]:
        """Yield every name that a check is made with, or renamed to."""
        for module in self.modules:
            if not module.makes_checks():
                continue
            path = _relative(module.path)
            for call in module.made():
                objects = ast.unparse(call.args[1]) != "Level.VALID"
                for name in self._texts(module, call.args[0]):
                    yield Emitted(name, path, objects)
            for renamed in _renamed(module.tree):
                for name in self._texts(module, renamed):
                    yield Emitted(name, path)

    def _texts(self, module: Module, expression: ast.expr) -> Iterator[str]:
        """Yield the texts that an expression may have."""
        match expression:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=[*parts]):
                yield from self._joined(module, parts)
            case ast.Name(id=name) if (value := module.constant(name)) is not None:
                yield from self._texts(module, value)
            case ast.Name(id=name) if (function := module.functions.get(expression)) is not None:
                yield from self._arguments(module, function, name)
            case _:
                raise LookupError(f"{module.path}:{expression.lineno}: what is {ast.unparse(expression)}?")

    def _joined(self, module: Module, parts: Sequence[ast.expr]) -> Iterator[str]:
        texts = [""]
        for part in parts:
            more = ["*"]
            if not isinstance(part, ast.FormattedValue):
                more = list(self._texts(module, part))
            elif isinstance(part.value, ast.Name):
                more = list(self._texts(module, part.value))
            texts = [text + end for text in texts for end in more]
        yield from texts

    def _arguments(self, module: Module, function: Function, name: str) -> Iterator[str]:
        """Yield what callers pass for a parameter, in whichever module they are."""
        named = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        keywords = [one.arg for one in function.args.kwonlyargs]
        if name not in named + keywords:
            raise LookupError(f"{module.path}: {name} is no parameter of {function.name}")
        # A private function has its callers beside it; another may share its name.
        callers = [module] if function.name.startswith("_") else self.modules
        for caller in callers:
            for call in caller.calls(function.name):
                values = {one.arg: one.value for one in call.keywords}
                values |= dict(zip(named, call.args, strict=False))
                if name not in values:
                    raise LookupError(f"{caller.path}:{call.lineno}: {function.name} without {name}")
                yield from self._texts(caller, values[name])


def _renamed(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the new name in each ``model_copy(update={"id": ...})`` of a module that makes checks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".model_copy"):
            for keyword in node.keywords:
                if keyword.arg == "update" and isinstance(keyword.value, ast.Dict):
                    for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                        if isinstance(key, ast.Constant) and key.value == "id":
                            yield value


_IMPORT = re.compile(r"use steelyard_record::(?:Check;|\{[^}]*\bCheck\b)")
_LITERAL = re.compile(r"(?<!struct )(?<!-> )(?<!::)\bCheck \{\s*\w+:")
_MAKER = re.compile(r"\b(?:fn (\w+)\(\s*|let (\w+) = \|)id: &str\b")


def emitted_by_rust(folder: Path = ROOT / "crates") -> Iterator[Emitted]:
    """Yield the names that the data plane gives to its checks, where a literal or a function takes them."""
    for path in sorted(folder.glob("*/src/**/*.rs")):
        if path.name == "tests.rs":
            continue
        source = path.read_text().partition("#[cfg(test)]")[0]
        if _IMPORT.search(source):
            for name in names_in_rust(source, str(path)):
                yield Emitted(name, _relative(path))


def names_in_rust(source: str, path: str = "") -> Iterator[str]:
    """Yield the names that a file of Rust gives to checks.

    >>> list(names_in_rust('Check::measured("samples", x, y)'))
    ['samples']
    >>> list(names_in_rust('fn c(id: &str) { Check::stated(id, x, y) } fn d() { c("errors") }'))
    ['errors']
    """
    if literal := _LITERAL.search(source):
        raise LookupError(f"{path}: which id has {literal.group()}? Check::measured names it")
    makers = {name for match in _MAKER.finditer(source) for name in match.groups() if name}
    for name in (r"Check::(?:measured|against|stated)", *sorted(makers)):
        for call in re.finditer(rf'(?<!fn )(?<![.:\w]){name}\(\s*("([^"]+)"|[^,)]*)', source):
            if call.group(2):
                yield call.group(2)
            elif call.group(1).strip() != "id":
                raise LookupError(f"{path}: {name}({call.group(1)} is no name")


def is_name(text: str) -> bool:
    """Whether a text looks like the name of a check."""
    return _NAME.match(text) is not None


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
