"""Installing a benchmark: a package manager of the test, a real payload and a real smoke run."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError, schemas_dir
from steelyard.bench import undo
from steelyard.bench.progress import Silence
from steelyard.bench.stack import install as installing
from steelyard.bench.stack import installation
from steelyard.bench.stack.install import Options, install, recipe_of, uninstall
from steelyard.bench.stack.installation import Installation
from steelyard.bench.stack.java import Java
from steelyard.bench.stack.packages import Manager, find_manager
from steelyard.bench.stack.recipe import (
    MARK,
    Packages,
    Recipe,
    find_program,
    missing,
    payload_dir,
    prepared_dir,
    require,
)
from steelyard.cli.main import invoke
from steelyard.records import Check, Level, Metric, Run, Verdict, read
from steelyard.records.schemas import schema_text
from tests.bench import sample_benchmarks

GOLDEN = schemas_dir() / "golden"


class System:
    """A system with packages: answers as dpkg-query and apt-get do, and keeps what it was asked."""

    def __init__(self, known, *, installed=("libc6",), policy=None):
        self.known = known
        self.here = dict.fromkeys(installed, "1.0")
        self.calls = []
        self.policy = policy
        self.policy_was_there = []
        self.manual = []

    def __call__(self, command, environment, *, undisturbed=False):
        self.calls.append(list(command))
        text, code = "", 0
        if command[0] == "dpkg-query":
            text = "".join(f"{name} {version} install ok installed\n" for name, version in self.here.items())
        elif command[:2] == ["apt-cache", "policy"]:
            names = [name for name in command[2:] if name in self.known]
            text = "".join(f"{name}:\n  Installed: (none)\n  Candidate: 2.0\n" for name in names)
        elif command[0] == "install":
            Path(command[-1]).write_text(Path(command[-2]).read_text())
        elif command[0] == "rm":
            Path(command[-1]).unlink()
        elif command[0] == "apt-mark":
            text = "".join(f"{name}\n" for name in self.manual)
        elif "--simulate" in command and "install" in command:
            new = [each for name in command if name in self.known for each in (*self.known[name], name)]
            text = "".join(f"Inst {name} (2.0 Test [all])\n" for name in new if name not in self.here)
        elif "--simulate" in command and "purge" in command:
            text = "".join(f"Purg {name} [2.0]\n" for name in self.here if name in command)
        elif command[0] == "apt-get" and "install" in command and "--download-only" not in command:
            assert undisturbed
            if self.policy is not None:
                self.policy_was_there.append(self.policy.exists())
            for name in command:
                if name in self.known:
                    self.here |= dict.fromkeys([name, *self.known[name]], "2.0")
        elif command[0] == "apt-get" and "purge" in command:
            self.here = {name: version for name, version in self.here.items() if name not in command}
        elif command[0] == "fail":
            code = 1
        return subprocess.CompletedProcess(command, code, text, "")


@pytest.fixture
def system(tmp_path):
    return System({"spinner": ["libspin1"]}, policy=tmp_path / "policy-rc.d")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path / "stacks"))
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)


def manager(system):
    return lambda: Manager("apt", system, policy=system.policy)


def with_recipe(monkeypatch, recipe, **changes):
    monkeypatch.setattr(sample_benchmarks, "SPIN", replace(sample_benchmarks.SPIN, recipe=recipe, **changes))


def payload(monkeypatch, tmp_path, script, name="wheel"):
    """Make a payload whose ``install`` is ``script``; return its source folder."""
    source = tmp_path / "workloads" / name
    source.mkdir(parents=True)
    (source / "install").write_text(f'#!/bin/sh\nset -eu\nmkdir -p "$1"\n{script}\n')
    (source / "install").chmod(0o755)
    monkeypatch.setattr(installing, "payload_source", lambda name: tmp_path / "workloads" / name)
    return source


def test_a_benchmark_is_recorded_after_its_smoke_run(monkeypatch, tmp_path, system):
    payload(monkeypatch, tmp_path, f'echo data >"$1/spokes"; echo done >"$1/{MARK}"')
    with_recipe(monkeypatch, Recipe(Packages(apt=("spinner",)), programs=("sh",), payload="wheel"))
    record = install("spin", Options(), progress=Silence(), manager=manager(system))
    assert record.packages == {"spinner": "2.0"}
    assert record.packages_added == ["libspin1", "spinner"]
    assert record.smoke is not None
    assert record.smoke.metric == "turns_per_s"
    assert record.smoke.value > 0
    assert (payload_dir("wheel") / "spokes").read_text() == "data\n"
    assert installation.load("spin") == record
    again = install("spin", Options(), progress=Silence(), manager=manager(system))
    assert again == record, "what is installed is not installed again"
    assert not (tmp_path / "stacks/smoke/spin").exists()


def test_services_are_kept_from_starting_while_packages_are_installed(monkeypatch, system):
    with_recipe(monkeypatch, Recipe(Packages(apt=("spinner",))))
    install("spin", Options(smoke=False), progress=Silence(), manager=manager(system))
    assert system.policy_was_there == [True]
    assert not system.policy.exists()
    assert list(undo.journal_dir().glob("*.json")) == []


def test_the_policy_of_an_administrator_stays(monkeypatch, system):
    system.policy.write_text("#!/bin/sh\nexit 0\n")
    with_recipe(monkeypatch, Recipe(Packages(apt=("spinner",))))
    install("spin", Options(smoke=False), progress=Silence(), manager=manager(system))
    assert system.policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_without_root_the_administrators_command_is_shown(monkeypatch, system):
    with_recipe(monkeypatch, Recipe(Packages(apt=("spinner",))))
    mine = lambda: Manager("apt", system, may_install=False)  # noqa: E731
    with pytest.raises(EnvironmentLacksError) as raised:
        install("spin", Options(), progress=Silence(), manager=mine)
    assert "spinner" in raised.value.message
    assert "sudo apt-get install --no-install-recommends spinner" in str(raised.value.hint)
    assert installation.load("spin") is None


def test_a_package_that_does_not_come_is_an_error_without_a_record(monkeypatch, system):
    with_recipe(monkeypatch, Recipe(Packages(apt=("absent",))))
    with pytest.raises(EnvironmentLacksError, match="did not install absent"):
        install("spin", Options(), progress=Silence(), manager=manager(system))
    assert installation.load("spin") is None


def test_a_payload_gets_cache_and_offline(monkeypatch, tmp_path):
    payload(monkeypatch, tmp_path, f'echo "$STEELYARD_CACHE $STEELYARD_OFFLINE" >"$1/{MARK}"')
    with_recipe(monkeypatch, Recipe(payload="wheel"))
    options = Options(cache=tmp_path / "cache", offline=True, smoke=False)
    install("spin", options, progress=Silence())
    assert (payload_dir("wheel") / MARK).read_text().split() == [str(tmp_path / "cache/wheel"), "1"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("spokes.tar: checksum differs", "spokes.tar: checksum differs"),
        (
            r"[ERROR] no route to host\n[ERROR] -> [Help 1]\n\033[0mMaven could not fetch it, see above",
            "Maven could not fetch it: [ERROR] no route to host",
        ),
    ],
)
def test_a_payload_that_fails_says_why(monkeypatch, tmp_path, said, message):
    payload(monkeypatch, tmp_path, f"printf '{said}\\n' >&2; exit 3")
    with_recipe(monkeypatch, Recipe(payload="wheel"))
    with pytest.raises(EnvironmentLacksError, match=f"^{re.escape(f'wheel: {message}')}$"):
        install("spin", Options(), progress=Silence())
    assert installation.load("spin") is None


def test_a_disk_that_is_too_small_is_refused_before_anything_is_fetched(monkeypatch, system):
    with_recipe(monkeypatch, Recipe(Packages(apt=("spinner",)), disk_bytes=1 << 60))
    with pytest.raises(EnvironmentLacksError, match="MiB of disk space"):
        install("spin", Options(), progress=Silence(), manager=manager(system))
    assert system.calls == []


def test_a_benchmark_that_fails_in_its_smoke_run_is_not_recorded(monkeypatch, tmp_path):
    with_recipe(monkeypatch, Recipe(programs=("sh",)))
    with pytest.raises(EnvironmentLacksError, match="no space left"):
        install("spin", Options(), progress=_Failing())
    assert installation.load("spin") is None


class _Failing(Silence):
    """Fails the run from outside, as a full disk would."""

    def phase(self, name):
        if name == "measure":
            raise EnvironmentLacksError("no space left")


def run_with(checks, value=5.0):
    golden = read(Run, GOLDEN / "run.json")
    return golden.model_copy(
        update={
            "metrics": {"turns_per_s": Metric(value=value, unit="1/s", missing=None if value else "none")},
            "verdict": Verdict.of(checks),
        }
    )


def test_other_work_on_the_machine_does_not_fail_a_smoke_run():
    busy = Check(id="foreign-load", level=Level.INVALID, claim="others used 90 %")
    assert installing.judge("spin", run_with([busy])).verdict == "invalid"


@pytest.mark.parametrize("check", ["errors", "interrupted", "checksums"])
def test_a_smoke_run_with_a_defect_fails(check):
    with pytest.raises(SteelyardError, match="shows a defect: half of them"):
        installing.judge("spin", run_with([Check(id=check, level=Level.INVALID, claim="half of them")]))


@pytest.mark.parametrize("value", [0.0, None])
def test_a_smoke_run_without_a_figure_fails(value):
    with pytest.raises(SteelyardError, match="gave no turns_per_s"):
        installing.judge("spin", run_with([], value))


def test_uninstall_removes_what_came_and_no_more(monkeypatch, tmp_path, system):
    payload(monkeypatch, tmp_path, f'echo done >"$1/{MARK}"')
    with_recipe(monkeypatch, Recipe(Packages(apt=("spinner",)), payload="wheel"))
    record = install("spin", Options(smoke=False), progress=Silence(), manager=manager(system))
    # Another benchmark shares the payload and a dependency.
    installation.save(record.model_copy(update={"benchmark": "nap", "packages_added": ["libspin1"]}))
    for name in ("spin", "nap"):
        prepared_dir(name).mkdir(parents=True)
        (prepared_dir(name) / "data").write_text("x" * 5000)
    kept = uninstall("spin", packages=True, manager=manager(system))
    assert kept.payload_bytes >= 5000
    assert not prepared_dir("spin").exists()
    assert prepared_dir("nap").is_dir()
    assert kept.packages == ()
    assert payload_dir("wheel").is_dir()
    assert "nap needs them" in kept.kept[0]
    freed = uninstall("nap", packages=True, manager=manager(system))
    # What one left for the other goes with it.
    assert freed.packages == ("libspin1", "spinner")
    assert not payload_dir("wheel").exists()
    assert freed.payload_bytes > 0
    with pytest.raises(UsageError, match="not installed"):
        uninstall("nap", packages=False, manager=manager(system))


def test_files_that_two_benchmarks_use_stay_until_both_have_gone(monkeypatch, tmp_path, system):
    """As those of Cassandra, which the application on Django reads too."""
    for name in ("wheel", "axle"):
        payload(monkeypatch, tmp_path, f'echo done >"$1/{MARK}"', name)
    with_recipe(monkeypatch, Recipe(payload="axle"))
    monkeypatch.setattr(
        sample_benchmarks,
        "NAP",
        replace(sample_benchmarks.NAP, recipe=Recipe(payload="wheel", shared_payloads=("axle",))),
    )
    for name in ("spin", "nap"):
        install(name, Options(smoke=False), progress=Silence())
    kept = uninstall("spin", packages=False)
    assert kept.kept == ("the files of axle: nap needs them",)
    assert missing(recipe_of("nap")) == []
    uninstall("nap", packages=False)
    assert not payload_dir("axle").exists()
    assert not payload_dir("wheel").exists()


def test_files_of_another_benchmark_that_went_are_brought_again(monkeypatch, tmp_path):
    for name in ("wheel", "axle"):
        payload(monkeypatch, tmp_path, f'echo done >"$1/{MARK}"', name)
    with_recipe(monkeypatch, Recipe(payload="wheel", shared_payloads=("axle",)))
    install("spin", Options(smoke=False), progress=Silence())
    shutil.rmtree(payload_dir("axle"))
    assert missing(recipe_of("spin")) == ["the files of axle"]
    install("spin", Options(smoke=False), progress=Silence())
    assert missing(recipe_of("spin")) == []


def test_the_application_on_django_needs_the_files_of_cassandra():
    assert set(recipe_of("cassandra").payloads) < set(recipe_of("django").payloads)
    assert recipe_of("social").payloads == recipe_of("django").payloads


def test_a_payload_that_is_here_comes_into_the_cache_too(monkeypatch, tmp_path):
    script = (
        f'[ -f "$1/{MARK}" ] && exit 0; echo file >"${{STEELYARD_CACHE:-$1}}/spokes"; echo 1 >"$1/{MARK}"'
    )
    source = payload(monkeypatch, tmp_path, script)
    with_recipe(monkeypatch, Recipe(payload="wheel"))
    first = install("spin", Options(smoke=False), progress=Silence())
    cached = Options(cache=tmp_path / "cache", smoke=False)
    assert install("spin", cached, progress=Silence()) == first
    assert (tmp_path / "cache/wheel/spokes").read_text() == "file\n"
    inode = payload_dir("wheel").stat().st_ino
    install("spin", cached, progress=Silence())
    assert payload_dir("wheel").stat().st_ino == inode, "what is kept is not fetched again"
    # What cannot be fetched leaves what was there.
    (source / "install").write_text('#!/bin/sh\nmkdir -p "$1"; echo no network >&2; exit 3\n')
    with pytest.raises(EnvironmentLacksError, match="no network"):
        install("spin", Options(cache=tmp_path / "other", smoke=False), progress=Silence())
    assert missing(Recipe(payload="wheel")) == []


# Java


@pytest.fixture
def javas(monkeypatch, tmp_path):
    """Only the versions of Java that a test makes are here; returns what makes one."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("STEELYARD_JVMS", str(tmp_path / "jvms"))

    def make(folder, version, *, compiler=False):
        program = tmp_path / folder / "bin/java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
        program.chmod(0o755)
        if compiler:
            (program.parent / "javac").write_text("")
        return program.parent.parent

    return make


def test_a_java_from_elsewhere_needs_no_package(monkeypatch, tmp_path, javas, system):
    home = javas("temurin", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(home))
    payload(monkeypatch, tmp_path, f'echo "$JAVA_HOME" >"$1/{MARK}"')
    with_recipe(
        monkeypatch,
        Recipe(Packages(apt=("spinner",)), java=Java((17,), needed_by="Wheel 1"), payload="wheel"),
    )
    record = install("spin", Options(smoke=False), progress=Silence(), manager=manager(system))
    assert record.packages == {"spinner": "2.0"}
    assert not any("openjdk" in word for call in system.calls for word in call)
    assert (payload_dir("wheel") / MARK).read_text().strip() == str(home)


def test_the_systems_package_of_a_java_that_fits_is_taken(monkeypatch, tmp_path, javas):
    """As on a distribution that has left version 17 behind."""
    system = System({"openjdk-21-jre-headless": []}, policy=tmp_path / "policy-rc.d")
    with_recipe(monkeypatch, Recipe(java=Java((17, 21), needed_by="Wheel 1")))
    names, _ = installing.used_names(recipe_of("spin"), manager(system)(), "spin")
    assert names == ("openjdk-21-jre-headless",)
    # The packages of a benchmark stay as long as it does, whoever brought them.
    javas("jvms/21", "21.0.3")
    system.here["openjdk-21-jre-headless"] = "2.0"
    record = install("spin", Options(smoke=False), progress=Silence(), manager=manager(system))
    assert record.packages == {"openjdk-21-jre-headless": "2.0"}
    assert record.packages_added == []


@pytest.mark.parametrize("compiles", [False, True])
def test_without_a_java_that_fits_nor_a_package_both_are_named(monkeypatch, tmp_path, javas, compiles):
    javas("jvms/25", "25.0.1", compiler=True)
    javas("jvms/17", "17.0.9") if compiles else None
    system = System({"openjdk-21-jdk-headless": []}, policy=tmp_path / "policy-rc.d")
    with_recipe(monkeypatch, Recipe(java=Java((17,), needed_by="Wheel 1", compiles=compiles)))
    with pytest.raises(EnvironmentLacksError) as raised:
        install("spin", Options(), progress=Silence(), manager=manager(system))
    kind = "jdk" if compiles else "jre"
    message = raised.value.message
    assert message.startswith(
        f"Wheel 1 needs Java 17{' with its compiler' if compiles else ''}, and there is "
    )
    assert "25.0.1" in message
    assert ("17.0.9 without a compiler" in message) is compiles
    assert message.endswith(f"apt has none of openjdk-17-{kind}-headless")
    assert "JAVA_HOME" in raised.value.hint


def test_a_cache_gets_java_for_others_that_have_none(monkeypatch, tmp_path, javas):
    javas("jvms/17", "17.0.9")
    system = System({"openjdk-17-jre-headless": []}, policy=tmp_path / "policy-rc.d")
    recipe = Recipe(Packages(apt=("spinner",)), java=Java((17,), needed_by="Wheel 1"))
    names = installing.used_names(recipe, manager(system)(), "spin", cache=tmp_path)
    assert names == (("spinner",), ("openjdk-17-jre-headless",))


@pytest.mark.parametrize("folder", ["usr/sbin", "usr/libexec"])
def test_servers_are_found_where_distributions_keep_them(tmp_path, folder):
    program = tmp_path / folder / "mariadbd"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_program("mariadbd", {"PATH": "/none"}, root=tmp_path) == str(program)


def test_what_is_missing_is_named_with_the_command(tmp_path):
    recipe = Recipe(programs=("sh", "no-such-program"), payload="wheel")
    assert missing(recipe) == ["no-such-program", "the files of wheel"]
    with pytest.raises(EnvironmentLacksError) as raised:
        require(recipe, "spin")
    assert raised.value.hint == "steelyard install spin"


def test_dnf_is_asked_in_its_own_words(system):
    calls = []

    def run(command, environment, *, undisturbed=False):
        calls.append(list(command))
        text = "spinner 2.0-1 installed\n" if len(calls) > 2 else ""
        return subprocess.CompletedProcess(command, 0, text, "")

    assert Manager("dnf", run).install(["spinner"], cache=None, offline=False) == ["spinner"]
    assert calls[1][:3] == ["dnf", "install", "-y"]
    assert calls[1][-1] == "spinner"


def test_the_systems_own_manager_knows_what_is_installed():
    known = find_manager().installed()
    assert len(known) > 20
    assert all(known.values())


def test_the_command_prints_a_document_that_fits_its_schema(monkeypatch, tmp_path, capsys):
    payload(monkeypatch, tmp_path, f'echo done >"$1/{MARK}"')
    with_recipe(monkeypatch, Recipe(payload="wheel"))
    assert invoke(["install", "spin", "tax", "--no-smoke", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((schemas_dir() / "install.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["nothing_needed"] == ["tax"]
    assert [each["benchmark"] for each in document["installed"]] == ["spin"]
    monkeypatch.setenv("COLUMNS", "200")
    assert invoke(["install"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "wheel" in rows["spin"]
    assert rows["django"].rstrip().endswith("python3-venv, Java 17 or 21, cassandra, django")
    assert invoke(["uninstall", "spin", "--json"]) == 0
    removed = json.loads(capsys.readouterr().out)
    schema = json.loads((schemas_dir() / "uninstall.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(removed)


def test_the_golden_record_fits_its_schema_and_comes_through_whole():
    text = (schemas_dir() / "installation.schema.json").read_text()
    assert text == schema_text(Installation), "run: make schemas"
    document = json.loads((GOLDEN / "installation.json").read_text())
    jsonschema.Draft202012Validator(json.loads(text)).validate(document)
    assert Installation.model_validate(document).model_dump(mode="json") == document


def test_wrong_names_and_flags_are_one_line(capsys, tmp_path):
    assert invoke(["install", "nothing-of-that-name"]) == 2
    assert invoke(["uninstall", "nothing-of-that-name"]) == 2
    assert invoke(["install", "spin", "--offline"]) == 2
    (tmp_path / "file").write_text("")
    assert invoke(["install", "spin", "--cache", str(tmp_path / "file")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if line.startswith("steelyard:")]) == 4
    assert os.path.lexists(tmp_path / "file")
