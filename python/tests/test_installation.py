"""What is installed to run, to test and to build: exact, hashed, and no more than is needed."""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-dist.lock", "requirements-uv.lock")
ONLY_FOR_TESTS = {"maturin", "moto", "mypy", "pandas", "playwright", "pyspark", "pytest", "ruff", "ziglang"}


def pins(lock: str) -> set[tuple[str, str]]:
    """Return names and versions of a lock file."""
    return set(re.findall(r"^([\w.\-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS)
def test_requirements_are_exact_hashed_and_name_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    for entry in entries:
        assert re.match(r"[\w.\-]+==\S+", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_running_needs_no_test_tools_and_tests_use_the_same_versions() -> None:
    running, testing = pins("requirements.lock"), pins("requirements-dev.lock")
    assert not ONLY_FOR_TESTS & {name for name, _ in running}
    assert running <= testing
    assert {"mypy", "pytest", "pyspark"} <= {name for name, _ in testing}


def imported_packages() -> set[str]:
    """Return the top-level names that Steelyard's code imports, wherever in a file it does."""
    names = set()
    for path in (ROOT / "python/steelyard").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add((node.module or "").partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"steelyard"}


def test_what_the_code_imports_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    declared = {re.match(r"[\w.\-]+", line)[0].lower() for line in lines}  # type: ignore[index]
    distributions = importlib.metadata.packages_distributions()
    missing = {
        name
        for name in imported_packages()
        if not declared & {distribution.lower() for distribution in distributions.get(name, [])}
    }
    assert not missing


def stub(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def test_uv_is_installed_by_version_and_hash(tmp_path: Path) -> None:
    checkout, log = tmp_path / "checkout", tmp_path / "log"
    (checkout / "scripts").mkdir(parents=True)
    for name in ("find-uv", "find-python", "install-packages"):
        (checkout / "scripts" / name).symlink_to(ROOT / "scripts" / name)
    (checkout / "scripts" / "find-uv").unlink()
    (checkout / "scripts" / "find-uv").write_bytes((ROOT / "scripts" / "find-uv").read_bytes())
    (checkout / "scripts" / "find-uv").chmod(0o755)
    tool = (
        f'echo "$*" >>{log}; case "$*" in *"pip install"*) touch .tools/bin/uv; chmod +x .tools/bin/uv;; esac'
    )
    stub(
        tmp_path / "bin/python3",
        f'case "$*" in -c*) exit 0;; *venv*) mkdir -p .tools/bin; cat >.tools/bin/python <<"E"\n'
        f"#!/bin/bash\n{tool}\nE\nchmod +x .tools/bin/python;; esac",
    )
    path = os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"])
    ran = subprocess.run(
        [checkout / "scripts/find-uv"], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip().endswith("/uv")
    if not log.exists():
        pytest.skip("uv is installed in /usr/bin: nothing else is installed")
    (installed,) = log.read_text().splitlines()
    assert "--require-hashes" in installed
    assert "--requirement requirements-uv.lock" in installed
    assert pins("requirements-uv.lock") == {("uv", next(iter(pins("requirements-uv.lock")))[1])}


def test_pip_installs_uv_before_a_package_of_debian_does(tmp_path: Path) -> None:
    checkout, log = tmp_path / "checkout", tmp_path / "log"
    for name in ("find-uv", "find-python", "install-packages"):
        (checkout / "scripts").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "scripts" / name, checkout / "scripts" / name)
    log.touch()
    stub(
        tmp_path / "bin/python3",
        f'case "$*" in -c*) ;; *venv*) exit 1;; *"pip install"*--target*) echo "$*" >>{log}; '
        "mkdir -p .tools/lib/bin; touch .tools/lib/bin/uv; chmod +x .tools/lib/bin/uv;; esac",
    )
    for name in ("apt-get", "dpkg-query", "sudo"):
        stub(tmp_path / "bin" / name, f'echo "{name} $*" >>{log}; exit 1')
    for name in ("bash", "dirname", "env", "grep", "id", "ln", "mkdir", "rm", "touch", "chmod"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    environment = {"PATH": str(tmp_path / "bin")}
    ran = subprocess.run(["scripts/find-uv"], cwd=checkout, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert os.access(ran.stdout.strip(), os.X_OK)
    (installed,) = log.read_text().splitlines()
    assert "--require-hashes" in installed


def test_trimming_replaces_files_and_leaves_what_shares_them(tmp_path: Path) -> None:
    cache, site = tmp_path / "cache", tmp_path / "site"
    files = {
        "pyarrow/__init__.py": b"",
        "pyarrow/tests/test_a.py": b"",
        "pyarrow/include/arrow.h": b"",
        "pyarrow/lib.pyx": b"",
        "pyarrow/libarrow_flight.so.1": b"flight",
        "pyarrow/libarrow_python.so": b"same",
        "pyarrow/libarrow_python.so.1.0": b"same",
        "pyarrow/_orc.so": b"files",
        "numpy/__init__.py": b"",
        "numpy.libs/libgfortran-12.so": b"fortran",
        "numpy.libs/libquadmath-34.so": b"numpy's",
        "scipy.libs/libgfortran-12.so": b"fortran",
        "scipy.libs/libquadmath-34.so": b"scipy's",
    }
    library = Path(next(path for path in _loaded_libraries() if "libc.so" in path or "libc-" in path))
    files["pyarrow/libarrow.so.1"] = library.read_bytes()
    for name, content in files.items():
        for root in (cache, site):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_bytes(content)
        os.link(cache / name, site / name)
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-S", ROOT / "scripts/trim.py"],
            env={**os.environ, "PYTHONPATH": str(site)},
            check=True,
        )
    left = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert left == {
        "pyarrow/__init__.py",
        "pyarrow/libarrow.so.1",
        "pyarrow/libarrow_python.so",
        "pyarrow/libarrow_python.so.1.0",
        "numpy/__init__.py",
        "numpy.libs/libgfortran-12.so",
        "numpy.libs/libquadmath-34.so",
        "scipy.libs/libgfortran-12.so",
        "scipy.libs/libquadmath-34.so",
    }
    links = [str(path.relative_to(site)) for path in site.glob("*.libs/*") if path.is_symlink()]
    assert links == ["scipy.libs/libgfortran-12.so"]
    assert (site / "scipy.libs/libgfortran-12.so").read_bytes() == b"fortran"
    assert (site / "pyarrow/libarrow_python.so").is_symlink()
    assert (site / "pyarrow/libarrow.so.1").stat().st_size <= library.stat().st_size
    assert {name: (cache / name).read_bytes() for name in files} == files


def test_trimming_leaves_the_languages_that_others_load(tmp_path: Path) -> None:
    names = {"_mapping.py", "diff.py", "python.py", "rust.py"}
    for name in names:
        (tmp_path / "pygments/lexers").mkdir(parents=True, exist_ok=True)
        (tmp_path / "pygments/lexers" / name).touch()
    (tmp_path / "pygments/__init__.py").touch()
    subprocess.run(
        [sys.executable, "-S", ROOT / "scripts/trim.py"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    left = {path.name for path in (tmp_path / "pygments/lexers").iterdir()}
    assert left == names - {"rust.py"}

    # The site's generator loads the others, too.
    (tmp_path / "pygments/lexers/rust.py").touch()
    (tmp_path / "sphinx").mkdir()
    subprocess.run(
        [sys.executable, "-S", ROOT / "scripts/trim.py"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    assert {path.name for path in (tmp_path / "pygments/lexers").iterdir()} == names

    site = Path(pytest.__file__).parent.parent
    pattern = re.compile(r"^ *(?:from|import) pygments\.lexers\.(\w+)", re.MULTILINE)
    loaded = {
        f"{language}.py"
        for folder in ("_pytest", "rich", "typer", "hypothesis", "xdist")
        for path in (site / folder).rglob("*.py")
        for language in pattern.findall(path.read_text(errors="replace"))
    }
    assert loaded
    assert loaded <= left


def _loaded_libraries() -> list[str]:
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[-1] for line in maps if ".so" in line.split()[-1]})
