"""Installing a benchmark: disk, packages, payload, and a smoke run that shows that it works.

In: a benchmark's recipe. Out: an `Installation`, written only when the smoke run came to a result.

Invariants: what fails leaves no record but a claim to the packages that came; a payload's folder is the
payload's own, and is removed whole with the last benchmark that uses it.
Not here: what a benchmark needs (``recipe``), and package managers (``packages``).
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import steelyard
from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError, without_escapes
from steelyard.analyze import checks
from steelyard.bench import declaration
from steelyard.bench.launch import execute
from steelyard.bench.request import RunRequest
from steelyard.bench.stack import claims
from steelyard.bench.stack import installation as records
from steelyard.bench.stack.installation import Installation, SmokeRun
from steelyard.bench.stack.java import find_java, has_java, java_home
from steelyard.bench.stack.packages import Manager, find_manager
from steelyard.bench.stack.recipe import (
    MARK,
    Packages,
    Recipe,
    is_installed,
    missing,
    payload_dir,
    payload_source,
    prepared_dir,
    stacks_dir,
)
from steelyard.bench.supervised import run_to_end
from steelyard.records import Level

if TYPE_CHECKING:
    from steelyard.bench.progress import Progress
    from steelyard.records import Run

PAYLOAD_TIMEOUT_S = 3600.0
DISK_RESERVE_BYTES = 512 << 20
"""Disk space that must stay free beside what is installed: logs, the smoke run."""
_ABOVE = ", see above"
_ERROR = re.compile(r"\[?(error|e|fatal)\b\]?:?\s", re.IGNORECASE)
"""How Maven, pip, apt and git begin the line that says what is wrong."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to install."""

    cache: Path | None = None
    """Folder where everything that is downloaded is kept."""
    offline: bool = False
    """Whether to take everything from the cache."""
    smoke: bool = True
    force: bool = False
    """Whether to install again what is installed."""


def recipe_of(name: str) -> Recipe:
    """Return what benchmark ``name`` needs; an empty recipe for one that needs nothing."""
    return declaration.find(name).recipe or Recipe()


def install(
    name: str,
    options: Options,
    *,
    progress: "Progress",
    manager: Callable[[], Manager] = find_manager,
) -> Installation:
    """Install benchmark ``name`` and return the record. Raises SteelyardError when it does not work here."""
    recipe = recipe_of(name)
    if options.offline and options.cache is None:
        raise UsageError("--offline needs --cache DIR, the folder to install from")
    known = records.load(name)
    is_there = known is not None and not missing(recipe) and not options.force
    fills_cache = options.cache is not None and not options.offline
    if known is not None and is_there and not fills_cache:
        progress.note(f"{name}: installed already")
        return known
    _check_disk(name, recipe)
    begin_s = time.monotonic()
    used, versions, added = _install_packages(name, recipe, options, progress, manager)
    for payload in recipe.payloads:
        progress.note(f"{name}: files of {payload}")
        _install_payload(payload, recipe, name, options)
    lacking = missing(recipe)
    if lacking:
        raise EnvironmentLacksError(f"{name}: still missing after the installation: {', '.join(lacking)}")
    if known is not None and is_there:
        progress.note(f"{name}: installed already; {options.cache} has what it needs")
        return known
    install_s = time.monotonic() - begin_s
    smoke, smoke_s = None, None
    if options.smoke:
        progress.note(f"{name}: smoke run")
        begin_s = time.monotonic()
        smoke = _smoke(name, progress)
        smoke_s = time.monotonic() - begin_s
    earlier = known.packages_added if known is not None else []
    folder = payload_dir(recipe.payload) if recipe.payload else None
    record = Installation(
        benchmark=name,
        installed_unix_s=time.time(),
        steelyard_version=steelyard.__version__,
        manager=used.name if used is not None else None,
        packages=versions,
        packages_added=sorted({*earlier, *added}),
        payload=recipe.payload or None,
        payload_dir=str(folder) if folder is not None else None,
        payload_bytes=_size_bytes(folder) if folder is not None else None,
        install_s=install_s,
        smoke_s=smoke_s,
        smoke=smoke,
    )
    records.save(record)
    return record


def _install_packages(
    name: str, recipe: Recipe, options: Options, progress: "Progress", manager: Callable[[], Manager]
) -> tuple[Manager | None, dict[str, str], list[str]]:
    """Install the packages; return the manager, their versions, and what is new."""
    if recipe.packages == Packages() and recipe.java is None:
        return None, {}, []
    used = manager()
    cache = None if options.cache is None else options.cache / name
    names, for_others = used_names(recipe, used, name, cache=cache, offline=options.offline)
    if names:
        progress.note(f"{name}: packages {' '.join(names)}")
    added = used.install(
        names,
        cache=cache,
        offline=options.offline,
        also_kept=for_others,
        refresh=options.force,
        claim=lambda packages: claims.add(name, used.name, packages),
    )
    here = used.installed()
    return used, {package: here[package] for package in names}, added


def used_names(
    recipe: Recipe, manager: Manager, name: str, *, cache: Path | None = None, offline: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the packages of a recipe for ``manager``, and those that only another machine may need.

    A Java that fits is used wherever it came from. Raises EnvironmentLacksError where the manager has none.
    """
    names = recipe.packages.of(manager.name)
    if not names and recipe.packages != Packages():
        raise EnvironmentLacksError(
            f"{name} has no list of packages for {manager.name}",
            hint=f"install {', '.join(recipe.programs)} by hand, then: steelyard install {name}",
        )
    java = recipe.java
    if java is None:
        return names, ()
    choices = java.packages(manager.name)
    here = manager.installed()
    mine = next((package for package in choices if package in here), None)
    if mine is not None:
        # Named, though it is here, so that it stays as long as this benchmark does.
        return (*names, mine), ()
    is_here = has_java(java, compiler=java.compiles)
    if is_here and (cache is None or offline):
        return names, ()
    found = manager.first_available(choices, cache=cache, offline=offline)
    if is_here:
        return names, () if found is None else (found,)
    if found is None:
        try:
            find_java(java, benchmark=name, compiler=java.compiles)
        except EnvironmentLacksError as error:
            raise EnvironmentLacksError(
                f"{error.message}; {manager.name} has none of {', '.join(choices)}",
                hint=f"unpack a {java.versions} from elsewhere, and name its folder with JAVA_HOME",
            ) from error
        raise AssertionError("looked for before")
    return (*names, found), ()


def _check_disk(name: str, recipe: Recipe) -> None:
    folder = stacks_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EnvironmentLacksError(
            f"{folder}: {error.strerror}", hint="point STEELYARD_STACKS at a folder that can be written"
        ) from error
    free = shutil.disk_usage(folder).free
    needed = recipe.disk_bytes + DISK_RESERVE_BYTES
    if free < needed:
        raise EnvironmentLacksError(
            f"{name} needs {needed >> 20} MiB of disk space, and {folder} has {free >> 20} MiB",
            hint="point STEELYARD_STACKS at a larger disk",
        )


def _install_payload(payload: str, recipe: Recipe, name: str, options: Options) -> None:
    """Run the payload's ``install``. Raises EnvironmentLacksError with its last line when it fails."""
    folder = payload_dir(payload)
    environment = dict(os.environ)
    cache = None
    if options.cache is not None:
        cache = (options.cache / payload).resolve()
        cache.mkdir(parents=True, exist_ok=True)
        environment["STEELYARD_CACHE"] = str(cache)
    if options.offline:
        environment["STEELYARD_OFFLINE"] = "1"
    if recipe.java is not None:
        java = find_java(recipe.java, benchmark=name, compiler=recipe.java.compiles)
        environment["JAVA_HOME"] = str(java_home(java))
    if cache is None or options.offline:
        _run_install(payload, folder, environment)
        return
    # What is there already came without the cache: it is fetched again, since nothing else fills the cache.
    aside = folder.with_name(f"{folder.name}.before")
    if is_installed(payload) and not _is_cached(folder, cache):
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    try:
        _run_install(payload, folder, environment)
    except BaseException:
        if aside.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    if is_installed(payload):
        shutil.copyfile(folder / MARK, cache / MARK)


def _is_cached(folder: Path, cache: Path) -> bool:
    """Return whether the cache was filled by the installation of what is in ``folder``."""
    mark = cache / MARK
    return mark.is_file() and mark.read_bytes() == (folder / MARK).read_bytes()


def _run_install(payload: str, folder: Path, environment: Mapping[str, str]) -> None:
    command = [str(payload_source(payload) / "install"), str(folder)]
    try:
        done = run_to_end(command, environment, timeout_s=PAYLOAD_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentLacksError(f"{command[0]} took longer than {PAYLOAD_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        message = _complaint(done.stderr) or f"its installation ended with {done.returncode}"
        raise EnvironmentLacksError(f"{payload}: {message}")


def _complaint(stderr: str) -> str:
    """Return the last line of a payload's ``install``; where it refers to what a tool said, that too."""
    lines = [line for line in (without_escapes(line).strip() for line in stderr.splitlines()) if line]
    if not lines or not lines[-1].endswith(_ABOVE):
        return lines[-1] if lines else ""
    first = next((line for line in lines[:-1] if _ERROR.match(line)), None)
    return f"{lines[-1].removesuffix(_ABOVE)}: {first}" if first else lines[-1]


def _smoke(name: str, progress: "Progress") -> SmokeRun:
    """Run the benchmark in its smallest tier and return what came out. Raises when it does not work."""
    folder = stacks_dir() / "smoke" / name
    shutil.rmtree(folder, ignore_errors=True)
    launched = execute(RunRequest(name=name, tier="smoke", out=folder), progress=progress)
    if launched.interrupted:
        # Not of this benchmark alone: no further one is installed.
        raise KeyboardInterrupt
    (attempt,) = launched.attempts
    if attempt.error is not None:
        raise attempt.error
    result = judge(name, attempt.run)
    # A run that failed stays, with its logs.
    shutil.rmtree(folder, ignore_errors=True)
    return result


def judge(name: str, run: "Run") -> SmokeRun:
    """Return a smoke run in short. Raises WorkloadFailedError when the benchmark does not work."""
    made = run.verdict.checks if run.verdict is not None else []
    # What a check that is not about the figure calls invalid does not work.
    failed = [check for check in made if check.level is Level.INVALID and not checks.is_of_figure(check)]
    if failed:
        raise WorkloadFailedError(f"the smoke run of {name} shows a defect: {failed[0].claim}")
    metric = declaration.find(name).headline[0]
    result = run.metrics.get(metric)
    if result is None or not result.value or result.value <= 0:
        raise WorkloadFailedError(f"the smoke run of {name} gave no {metric}")
    return SmokeRun(
        run_id=run.run_id,
        metric=metric,
        value=result.value,
        unit=result.unit,
        verdict=str(run.verdict.level) if run.verdict is not None else "none",
    )


@dataclass(frozen=True, slots=True)
class NotInstalled:
    """A benchmark that could not be installed."""

    benchmark: str
    """Which benchmark."""
    reason: str
    """Why."""
    hint: str | None
    """What to do, None where nothing helps."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What was installed, and what was not: `steelyard install --json`."""

    KIND: ClassVar[str] = "install"

    installed: list[Installation]
    """Installed benchmarks."""
    failed: list[NotInstalled]
    """Benchmarks that were not installed."""
    nothing_needed: list[str]
    """Benchmarks that need nothing but Steelyard."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What was removed: `steelyard uninstall --json`."""

    KIND: ClassVar[str] = "uninstall"

    benchmark: str
    """Which benchmark."""
    payload_bytes: int
    """Disk space that its files took."""
    packages: tuple[str, ...]
    """Packages that were removed."""
    kept: tuple[str, ...]
    """What was left, each with the reason."""


def uninstall(name: str, *, packages: bool, manager: Callable[[], Manager] = find_manager) -> Removal:
    """Remove what the installation of ``name`` brought. Raises UsageError when it is not installed."""
    known, claim = records.load(name), claims.load(name)
    others = [other for other in records.load_all() if other.benchmark != name]
    payloads = _payloads(known) if known is not None else _left_payloads(name, others)
    if known is None and claim is None and not payloads:
        raise UsageError(f"{name} is not installed", hint="steelyard list shows what is")
    kept: list[str] = []
    freed = 0
    removed: tuple[str, ...] = ()
    for payload in payloads:
        users = [other.benchmark for other in others if payload in _payloads(other)]
        if users:
            verb = "needs" if len(users) == 1 else "need"
            kept.append(f"the files of {payload}: {', '.join(users)} {verb} them")
        else:
            freed += _remove_folder(payload_dir(payload))
    freed += _remove_folder(prepared_dir(name))
    mine = {} if known is None else dict.fromkeys(known.packages_added, "")
    mine |= {} if claim is None else claim.packages
    mine = {package: version for package, version in mine.items() if package not in claims.others(name)}
    if mine:
        # First: what is stopped half-way is claimed still.
        claims.add(name, _manager_of(known, claim), mine)
    if packages and mine:
        used = manager()
        for other in others:
            # They stay as long as that benchmark does, and go with it.
            needed = {package: mine.pop(package) for package in mine.keys() & _needed(other)}
            claims.add(other.benchmark, used.name, needed)
        removed, staying = used.remove(list(mine))
        kept += [f"{one.name}: {one.why}" for one in staying]
        claims.keep_only(name, [one.name for one in staying])
    elif mine:
        kept.append(f"{len(mine)} packages: steelyard uninstall {name} --packages removes them")
    records.path_of(name).unlink(missing_ok=True)
    return Removal(name, freed, removed, tuple(kept))


def _left_payloads(name: str, others: Sequence[Installation]) -> tuple[str, ...]:
    """Return the payloads that an installation has left which came to no record."""
    used = {payload for other in others for payload in _payloads(other)}
    return tuple(
        payload
        for payload in recipe_of(name).payloads
        if payload not in used and payload_dir(payload).is_dir()
    )


def _payloads(installed: Installation) -> tuple[str, ...]:
    """Return the payloads of an installed benchmark, of which it may share some; its own comes first."""
    own = () if installed.payload is None else (installed.payload,)
    if installed.benchmark not in declaration.names():
        # Its package has gone: only the record knows.
        return own
    return tuple(dict.fromkeys((*own, *reversed(recipe_of(installed.benchmark).payloads))))


def _manager_of(known: Installation | None, claim: claims.Claim | None) -> str:
    return claim.manager if claim is not None else (known and known.manager) or ""


def _needed(other: Installation) -> set[str]:
    # Dependencies that came with another benchmark's packages may be those of this one's as well.
    return {*other.packages, *other.packages_added}


def _remove_folder(folder: Path) -> int:
    size = _size_bytes(folder)
    if folder.is_dir() and not folder.is_symlink():
        # First: what is left of an interrupted removal is no installation.
        (folder / MARK).unlink(missing_ok=True)
        shutil.rmtree(folder)
    return size


def _size_bytes(folder: Path) -> int:
    sizes = (path.lstat().st_blocks * 512 for path in folder.rglob("*") if not path.is_symlink())
    return sum(sizes)
