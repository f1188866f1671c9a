"""Configuration of the wiki's servers: every setting has its reason and arrives; what is missing is named."""

import os
import re
import tomllib

import pytest

from steelyard._base import EnvironmentLacksError, workloads_dir
from steelyard.bench.stack import recipe, tuning
from steelyard.benchmarks.mediawiki import servers
from steelyard.benchmarks.mediawiki.declaration import DECLARATION
from steelyard.benchmarks.mediawiki.servers import Places, Programs

FOLDER = workloads_dir() / "mediawiki"
PROGRAMS = Programs(
    nginx="/usr/sbin/nginx",
    php="/usr/bin/php",
    php_fpm="/usr/sbin/php-fpm8.2",
    mariadbd="/usr/sbin/mariadbd",
    mariadb_install="/usr/bin/mariadb-install-db",
    mariadb="/usr/bin/mariadb",
    memcached="/usr/bin/memcached",
    versions={"mediawiki": "1.39.17", "php": "8.2.36", "mariadb": "10.11", "nginx": "1", "memcached": "1"},
)


@pytest.fixture
def places(tmp_path):
    made = Places(tmp_path / "config", tmp_path / "run", tmp_path / "data", tmp_path / "messages")
    made.config.mkdir()
    return made


def write(places, **changed):
    chosen = {
        "port": 8081,
        "cache_port": 8082,
        "cores": 6,
        "workers": 12,
        "database_bytes": 256 << 20,
        "cache_bytes": 64 << 20,
    }
    servers.write_configuration(places, **{**chosen, **changed})


def test_each_setting_has_a_value_and_a_reason():
    document = tomllib.loads((FOLDER / "tuning.toml").read_text())
    assert set(document) == {"nginx", "php-fpm", "php", "mariadb", "memcached", "mediawiki"}
    for program, settings in document.items():
        for name, entry in settings.items():
            assert set(entry) == {"value", "why"}, (program, name)
            assert len(entry["why"]) > 9, (program, name)


def test_every_setting_arrives_and_nothing_is_left_to_fill_in(places):
    write(places)
    written = {path.name: path.read_text() for path in places.config.rglob("*") if path.is_file()}
    assert set(written) == {
        "nginx.conf", "php-fpm.conf", "steelyard.ini", "mariadb.cnf", "LocalSettings.php",
    }  # fmt: skip
    for name, text in written.items():
        assert not re.search(r"@[a-z_]+@", text), name
    files = {
        "php-fpm": "php-fpm.conf",
        "php": "steelyard.ini",
        "mariadb": "mariadb.cnf",
        "mediawiki": "LocalSettings.php",
        "nginx": "nginx.conf",
    }
    for program, file in files.items():
        for name in tuning.read_tuning("mediawiki")[program]:
            assert re.search(rf"^[^#;]*\$?{re.escape(name)}\b", written[file], re.MULTILINE), (file, name)
    assert "pm.max_children = 12" in written["php-fpm.conf"]
    assert "worker_processes 6;" in written["nginx.conf"]
    assert "innodb_buffer_pool_size = 256M" in written["mariadb.cnf"]
    assert "max_connections = 28" in written["mariadb.cnf"]


def test_every_server_listens_on_this_host_alone(places):
    write(places)
    nginx = (places.config / "nginx.conf").read_text()
    assert re.findall(r"listen ([^;]+);", nginx) == ["127.0.0.1:8081 backlog=4096"]
    assert f"listen = {places.run}/php.sock" in (places.config / "php-fpm.conf").read_text()
    assert "\nskip_networking\n" in (places.config / "mariadb.cnf").read_text()
    command = servers.cache_command(PROGRAMS, 8082, 64 << 20)
    assert command[1:5] == ["-l", "127.0.0.1", "-p", "8082"]
    assert command[command.index("-m") + 1] == "64"


def test_the_import_needs_no_cache_and_compiles_messages(places):
    write(places, preparing=True)
    settings = (places.config / "LocalSettings.php").read_text()
    assert "memcached-pecl" not in settings
    assert settings.count("CACHE_NONE") == 4
    assert "$wgLocalisationCacheConf['manualRecache'] = false;" in settings
    write(places)
    assert "manualRecache'] = true;" in (places.config / "LocalSettings.php").read_text()


def test_commands_read_the_runs_own_files(places):
    for command in (
        servers.database_command(PROGRAMS, places),
        servers.php_command(PROGRAMS, places),
        servers.web_command(PROGRAMS, places),
        servers.script_command(PROGRAMS, places, "runJobs.php"),
    ):
        assert str(places.config) in " ".join(command)
    assert f"PHP_INI_SCAN_DIR=:{places.config}/php" in servers.php_command(PROGRAMS, places)
    # Root has to be allowed; an ordinary user gets no --user=root.
    is_root = os.geteuid() == 0
    assert ("--user=root" in servers.database_command(PROGRAMS, places)) == is_root


def test_a_name_that_nobody_fills_in_is_an_error():
    with pytest.raises(EnvironmentLacksError, match=r"nginx.conf: @color@ stands for nothing"):
        tuning.fill("fill @color@", {"port": "1"}, where="nginx.conf")


@pytest.mark.parametrize("lacking", ["nginx", "mariadbd", "memcached", "php"])
def test_a_missing_program_is_named_with_the_command_that_helps(lacking, tmp_path, monkeypatch):
    assert DECLARATION.recipe is not None
    for name in DECLARATION.recipe.programs:
        if name != lacking:
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(recipe, "_SERVERS", ())
    monkeypatch.setattr(recipe.find_program, "__defaults__", ({"PATH": str(tmp_path)},))
    with pytest.raises(EnvironmentLacksError, match=f"mediawiki: {lacking} is not installed") as raised:
        servers.find_programs()
    assert raised.value.hint == "steelyard install mediawiki"


def test_a_missing_module_of_php_is_named(tmp_path):
    fpm = tmp_path / "php-fpm"
    fpm.write_text("#!/bin/sh\nprintf 'dom\\nintl\\nmbstring\\nmysqli\\nZend OPcache\\n'\n")
    fpm.chmod(0o755)
    with pytest.raises(EnvironmentLacksError, match=r"needs PHP's apcu, memcached, which"):
        servers._check_modules(str(fpm))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "needs MediaWiki, which is not in"),
        ("define( 'MW_VERSION', '1.35.8' );", "needs MediaWiki 1.39 or later"),
        ("define( 'OTHER', '1' );", "names no version"),
    ],
)
def test_a_mediawiki_that_is_missing_or_too_old_is_named(text, message, tmp_path, monkeypatch):
    monkeypatch.setattr(servers, "MEDIAWIKI", tmp_path)
    if text is not None:
        (tmp_path / "includes").mkdir()
        (tmp_path / "includes" / "Defines.php").write_text(f"<?php\n{text}\n")
    with pytest.raises(EnvironmentLacksError, match=message) as raised:
        servers._mediawiki_version()
    assert raised.value.hint == "steelyard install mediawiki"
