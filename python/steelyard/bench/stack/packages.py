"""The system's package manager: what is installed, installing, removing.

In: names of packages, a runner of commands. Out: packages that are there, with the versions that came.

Packages of servers start them and have them started at boot; a benchmark starts its own. While packages are
installed a ``policy-rc.d`` forbids it, which stands in the undo journal, and units that came are disabled.

Not here: which packages (``recipe``).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import EnvironmentLacksError, WorkloadFailedError
from steelyard.bench import undo

KIND = "policy-rc.d"
POLICY = Path("/usr/sbin/policy-rc.d")
"""Where Debian's packages ask whether they may start services (invoke-rc.d(8))."""
_POLICY_TEXT = (
    "#!/bin/sh\n# Written by steelyard install, and removed by it: packages start no services.\nexit 101\n"
)
_TIMEOUT_S = 1800.0

Run = Callable[[Sequence[str], Mapping[str, str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command of the package manager and return how it ended, with its output."""
    return subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )


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
            raise EnvironmentLacksError(f"{command[0]} failed: {_last_line(done)}")
        rows = (line.split() for line in done.stdout.splitlines())
        return {row[0]: row[1] for row in rows if len(row) > 2 and row[-1] == "installed"}

    def asked_of_administrator(self, names: Sequence[str]) -> str:
        """Return the command that an administrator has to run."""
        if self.name == "apt":
            return f"sudo apt-get install --no-install-recommends {' '.join(names)}"
        return f"sudo dnf install --setopt=install_weak_deps=False {' '.join(names)}"

    def install(self, names: Sequence[str], *, cache: Path | None, offline: bool) -> list[str]:
        """Install ``names`` and return all packages that are new, dependencies included.

        With ``cache`` their files are kept there; ``offline`` takes them from it and downloads nothing.
        Raises EnvironmentLacksError.
        """
        before = self.installed()
        absent = [name for name in names if name not in before]
        if absent and not self.may_install:
            raise EnvironmentLacksError(
                f"these packages are missing, and only root may install them: {', '.join(absent)}",
                hint=f"ask an administrator for: {self.asked_of_administrator(absent)}",
            )
        if not absent and (cache is None or offline):
            return []
        steps = self._steps(names, absent, cache, offline=offline)
        policy = (
            undo.Change.begin("policy-rc.d", KIND, {"path": str(self.policy)}) if self._guards() else None
        )
        try:
            if policy is not None:
                self._forbid_services()
            for step in steps:
                self._call(step)
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

    def _steps(
        self, names: Sequence[str], absent: Sequence[str], cache: Path | None, *, offline: bool
    ) -> list[list[str]]:
        if self.name == "dnf":
            keep = [] if cache is None else [f"--setopt=cachedir={cache / 'dnf'}", "--setopt=keepcache=1"]
            mode = ["--cacheonly"] if offline else []
            return [["dnf", "install", "-y", "--setopt=install_weak_deps=False", *keep, *mode, *names]]
        quiet = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
        install = [*quiet, "install", "--yes", "--no-install-recommends"]
        if cache is None:
            return [[*quiet, "update"], [*install, *absent]]
        archives = cache / "apt"
        if offline:
            files = sorted(str(path) for path in archives.glob("*.deb"))
            if not files:
                raise EnvironmentLacksError(f"{archives} holds no packages")
            return [[*install, "--no-download", *files]]
        (archives / "partial").mkdir(parents=True, exist_ok=True)
        into = ["-o", f"Dir::Cache::archives={archives.resolve()}/", "-o", "APT::Sandbox::User=root"]
        # Packages that are here already are fetched too: another machine may lack them.
        fetch = [*install, *into, "--download-only", "--reinstall", *names]
        return [[*quiet, "update"], fetch, *([[*install, *into, *absent]] if absent else [])]

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
            raise EnvironmentLacksError(f"{command[0]} failed: {_last_line(done)}")

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


def _last_line(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "Error"))]
    return (errors or lines or [f"it ended with {done.returncode}"])[-1].strip()


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
