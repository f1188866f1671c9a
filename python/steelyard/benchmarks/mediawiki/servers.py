"""The programs of the wiki: where they are, their versions, their configuration and command lines.

In: what the distribution installed, and ``workloads/mediawiki``. Out: a folder of configuration for one run,
and the command of each server. Every program runs as the user of Steelyard, in the foreground, from folders
of the run, reachable from this host alone.

Not here: starting them (``benchmark``), and the data of the wiki (``prepare``).
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import EnvironmentLacksError, read_regular, workloads_dir
from steelyard.bench.ports import HOST
from steelyard.bench.stack.recipe import find_program, program, require
from steelyard.bench.stack.tuning import fill, flags, read_tuning
from steelyard.benchmarks.mediawiki.declaration import DECLARATION

INSTALL_HINT = f"steelyard install {DECLARATION.name}"
MEDIAWIKI = Path("/usr/share/mediawiki")
OLDEST = (1, 39)
"""The oldest MediaWiki whose settings and scripts are those used here."""
PHP_MODULES = ("apcu", "dom", "intl", "mbstring", "memcached", "mysqli", "Zend OPcache")
SOCKET_PATH_BYTES = 100
"""A path of a Unix socket has at most 108 bytes (unix(7)); the longest name below the folder is taken off."""
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Programs:
    """What the distribution installed."""

    nginx: str
    php: str
    php_fpm: str
    mariadbd: str
    mariadb_install: str
    mariadb: str
    memcached: str
    versions: Mapping[str, str]


def find_programs() -> Programs:
    """Return the programs. Raises EnvironmentLacksError for one that is missing or too old."""
    if DECLARATION.recipe is not None:
        require(DECLARATION.recipe, DECLARATION.name)
    php = program("php", DECLARATION.name)
    version = _output([php, "-r", "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;"])
    php_fpm = find_program(f"php-fpm{version}") or program("php-fpm", DECLARATION.name)
    _check_modules(php_fpm)
    mariadbd, nginx, memcached = (
        program(name, DECLARATION.name) for name in ("mariadbd", "nginx", "memcached")
    )
    return Programs(
        nginx=nginx,
        php=php,
        php_fpm=php_fpm,
        mariadbd=mariadbd,
        mariadb_install=program("mariadb-install-db", DECLARATION.name),
        mariadb=program("mariadb", DECLARATION.name),
        memcached=memcached,
        versions={
            "mediawiki": _mediawiki_version(),
            "php": _output([php, "-r", "echo PHP_VERSION;"]),
            "mariadb": _output([mariadbd, "--no-defaults", "--version"]).partition("Ver ")[2].split(" ")[0],
            "nginx": _output([nginx, "-v"]).rpartition("/")[2],
            "memcached": _output([memcached, "--version"]).split()[-1],
        },
    )


def _output(command: list[str]) -> str:
    """Return what a program says of itself, on either stream."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentLacksError(f"{command[0]} does not work: {error}", hint=INSTALL_HINT) from error
    return (done.stdout or done.stderr).strip()


def _check_modules(php_fpm: str) -> None:
    there = _output([php_fpm, "-m"]).splitlines()
    missing = [module for module in PHP_MODULES if module not in there]
    if missing:
        raise EnvironmentLacksError(
            f"mediawiki needs PHP's {', '.join(missing)}, which {php_fpm} does not load", hint=INSTALL_HINT
        )


def _mediawiki_version() -> str:
    defines = MEDIAWIKI / "includes" / "Defines.php"
    if not defines.is_file():
        raise EnvironmentLacksError(
            f"mediawiki needs MediaWiki, which is not in {MEDIAWIKI}", hint=INSTALL_HINT
        )
    found = re.search(r"define\( 'MW_VERSION', '((\d+)\.(\d+)[^']*)' \)", defines.read_text("utf-8"))
    if found is None:
        raise EnvironmentLacksError(f"{defines} names no version", hint=INSTALL_HINT)
    if (int(found[2]), int(found[3])) < OLDEST:
        raise EnvironmentLacksError(
            f"mediawiki needs MediaWiki {'.'.join(map(str, OLDEST))} or later; {MEDIAWIKI} has {found[1]}",
            hint=INSTALL_HINT,
        )
    return found[1]


# Configuration


@dataclass(frozen=True, slots=True)
class Places:
    """Folders of one stack of servers."""

    config: Path
    run: Path
    """Sockets and temporary files. Only its user may enter."""
    data: Path
    messages: Path
    """MediaWiki's texts, compiled."""


def write_configuration(
    places: Places,
    *,
    port: int,
    cache_port: int,
    cores: int,
    workers: int,
    database_bytes: int,
    cache_bytes: int,
    address: str = HOST,
    preparing: bool = False,
) -> None:
    """Write the configuration of every program into ``places.config``.

    ``preparing``: for the import, which compiles messages and has no cache server.
    """
    names = {
        "cores": str(cores),
        "workers": str(workers),
        "connections": str(workers + 16),
        "database_mib": str(database_bytes >> 20),
        "cache_mib": str(cache_bytes >> 20),
    }
    tuning = {
        program: {name: fill(text, names, where="tuning.toml") for name, text in settings.items()}
        for program, settings in read_tuning(DECLARATION.name).items()
    }
    if preparing:
        caches = [name for name in tuning["mediawiki"] if name.endswith("CacheType")]
        tuning["mediawiki"] |= dict.fromkeys(caches, "CACHE_NONE")
    values = {
        **names,
        **tuning["nginx"],
        "address": address,
        "port": str(port),
        "cache_port": str(cache_port),
        "config": str(places.config),
        "run": str(places.run),
        "data": str(places.data),
        "messages": str(places.messages),
        "mediawiki": str(MEDIAWIKI),
        "manual_recache": "false" if preparing else "true",
        "secret": "0" * 64,
    }
    root = os.geteuid() == 0
    written = {
        "nginx.conf": {"user": "user root;" if root else ""},
        "php-fpm.conf": {
            "user": "user = root\ngroup = root" if root else "",
            "settings": _lines(tuning["php-fpm"], "{} = {}"),
        },
        "php/steelyard.ini": {"settings": _lines(tuning["php"], "{} = {}")},
        "mariadb.cnf": {"settings": _lines(tuning["mariadb"], "{} = {}").replace(" = \n", "\n")},
        "LocalSettings.php": {"settings": _lines(tuning["mediawiki"], "${} = {};")},
    }
    (places.config / "php").mkdir(parents=True, exist_ok=True)
    for name, own in written.items():
        template = workloads_dir() / "mediawiki" / ("php.ini" if name.startswith("php/") else name)
        text = fill(read_regular(template).decode(), {**values, **own}, where=template.name)
        (places.config / name).write_text(text, encoding="utf-8")


def _lines(settings: Mapping[str, str], form: str) -> str:
    return "\n".join(form.format(name, value) for name, value in settings.items()) + "\n"


# Command lines


def _with_php_settings(places: Places) -> list[str]:
    # An empty part stands for the folder that PHP was built with: its modules are loaded there.
    return [
        "env",
        f"PHP_INI_SCAN_DIR=:{places.config}/php",
        f"MW_CONFIG_FILE={places.config}/LocalSettings.php",
    ]


def database_command(programs: Programs, places: Places) -> list[str]:
    """Return the command of MariaDB."""
    return [programs.mariadbd, f"--defaults-file={places.config}/mariadb.cnf", *_as_root("--user=root")]


def database_install_command(programs: Programs, places: Places) -> list[str]:
    """Return the command that makes an empty database."""
    return [
        programs.mariadb_install,
        f"--defaults-file={places.config}/mariadb.cnf",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        *_as_root("--user=root"),
    ]


def client_command(programs: Programs, places: Places, *arguments: str) -> list[str]:
    """Return the command of a client of the database."""
    socket = f"--socket={places.run}/database.sock"
    return [programs.mariadb, "--no-defaults", socket, "--user=root", "--batch", *arguments]


def cache_command(programs: Programs, port: int, cache_bytes: int) -> list[str]:
    """Return the command of memcached."""
    values = {"cache_mib": str(cache_bytes >> 20)}
    tuned = flags(read_tuning(DECLARATION.name)["memcached"], values)
    return [programs.memcached, "-l", HOST, "-p", str(port), "-U", "0", *tuned, *_as_root("-u", "root")]


def php_command(programs: Programs, places: Places) -> list[str]:
    """Return the command of PHP-FPM."""
    return [
        *_with_php_settings(places),
        programs.php_fpm,
        "--nodaemonize",
        *("--fpm-config", f"{places.config}/php-fpm.conf"),
        *_as_root("--allow-to-run-as-root"),
    ]


def script_command(programs: Programs, places: Places, script: str, *arguments: str) -> list[str]:
    """Return the command of one of MediaWiki's maintenance scripts."""
    path = str(MEDIAWIKI / "maintenance" / script)
    return [*_with_php_settings(places), programs.php, path, *arguments]


def web_command(programs: Programs, places: Places) -> list[str]:
    """Return the command of nginx."""
    return [programs.nginx, "-e", "stderr", "-p", str(places.run), "-c", f"{places.config}/nginx.conf"]


def _as_root(*flags: str) -> tuple[str, ...]:
    """Return flags without which a program refuses to run for root."""
    return flags if os.geteuid() == 0 else ()
