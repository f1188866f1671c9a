"""The system's package manager: what is installed, installing, removing.

In: names of packages, a runner of commands. Out: packages that are there, with the versions that came.

Packages of servers start them and have them started at boot; a benchmark starts its own. While packages are
installed a ``policy-rc.d`` forbids it, which stands in the undo journal, and units that came are disabled.

Not here: which packages (``recipe``).
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import EnvironmentLacksError, WorkloadFailedError
from steelyard.bench import undo
from steelyard.bench.stack import archive
from steelyard.bench.stack.archive import Run
from steelyard.bench.supervised import run_to_end

KIND = "policy-rc.d"
POLICY = Path("/usr/sbin/policy-rc.d")
"""Where Debian's packages ask whether they may start services (invoke-rc.d(8))."""
_POLICY_TEXT = (
    "#!/bin/sh\n# Written by steelyard install, and removed by it: packages start no services.\nexit 101\n"
)
_TIMEOUT_S = 1800.0
_APT = ("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0")
_CANDIDATE = re.compile(r"^(\S+):\n  Installed: .*\n  Candidate: (\S+)$", re.MULTILINE)


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command of the package manager and return how it ended, with its output."""
    return run_to_end(command, {**os.environ, **environment}, timeout_s=_TIMEOUT_S)


def _remove_policy(details: Mapping[str, str]) -> None:
    path = Path(details["path"])
    if not path.is_file() or path.read_text() != _POLICY_TEXT:
        return
    if os.access(path.parent, os.W_OK):
        path.unlink()
    else:
        subprocess.run(["sudo", "-n", "rm", str(path)], check=False, capture_output=True)


undo.register(KIND, _remove_policy, on_disk=True)


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
    ) -> list[str]:
        """Install those of ``names`` that are missing and return what is new, dependencies included.

        With ``cache`` their files, and those of ``also_kept``, are kept there with all that they need;
        ``refresh`` looks for newer ones. ``offline`` takes them from it and downloads nothing. Raises
        EnvironmentLacksError.
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
        policy = (
            undo.Change.begin("policy-rc.d", KIND, {"path": str(self.policy)}) if self._guards() else None
        )
        try:
            if policy is not None:
                self._forbid_services()
            self._install(absent, folder, offline=offline)
        finally:
            if policy is not None:
                policy.undo()
        after = self.installed()
        lacking = [name for name in names if name not in after]
        if lacking:
            raise EnvironmentLacksError(f"{self.name} did not install {', '.join(lacking)}")
        new = sorted(after.keys() - before.keys())
        self._disable_units(new)
        return new

    def _guards(self) -> bool:
        """Whether services have to be kept from starting: an administrator's own policy stands as it is."""
        return self.name == "apt" and not self.policy.exists()

    def _forbid_services(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(_POLICY_TEXT)
            file.flush()
            self._call(["install", "--mode=755", file.name, str(self.policy)])

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

    def _install(self, absent: Sequence[str], folder: Path | None, *, offline: bool) -> None:
        if self.name == "dnf":
            keep = [] if folder is None else [f"--setopt=cachedir={folder}", "--setopt=keepcache=1"]
            mode = ["--cacheonly"] if offline else []
            self._call(["dnf", "install", "-y", "--setopt=install_weak_deps=False", *keep, *mode, *absent])
            return
        install = [*_APT, "install", "--yes", "--no-install-recommends"]
        if folder is None:
            self._call([*_APT, "update"])
            self._call([*install, *absent])
            return
        archive.versions(folder)
        # Also with a network: whether the folder suffices shows when it is used.
        with archive.as_source(folder) as source:
            self._call([*_APT, *source, "update"])
            self._call([*install, *source, *absent])

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

    def remove(self, names: Sequence[str]) -> list[str]:
        """Remove those of ``names`` that are installed, and return them. Raises EnvironmentLacksError."""
        here = self.installed()
        present = [name for name in names if name in here]
        if not present:
            return []
        if not self.may_install:
            raise EnvironmentLacksError(f"only root may remove {', '.join(present)}")
        verb = ["apt-get", "-qq", "purge", "--yes"] if self.name == "apt" else ["dnf", "remove", "-y"]
        self._call([*verb, *present])
        return present

    def _call(self, command: Sequence[str]) -> None:
        try:
            done = self.run([*self.as_root, *command], {"DEBIAN_FRONTEND": "noninteractive"})
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
