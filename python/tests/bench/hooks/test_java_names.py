"""Names of a running JVM's code: read by the recorder, gone afterwards; other processes are left alone."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import weigh
from steelyard.bench.children import process_cpu_s
from steelyard.bench.recorders import java_names, stacks

PROGRAM = """
class Spin {
    public static void main(String[] arguments) {
        System.out.println("spins");
        for (long sum = 0; sum != 42;) sum += digits(sum);
    }
    static long digits(long from) {
        long sum = 0;
        for (int i = 0; i < 100_000; i++) sum += Long.toString(from + i).hashCode();
        return sum;
    }
}
"""


def stranger(folder: Path, *, has_hotspot: bool, catches: bool) -> subprocess.Popen[str]:
    """Start a process that is no JVM; it says when it is ready, and lasts until it is ended."""
    library = folder / "libjvm.so"
    library.write_bytes(b"x" * 4096)
    lines = ["import mmap, signal"]
    if has_hotspot:
        lines += [f"file = open({str(library)!r}, 'r+b')", "area = mmap.mmap(file.fileno(), 4096)"]
    if catches:
        lines += ["signal.signal(signal.SIGQUIT, lambda *_: print('received', flush=True))"]
    lines += ["print('ready', flush=True)", "while True: signal.pause()"]
    process = subprocess.Popen([sys.executable, "-c", "\n".join(lines)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(("has_hotspot", "catches"), [(True, False), (False, True)])
def test_a_process_that_is_no_jvm_gets_no_signal(tmp_path, has_hotspot, catches):
    process = stranger(tmp_path, has_hotspot=has_hotspot, catches=catches)
    try:
        with java_names.written([process.pid, 1 << 22], time.sleep) as reasons:
            assert reasons == []
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.read() == ""
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL


def test_a_jvm_that_does_not_listen_costs_the_names_only(tmp_path):
    process = stranger(tmp_path, has_hotspot=True, catches=True)
    try:
        assert process.stdout is not None
        waits = []
        with java_names.written([process.pid], waits.append) as reasons:
            assert reasons == [f"process {process.pid}: it does not listen"]
            assert process.stdout.readline() == "received\n"
        assert sum(waits) < 1.1 * java_names.ANSWER_S
        assert not Path(f"/tmp/.attach_pid{process.pid}").exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("owner", ["itself", "another user"])
def test_who_answers_without_end_is_not_waited_for(tmp_path, monkeypatch, owner):
    if owner == "another user" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    monkeypatch.setattr(java_names, "ANSWER_S", 0.3)
    process = stranger(tmp_path, has_hotspot=True, catches=True)
    path = Path(f"/tmp/.java_pid{process.pid}")
    try:
        with socket.socket(socket.AF_UNIX) as server:
            # A JVM that was killed leaves its file, and its number may come again.
            path.unlink(missing_ok=True)
            server.bind(str(path))
            server.listen()
            if owner == "another user":
                os.chown(path, 65_534, 65_534)
            dripping = threading.Thread(target=drip, args=(server,), daemon=True)
            dripping.start()
            with java_names.written([process.pid], time.sleep) as [reason]:
                assert reason.endswith("timed out" if owner == "itself" else "belongs to another user")
    finally:
        path.unlink()
        process.kill()
        process.wait()


def drip(server: socket.socket) -> None:
    """Answer a byte at a time, never to the end."""
    with contextlib.suppress(OSError):
        client, _ = server.accept()
        while True:
            client.sendall(b"0")
            time.sleep(0.05)


def nameless(samples: dict[str, int]) -> int:
    """Return the samples in functions without a name."""
    return sum(count for name, count in samples.items() if name.startswith("["))


def test_a_recording_names_what_a_running_jvm_has_compiled(tmp_path):
    if shutil.which("javac") is None:
        pytest.skip("no Java here; Spark and Cassandra are profiled in their own tests")
    (tmp_path / "Spin.java").write_text(PROGRAM)
    folded = tmp_path / "profile.folded"
    with subprocess.Popen(
        ["java", "-Xmx64m", "Spin.java"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as jvm:
        try:
            assert jvm.stdout is not None
            assert jvm.stdout.readline() == "spins\n"
            command = stacks.sampling_command(
                ["--pid", str(jvm.pid)], hz=99, call_graph="fp", files=["--folded", str(folded)]
            )
            with subprocess.Popen(command) as recorder:
                cpu_s = process_cpu_s(jvm.pid)
                while process_cpu_s(jvm.pid) < cpu_s + 1:
                    time.sleep(0.05)
                with java_names.written([jvm.pid], time.sleep) as reasons:
                    assert reasons == []
                    recorder.send_signal(signal.SIGINT)
                    assert recorder.wait(30) == 0
        finally:
            jvm.kill()
    weights = weigh(read_folded(folded))
    samples = dict(zip(weights.keys, weights.total, strict=True))
    # How many fall here rests on what is compiled and inlined; hardly one of compiled code has no name.
    assert any("Spin.digits(" in name for name in samples), samples
    compiled = [count for name, count in samples.items() if ".Long." in name or "Spin." in name]
    assert max(compiled) > nameless(samples), samples
    assert not list(Path("/tmp").glob(f"*{jvm.pid}.map"))
    assert not Path(f"/tmp/.attach_pid{jvm.pid}").exists()
