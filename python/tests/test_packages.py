"""What `make dist` packs: a wheel, a Debian package and an image, each opened again. Nothing is compiled."""

import ast
import configparser
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import steelyard

ROOT = Path(__file__).resolve().parents[2]
VERSION = steelyard.__version__


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """Stand in for a static agent: a file that is executable."""
    path = tmp_path / "steelyard-agent"
    path.write_bytes(b"#!/bin/sh\necho steelyard-agent\n")
    path.chmod(0o755)
    return path


def test_the_wheel_holds_executables_and_is_tagged_with_their_platform(tmp_path: Path) -> None:
    stage, out = tmp_path / "stage", tmp_path / "out"
    (stage / "bin").mkdir(parents=True)
    (stage / "share/man/man1").mkdir(parents=True)
    shutil.copy("/bin/true", stage / "bin/steelyard-sample")
    (stage / "share/man/man1/steelyard-sample.1").write_text(".TH SAMPLE 1\n")
    environment = {
        **os.environ,
        "STEELYARD_WHEEL_STAGE": str(stage),
        "STEELYARD_WHEEL_PLATFORM": "manylinux_2_28_x86_64",
    }
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (wheel,) = out.iterdir()
    assert wheel.name == f"steelyard-{VERSION}-py3-none-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        data = f"steelyard-{VERSION}.data"
        program = archive.getinfo(f"{data}/scripts/steelyard-sample")
        assert (program.external_attr >> 16) & 0o111
        assert archive.read(program) == Path("/bin/true").read_bytes()
        assert f"{data}/data/share/man/man1/steelyard-sample.1" in names
        assert "steelyard/_schemas/run.schema.json" in names or any("_schemas/" in name for name in names)
        assert any(name.startswith("steelyard/_data/") for name in names)
        metadata = archive.read(f"steelyard-{VERSION}.dist-info/METADATA").decode()
    needed = re.findall(r"^Requires-Dist: ([\w.-]+)(?!.*extra ==)", metadata, re.MULTILINE)
    assert "duckdb" in needed
    assert "steelyard-executables" not in needed


def test_a_wheel_whose_executables_have_no_build_id_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "stage/bin/steelyard-sample"
    program.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", "/bin/true", program], check=True)
    environment = {
        **os.environ,
        "STEELYARD_WHEEL_STAGE": str(tmp_path / "stage"),
        "STEELYARD_WHEEL_PLATFORM": "any",
    }
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(tmp_path / "out"),
    ]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode != 0
    assert "steelyard-sample has no build id" in ran.stderr
    assert not list(tmp_path.glob("out/*.whl"))


def test_a_wheel_without_executables_is_refused(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode != 0
    assert "make dist" in ran.stderr
    assert not list(tmp_path.iterdir())


def messages(text: str) -> list[str]:
    """Return the strings of a module that are not docstrings."""
    nodes = list(ast.walk(ast.parse(text)))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in alone)
    return [node.value for node in constants if isinstance(node.value, str)]


def test_only_a_checkout_gets_the_advice_to_build() -> None:
    package, of_checkout = ROOT / "python/steelyard", re.compile(r"\bmake (build|run|test|dist)\b|\bscripts/")
    texts = {str(path.relative_to(package)): path.read_text() for path in sorted(package.rglob("*.py"))}
    builders = {
        name: message
        for name, text in texts.items()
        if of_checkout.search(text)
        for message in messages(text)
        if of_checkout.search(message)
    }
    assert builders == {"_base/paths.py": "build it: make build"}, (
        "others use REPAIR_HINT, which knows wheels"
    )


def dpkg_deb(*arguments: str | Path) -> str:
    """Return what dpkg-deb prints."""
    return subprocess.run(["dpkg-deb", *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_the_debian_package_holds_the_agent_and_its_unit(tmp_path: Path, agent: Path) -> None:
    share = tmp_path / "share"
    for name in (
        "man/man1/steelyard-agent.1",
        "man/man1/steelyard-agent-run.1",
        "bash-completion/completions/steelyard-agent",
        "zsh/site-functions/_steelyard-agent",
        "fish/vendor_completions.d/steelyard-agent.fish",
    ):
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_text(f"{name}\n")
    packages = []
    for out in (tmp_path / "one", tmp_path / "two"):
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        command = [ROOT / "scripts/make-deb", VERSION, agent, share, out]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        packages += list(out.iterdir())
    assert packages[0].read_bytes() == packages[1].read_bytes(), "the same inputs give the same package"
    assert f"Version: {VERSION}\n" in dpkg_deb("-f", packages[0])
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "-R", packages[0], root], check=True)
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(root / "lib/systemd/system/steelyard-agent.service")
    start = unit["Service"]["ExecStart"].split()
    assert (root / start[0].lstrip("/")).read_bytes() == agent.read_bytes()
    assert (root / start[start.index("--config") + 1].lstrip("/")).is_file()
    for name in (root / "DEBIAN/conffiles").read_text().split():
        assert (root / name.lstrip("/")).is_file()
    subprocess.run(["md5sum", "--quiet", "-c", "DEBIAN/md5sums"], cwd=root, check=True)
    assert (root / "usr/share/man/man1/steelyard-agent-run.1.gz").is_file()
    assert all(line.split()[1] == "root/root" for line in dpkg_deb("-c", packages[0]).splitlines())


def opened(path: Path) -> dict[str, bytes]:
    """Return the files of a tar archive."""
    with tarfile.open(path) as archive:
        return {
            member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive
            if member.isfile()
        }


def test_the_image_is_the_one_that_the_manifest_names(tmp_path: Path, agent: Path) -> None:
    certificates = tmp_path / "certificates.crt"
    certificates.write_text("certificates\n")
    images = []
    for out in (tmp_path / "one", tmp_path / "two"):
        out.mkdir()
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        script = [sys.executable, ROOT / "scripts/make_image.py", "--certificates", certificates]
        subprocess.run([*script, VERSION, agent, out], env=environment, check=True, capture_output=True)
        images += list(out.iterdir())
    assert images[0].read_bytes() == images[1].read_bytes(), "the same inputs give the same image"
    files = opened(images[0])

    def blob(descriptor: dict[str, Any]) -> bytes:
        content = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert hashlib.sha256(content).hexdigest() == descriptor["digest"].removeprefix("sha256:")
        assert len(content) == descriptor["size"]
        return content

    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    plain = gzip.decompress(blob(manifest["layers"][0]))
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        program = archive.getmember("usr/bin/steelyard-agent")
        assert program.mode == 0o755
        assert archive.extractfile(program).read() == agent.read_bytes()  # type: ignore[union-attr]
        assert archive.getmember("tmp").mode == 0o1777
    recipe = (ROOT / "deploy/Containerfile").read_text()
    for word, key in (("ENTRYPOINT", "Entrypoint"), ("CMD", "Cmd")):
        written = re.search(rf"^{word} (\[.*\])$", recipe, re.MULTILINE)
        assert written is not None
        assert json.loads(written[1]) == config["config"][key]
    named = re.search(r"image: (\S+)", (ROOT / "deploy/steelyard-agent.yaml").read_text())
    assert named is not None
    assert entry["annotations"]["io.containerd.image.name"] == named[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a checkout whose `scripts/dist` packs a small library; compilers and packers are stubs."""
    folder, log = tmp_path / "checkout", tmp_path / "log"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/dist", folder / "scripts/dist")
    (folder / "pyproject.toml").write_text(f'version = "{VERSION}"\n')
    (folder / "requirements-dist.lock").touch()
    log.touch()
    # A program would ask for as new a C library as is here.
    program = tmp_path / "program"
    compiler = ["cc", "-shared", "-fPIC", "-g", "-x", "c", "-", "-o", program]
    subprocess.run(
        compiler, input='int puts(const char *); int a(void) { return puts("a"); }', text=True, check=True
    )
    cargo = (
        'case "$*" in *zigbuild*) ;; *) exit 2;; esac; while [ "$1" != --target ]; do shift; done; '
        f"to=target/${{2%.2.28}}/release; mkdir -p $to; cp {program} $to/steelyard-agent"
    )
    stubs = {
        folder / "scripts/build": f"echo build >>{log}",
        folder / "scripts/find-uv": "echo uv",
        folder / "scripts/find-python": "echo python3",
        folder / "scripts/make-deb": f"echo deb >>{log}",
        folder / ".venv/bin/python": f'echo "python $*" >>{log}',
        folder / ".venv/bin/steelyard-agent": "exit 0",
        tmp_path / "bin/uv": "mkdir -p .tools/dist",
        tmp_path / "bin/cargo": f'echo "cargo $*" >>{log}; {cargo}',
        tmp_path / "bin/rustc": f"echo {tmp_path}/target-libdir",
        tmp_path / "bin/rustup": "exit 1",
    }
    for path, text in stubs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    return folder


def run_dist(checkout: Path, *kinds: str) -> subprocess.CompletedProcess[str]:
    """Run the checkout's `scripts/dist` with its stubs."""
    path = os.pathsep.join([str(checkout.parent / "bin"), "/usr/bin", "/bin"])
    command = [checkout / "scripts/dist", *kinds]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True)


def test_what_dist_lacks_is_known_before_it_compiles(checkout: Path) -> None:
    ran = run_dist(checkout, "wheel", "image")
    assert ran.returncode == 3
    assert "rustup target add" in ran.stderr
    assert not (checkout.parent / "log").read_text()


def test_each_package_keeps_its_debug_information(checkout: Path) -> None:
    (checkout.parent / "target-libdir").mkdir()
    for kinds in (("wheel",), ("deb", "image")):
        ran = run_dist(checkout, *kinds)
        assert ran.returncode == 0, ran.stderr
    archives = {
        path.name.partition(VERSION)[0]: opened(path) for path in (checkout / "dist").glob("*-debug.tar.gz")
    }
    assert set(archives) == {"steelyard-", "steelyard-agent-"}
    for files in archives.values():
        assert [name for name in files if files[name][:4] == b"\x7fELF"] == ["./steelyard-agent.debug"]
    log = (checkout.parent / "log").read_text()
    assert "hatchling build --target wheel" in log
    assert "deb\n" in log
    assert "make_image.py" in log
