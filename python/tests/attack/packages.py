"""Installations stopped at any time: the package manager stays whole, and others' packages stay.

As root, where the kernel allows it, each round has an overlay over this machine that is thrown away: the real
apt and dpkg with the real packages, and a source with packages of the attack. Elsewhere a folder is the
machine. A round installs a server, stops that at a random time in one of several ways, lets the next start
put things right, has somebody install a package that needs a part of it, and removes what is claimed.

Nothing may be left unfinished (lost), no service started, no package gone that others need, and none stay
that came with the installation (doubled).
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

from steelyard.bench import undo
from steelyard.bench.stack import claims
from steelyard.bench.stack.packages import _is_unfinished
from tests.bench.stack.apt import Source, System, deb

from .figures import ROOT, Figures
from .kills import MARK, look_for_orphans, marked

MODULE = "tests.attack.packages"
LONGEST_S = 120.0
WAYS = ("interrupt", "interrupt twice", "terminate", "kill", "loss of power", "none")
SERVER = "steelyard-attack-server"
LIBRARY = "steelyard-attack-lib"
OTHER = "steelyard-attack-other"
CONFIGURES = """
touch {folder}/configuring
code=0
if [ -e {policy} ]; then {policy} || code=$?; fi
[ "$code" = 101 ] || touch {folder}/service-was-started
sleep {seconds}
"""
OVERLAY = """
set -e
mount -t tmpfs -o size=2g steelyard "$1"
mkdir "$1/upper" "$1/work" "$1/merged"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" steelyard "$1/merged"
for each in /proc /dev /sys; do mount --rbind $each "$1/merged$each"; done
mount -t tmpfs steelyard "$1/merged/run"
where=$1
shift
exec chroot "$where/merged" "$@"
"""
APT = """
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "{folder}/lists";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Sandbox::User "root";
"""


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Play rounds until the time is over."""
    figures, chosen = Figures(), random.Random(seed)
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        figures.notes.append("not tried: this system has no apt")
        return figures
    over = overlay(folder) if os.geteuid() == 0 else []
    if not over:
        figures.notes.append("no overlay here: the machine is a folder")
    end = time.monotonic() + seconds
    while time.monotonic() < end or figures.tried < len(WAYS):
        way, mark = WAYS[figures.tried % len(WAYS)], uuid.uuid4().hex
        where = folder / f"round{figures.tried}"
        where.mkdir()
        number = chosen.randrange(1 << 32)
        line = [*over, sys.executable, "-m", MODULE, str(where), way, str(number)]
        played(figures, line, where, mark, f"seed {number}, {way}")
        shutil.rmtree(where, ignore_errors=True)
    return figures


def overlay(folder: Path) -> list[str]:
    """Return what a command begins with that runs over this machine; nothing where that cannot be."""
    place = folder / "overlay"
    place.mkdir()
    line = ["unshare", "--mount", "sh", "-c", OVERLAY, "sh", str(place)]
    with suppress(OSError, subprocess.SubprocessError):
        if subprocess.run([*line, "true"], capture_output=True, timeout=60).returncode == 0:
            return line
    return []


def played(figures: Figures, line: list[str], folder: Path, mark: str, what: str) -> None:
    """Run a round in a process of its own, and count what it found."""
    figures.tried += 1
    path = os.pathsep.join([str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        MARK: mark,
        "PYTHONPATH": path,
        "STEELYARD_ATTACK_OVERLAY": "1" if line[0] == "unshare" else "",
        "XDG_STATE_HOME": str(folder / "state"),
        "STEELYARD_STACKS": str(folder / "stacks"),
    }
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=LONGEST_S, env=environment, cwd=folder
        )
    except subprocess.TimeoutExpired:
        figures.note("hung", what)
        done = None
    look_for_orphans(figures, mark, what)
    if done is None:
        return
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        figures.note("crashed", f"{what}: {(done.stderr.splitlines() or ['no answer'])[-1]}")
        return
    for kind, text in found:
        figures.note(kind, f"{text}: {what}")


class Real(System):
    """This machine, with packages of the attack only to come from."""

    def __init__(self, folder: Path, source: Source) -> None:
        self.folder, self.calls = folder, []
        self.policy = Path("/usr/sbin/policy-rc.d")
        (folder / "apt.conf").write_text(APT.format(folder=folder))
        (folder / "sources.list").write_text(source.line())
        (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
        self.environment = {"APT_CONFIG": str(folder / "apt.conf")}


def machine(folder: Path, source: Source) -> System:
    """Return the machine of a round: this one below an overlay, else a folder."""
    if not os.environ.get("STEELYARD_ATTACK_OVERLAY"):
        return System(folder / "machine", source)
    return Real(folder, source)


def install(folder: Path) -> None:
    """Install the server, as a benchmark does."""
    from steelyard.cli import main

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, main._end_in_order)
    system = machine(folder, Source(folder / "source"))
    system.manager().install(
        [SERVER], cache=None, offline=False, claim=lambda names: claims.add("attack", "apt", names)
    )


def play(folder: Path, way: str, seed: int) -> list[tuple[str, str]]:
    """Play a round; return what is wrong, each with its kind."""
    chosen, wrong = random.Random(seed), []
    source = Source(folder / "source")
    policy = folder / "machine/policy-rc.d"
    if os.environ.get("STEELYARD_ATTACK_OVERLAY"):
        policy = Path("/usr/sbin/policy-rc.d")
        # An image of a container forbids services itself: here Steelyard has to.
        policy.unlink(missing_ok=True)
    else:
        (folder / "machine").mkdir()
    configures = CONFIGURES.format(policy=policy, folder=folder, seconds=f"{chosen.uniform(0, 1):.2f}")
    deb(source.folder, LIBRARY, "1.0", postinst=configures)
    deb(source.folder, SERVER, "1.0", LIBRARY, postinst=configures)
    deb(source.folder, OTHER, "1.0", LIBRARY)
    source.publish()
    system = machine(folder, source)
    # What the next start runs sees the same machine.
    os.environ.update(system.environment)
    before = system.versions()
    stop(folder, way, chosen)
    settle(wrong)
    if _is_unfinished():
        wrong.append(("lost", "dpkg is left unfinished"))
    if system(["apt-get", "-qq", "check"], {}).returncode != 0:
        wrong.append(("lost", "apt-get check objects"))
    if policy.exists():
        wrong.append(("lost", "services stay forbidden"))
    if (folder / "service-was-started").exists():
        wrong.append(("doubled", "a service was started"))
    somebody = chosen.random() < 0.5
    if somebody:
        system(["apt-get", "-qq", "update"], {})
        done = system(["apt-get", "-qq", "--yes", "install", OTHER], {"DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode != 0:
            wrong.append(("lost", "the package manager installs nothing any more"))
    claim = claims.load("attack")
    if claim is not None:
        system.manager().remove(list(claim.packages))
    after, wanted = system.versions(), {*before, *((OTHER, LIBRARY) if somebody else ())}
    # Who stopped the installation before it said what comes has nothing of it.
    wrong += [("lost", f"{name} is gone") for name in sorted(wanted - after.keys())]
    wrong += [("doubled", f"{name} stayed") for name in sorted(after.keys() - wanted)]
    return wrong


def stop(folder: Path, way: str, chosen: random.Random) -> None:
    """Begin an installation and stop it."""
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, str(folder), "install", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    if way != "none" and chosen.random() < 0.7:
        # In dpkg; the others come at any time.
        while process.poll() is None and not (folder / "configuring").exists():
            time.sleep(0.01)
        delay_s = chosen.uniform(0, 1)
    else:
        delay_s = chosen.uniform(0.2, 2)
    with suppress(subprocess.TimeoutExpired):
        process.wait(delay_s if way != "none" else LONGEST_S)
    signals = {
        "interrupt": (signal.SIGINT,),
        "interrupt twice": (signal.SIGINT, signal.SIGINT),
        "terminate": (signal.SIGTERM,),
        "kill": (signal.SIGKILL,),
        "loss of power": (signal.SIGKILL,),
        "none": (),
    }
    for number in signals[way]:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        time.sleep(0.2)
    if way == "loss of power":
        own = f"{MARK}={os.environ.get(MARK)}"
        for pid in marked(own):
            if pid not in (os.getpid(), os.getppid()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(LONGEST_S / 2)


def settle(wrong: list[tuple[str, str]]) -> None:
    """Start again until nothing of the installation is under way."""
    end = time.monotonic() + LONGEST_S / 2
    while time.monotonic() < end:
        lines = undo.replay()
        if not any("still runs" in line for line in lines):
            break
    if left := list(undo.journal_dir().glob("*.json")):
        wrong.append(("lost", f"{left[0].name} stays in the journal: {lines}"))


def main(arguments: list[str]) -> None:
    """Play one round, or a part of it."""
    folder, way, seed = Path(arguments[0]), arguments[1], int(arguments[2])
    if way == "install":
        install(folder)
        return
    print(json.dumps(play(folder, way, seed)))


if __name__ == "__main__":
    main(sys.argv[1:])
