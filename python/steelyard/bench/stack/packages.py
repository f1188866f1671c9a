"""The system's package manager: what is installed, installing, removing.

In: names of packages, a runner of commands. Out: packages that are there, with the versions that came.

Packages of servers start them and have them started at boot; a benchmark starts its own. While packages are
installed a ``policy-rc.d`` forbids it, which stands in the undo journal, and units that came are disabled.

Invariants: what the package manager says that it will bring is claimed before it begins. A download ends with
this process, and dpkg at its own end: what was stopped all the same (by a loss of power) is configured by the
next start, before services may be started again. Nothing is removed that others need, that was marked as
wanted, or whose removal would bring or remove another package.

Not here: which packages (``recipe``), and who claims them (``claims``). dnf marks no simulation: of it,
what is new after the transaction is claimed, and what ``rpm`` says is needed stays.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import EnvironmentLacksError, WorkloadFailedError
from steelyard.bench import undo
from steelyard.bench.stack import archive
from steelyard.bench.stack.archive import Run
from steelyard.bench.stack.transaction import Kept, Plan, parse_plan, removable
from steelyard.bench.supervised import LeftRunning, run_to_end, run_undisturbed

KIND = "policy-rc.d"
POLICY = Path("/usr/sbin/policy-rc.d")
"""Where Debian's packages ask whether they may start services (invoke-rc.d(8))."""
_POLICY_TEXT = (
    "#!/bin/sh\n# Written by steelyard install, and removed by it: packages start no services.\nexit 101\n"
)
_TIMEOUT_S = 1800.0
_APT = ("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=120")
_NEEDED_BY = re.compile(r"is needed by \(installed\) (\S+)")
_CANDIDATE = re.compile(r"^(\S+):\n  Installed: .*\n  Candidate: (\S+)$", re.MULTILINE)


_WAITS = "the package manager has to come to its end, or it would leave packages half installed"


def run_command(
    command: Sequence[str], environment: Mapping[str, str], *, undisturbed: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run a command of the package manager and return how it ended, with its output."""
    if undisturbed:
        return run_undisturbed(command, {**os.environ, **environment}, why=_WAITS)
    return run_to_end(command, {**os.environ, **environment}, timeout_s=_TIMEOUT_S)


def _as_root() -> tuple[str, ...]:
    return () if os.geteuid() == 0 else ("sudo", "-n")


def _write_policy(path: Path, run: Run, as_root: Sequence[str]) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(_POLICY_TEXT)
        file.flush()
        done = run([*as_root, "install", "--mode=755", file.name, str(path)], {})
    if done.returncode != 0:
        raise EnvironmentLacksError(f"{path}: {archive.last_line(done)}")


def _is_ours(path: Path) -> bool:
    try:
        return path.read_text() == _POLICY_TEXT
    except (OSError, ValueError):
        return False


def _remove_policy(path: Path, run: Run, as_root: Sequence[str]) -> None:
    if _is_ours(path):
        run([*as_root, "rm", "-f", str(path)], {})


def _end_transaction(details: Mapping[str, str]) -> None:
    """Bring what dpkg was stopped in to its end without a start of services, and allow them again."""
    path = Path(details["path"])
    problem = ""
    if shutil.which("dpkg") is not None and _is_unfinished():
        if not path.exists():
            _write_policy(path, run_command, _as_root())
        problem = _finish()
    _remove_policy(path, run_command, _as_root())
    if problem:
        raise EnvironmentLacksError(f"packages are half installed: {problem}")


def _is_unfinished() -> bool:
    """Return whether dpkg was stopped in its work: apt refuses all until it has been brought to an end."""
    states = run_command(["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}|"], {}).stdout.split("|")
    # The second letter is the state (dpkg-query(1)), the third says that it has to be installed again.
    if any(state[1:2] in set("UFHWt") or state[2:3] == "R" for state in states):
        return True
    folder = Path(os.environ.get("DPKG_ADMINDIR", "/var/lib/dpkg")) / "updates"
    return any(path.name.isdecimal() for path in folder.glob("*"))


def _finish() -> str:
    """Configure what dpkg has left; return what keeps it from that, nothing where it is done."""
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    repairs = (["dpkg", "--configure", "-a"], [*_APT, "--yes", "--no-remove", "--fix-broken", "install"])
    for repair in repairs:
        done = run_command([*_as_root(), *repair], quiet, undisturbed=True)
        if not _is_unfinished():
            return ""
    return f"{archive.last_line(done)} (dpkg --audit lists them)"


undo.register(KIND, _end_transaction, on_disk=True)


Claiming = Callable[[Mapping[str, str]], None]
"""Writes down packages, with their versions, that are about to be installed."""


def _claim_nothing(_packages: Mapping[str, str]) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Manager:
    """A package manager and how it is called."""

    name: str
    run: Run = run_command
    as_root: tuple[str, ...] = ()
    """What stands before commands that need root: nothing as root, ``sudo -n`` where that works."""
    may_install: bool = True
    policy: Path = POLICY

    def installed(self) -> dict[str, str]:
        """Return the version of every installed package. Raises EnvironmentLacksError when that fails."""
        if self.name == "apt":
            command = ["dpkg-query", "--show", "--showformat=${Package} ${Version} ${Status}\n"]
        else:
            command = ["rpm", "--query", "--all", "--queryformat=%{NAME} %{VERSION}-%{RELEASE} installed\n"]
        done = self.run(command, {})
        if done.returncode != 0:
            raise EnvironmentLacksError(f"{command[0]} failed: {archive.last_line(done)}")
        rows = (line.split() for line in done.stdout.splitlines())
        return {row[0]: row[1] for row in rows if len(row) > 2 and row[-1] == "installed"}

    def asked_of_administrator(self, names: Sequence[str]) -> str:
        """Return the command that an administrator has to run."""
        if self.name == "apt":
            return f"sudo apt-get install --no-install-recommends {' '.join(names)}"
        return f"sudo dnf install --setopt=install_weak_deps=False {' '.join(names)}"

    def install(
        self,
        names: Sequence[str],
        *,
        cache: Path | None,
        offline: bool,
        also_kept: Sequence[str] = (),
        refresh: bool = False,
        claim: Claiming = _claim_nothing,
    ) -> list[str]:
        """Install those of ``names`` that are missing and return what is new, dependencies included.

        With ``cache`` their files, and those of ``also_kept``, are kept there with all that they need;
        ``refresh`` looks for newer ones. ``offline`` takes them from it and downloads nothing. ``claim``
        gets what will be new, with versions, before anything is installed. Raises EnvironmentLacksError.
        """
        before = self.installed()
        absent = [name for name in names if name not in before]
        if absent and not self.may_install:
            raise EnvironmentLacksError(
                f"these packages are missing, and only root may install them: {', '.join(absent)}",
                hint=f"ask an administrator for: {self.asked_of_administrator(absent)}",
            )
        folder = None if cache is None else cache / self.name
        kept = [*names, *also_kept]
        if folder is not None and not offline and self.name == "apt" and kept:
            self._keep(kept, folder, refresh=refresh)
        if not absent:
            return []
        expected = self._install(absent, folder, offline=offline, claim=claim)
        after = self.installed()
        lacking = [name for name in names if name not in after]
        if lacking:
            raise EnvironmentLacksError(f"{self.name} did not install {', '.join(lacking)}")
        if expected is None:
            expected = {name: after[name] for name in after.keys() - before.keys()}
            claim(expected)
        new = sorted(expected.keys() & after.keys())
        self._disable_units(new)
        return new

    @contextmanager
    def _without_services(self) -> Iterator[None]:
        """Keep services from being started; an administrator's own policy stands as it is."""
        if self.policy.exists() and not _is_ours(self.policy):
            yield
            return
        change = undo.Change.begin("policy-rc.d", KIND, {"path": str(self.policy)})
        try:
            _write_policy(self.policy, self.run, self.as_root)
            yield
        except LeftRunning:
            # Services stay forbidden until it has ended: the next start looks after that.
            raise
        except BaseException:
            _remove_policy(self.policy, self.run, self.as_root)
            change.forget()
            raise
        _remove_policy(self.policy, self.run, self.as_root)
        change.forget()

    def _keep(self, names: Sequence[str], folder: Path, *, refresh: bool) -> None:
        """See that ``folder`` has ``names`` with all that they need."""
        if not refresh and archive.holds(folder, names):
            return
        if self.may_install:
            self._call([*_APT, "update"])
        try:
            archive.fetch(names, folder, self.run)
        except EnvironmentLacksError as error:
            hint = None if self.may_install else "ask an administrator for: sudo apt-get update"
            raise EnvironmentLacksError(error.message, hint=hint) from error

    def _install(
        self, absent: Sequence[str], folder: Path | None, *, offline: bool, claim: Claiming
    ) -> dict[str, str] | None:
        """Install what is absent; return what was claimed, None where that is not known before."""
        if self.name == "dnf":
            keep = [] if folder is None else [f"--setopt=cachedir={folder}", "--setopt=keepcache=1"]
            mode = ["--cacheonly"] if offline else []
            command = ["dnf", "install", "-y", "--setopt=install_weak_deps=False", *keep, *mode, *absent]
            self._call(command, undisturbed=True)
            return None
        if folder is None:
            return self._install_by_apt(absent, [], claim)
        archive.versions(folder)
        # Also with a network: whether the folder suffices shows when it is used.
        with archive.as_source(folder) as source:
            return self._install_by_apt(absent, source, claim)

    def _install_by_apt(
        self, absent: Sequence[str], source: Sequence[str], claim: Claiming
    ) -> dict[str, str]:
        install = [*_APT, *source, "install", "--yes", "--no-install-recommends"]
        self._call([*_APT, *source, "update"])
        plan = parse_plan(self._asked([*install, "--simulate", *absent]))
        # What takes long ends with this process.
        self._call([*install, "--download-only", *absent])
        claim(plan.new)
        with self._without_services():
            # Marked as automatic: a package that somebody installs later on purpose loses this mark.
            self._call([*install, "-o", "APT::Get::Mark-Auto=true", *absent], undisturbed=True)
        return plan.new

    def _asked(self, command: Sequence[str]) -> str:
        done = self.run(command, {"LC_ALL": "C"})
        if done.returncode != 0:
            raise EnvironmentLacksError(f"{command[0]} failed: {archive.last_line(done)}")
        return done.stdout

    def first_available(self, names: Sequence[str], *, cache: Path | None, offline: bool) -> str | None:
        """Return the first of ``names`` that is installed or can be, None where none can."""
        known = self.installed()
        if self.name == "apt" and offline and cache is not None:
            known |= archive.versions(cache / "apt")
        elif self.name == "apt":
            known |= self._candidates(names)
        elif offline:
            # What is in its cache, dnf says only when it installs.
            known |= dict.fromkeys(names[:1], "")
        else:
            listed = [name for name in names if self.run(["dnf", "-q", "list", name], {}).returncode == 0]
            known |= dict.fromkeys(listed, "")
        return next((name for name in names if name in known), None)

    def _candidates(self, names: Sequence[str]) -> dict[str, str]:
        """Return those of ``names`` that apt has a version of; its lists are updated where it has none."""
        found = self._policy(names)
        if not found and self.may_install:
            self._call([*_APT, "update"])
            found = self._policy(names)
        return found

    def _policy(self, names: Sequence[str]) -> dict[str, str]:
        text = self.run(["apt-cache", "policy", *names], {"LC_ALL": "C"}).stdout
        return {name: version for name, version in _CANDIDATE.findall(text) if version != "(none)"}

    def remove(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Kept, ...]]:
        """Remove those of ``names`` that are installed and that nothing else needs.

        Returns what went, and what stays with the reason. Raises EnvironmentLacksError.
        """
        here = self.installed()
        present = [name for name in names if name in here]
        if not present:
            return (), ()
        if not self.may_install:
            raise EnvironmentLacksError(f"only root may remove {', '.join(present)}")
        wanted = self._marked_as_wanted() if self.name == "apt" else set()
        kept = [Kept(name, "it was marked as installed manually since") for name in present if name in wanted]
        going, staying = removable([name for name in present if name not in wanted], self._removal)
        if going:
            self._call([*self._remove_words(), *going], undisturbed=True)
        return going, (*kept, *staying)

    def _marked_as_wanted(self) -> set[str]:
        return set(self._asked(["apt-mark", "showmanual"]).split())

    def _remove_words(self) -> list[str]:
        if self.name == "apt":
            return [*_APT, "purge", "--yes", "--no-auto-remove"]
        return ["rpm", "--erase"]

    def _removal(self, names: list[str]) -> Plan:
        """Return what a removal of ``names`` would do."""
        if self.name == "apt":
            return parse_plan(self._asked([*self._remove_words(), "--simulate", *names]))
        done = self.run([*self.as_root, "rpm", "--erase", "--test", *names], {"LC_ALL": "C"})
        needing = [whole.rsplit("-", 2)[0] for whole in _NEEDED_BY.findall(done.stderr + done.stdout)]
        if done.returncode != 0 and not needing:
            raise EnvironmentLacksError(f"rpm failed: {archive.last_line(done)}")
        return Plan({}, (), (*names, *dict.fromkeys(needing)))

    def _call(self, command: Sequence[str], *, undisturbed: bool = False) -> None:
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            done = self.run([*self.as_root, *command], quiet, undisturbed=undisturbed)
        except subprocess.TimeoutExpired as error:
            raise EnvironmentLacksError(f"{command[0]} took longer than {_TIMEOUT_S:.0f} s") from error
        if done.returncode != 0:
            raise EnvironmentLacksError(f"{command[0]} failed: {archive.last_line(done)}")

    def _disable_units(self, names: Sequence[str]) -> None:
        """Keep the services of new packages from being started at boot."""
        if not names or self.name != "apt" or not Path("/run/systemd/system").is_dir():
            return
        done = self.run(["dpkg-query", "--listfiles", *names], {})
        folder = "/lib/systemd/system/"
        units = {line.rsplit("/", 1)[1] for line in done.stdout.splitlines() if folder in line}
        services = sorted(unit for unit in units if unit.endswith(".service") and "@" not in unit)
        if services:
            self._call(["systemctl", "disable", "--quiet", *services])


def find_manager(run: Run = run_command) -> Manager:
    """Return the system's package manager. Raises EnvironmentLacksError without apt and dnf."""
    name = next(
        (name for name, program in (("apt", "apt-get"), ("dnf", "dnf")) if shutil.which(program)), None
    )
    if name is None:
        raise EnvironmentLacksError("this system has neither apt-get nor dnf to install packages with")
    if os.geteuid() == 0:
        return Manager(name, run)
    try:
        allowed = shutil.which("sudo") is not None and run(["sudo", "-n", "true"], {}).returncode == 0
    except (OSError, subprocess.SubprocessError) as error:
        raise WorkloadFailedError(f"sudo: {error}") from error
    return Manager(name, run, ("sudo", "-n") if allowed else (), may_install=allowed)
