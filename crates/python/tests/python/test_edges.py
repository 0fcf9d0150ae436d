"""Signals, callbacks that fail or block, forks, and the end of the interpreter."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import lighthaul
from conftest import SLOW, Far, running
from lighthaul._files import BUFFER, RawReader, RawWriter, Reader, Writer


def script(far: Far, text: str, *words: str) -> subprocess.Popen[str]:
    """Run a program with a client."""
    head = f"import os, sys, time, lighthaul\nclient = lighthaul.Client(**{far.settings!r})\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + text, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


COPY = f"""
def show(progress):
    if progress.done and not shown:
        shown.append(print("moving", flush=True))
shown = []
try:
    client.copy(sys.argv[1], sys.argv[2], rate="{SLOW}", on_progress=show)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_interrupt_cancels_a_blocking_copy_within_a_second(far: Far, client: lighthaul.Client, large: Path) -> None:
    with script(far, COPY, str(large), far.place("interrupted")) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "moving\n"
        begin = time.monotonic()
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == "interrupted\n"
        took = time.monotonic() - begin
        assert program.wait() == 0
    # the host may be busy
    assert took < max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), took
    assert not (far.root / "interrupted").exists()
    # the daemon has let go of the file, and keeps what has arrived
    summary = client.copy(large, far.place("interrupted"))
    assert summary.entries == 1
    assert (far.root / "interrupted").read_bytes() == large.read_bytes()


def test_interrupt_ends_requests_without_an_answer(far: Far) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"lh://127.0.0.1:{silent.getsockname()[1]}/"
        text = f"print('asks', flush=True)\nclient.ls({place!r})"
        with script(far, text) as program:
            assert program.stdout is not None and program.stderr is not None
            assert program.stdout.readline() == "asks\n"
            silent.accept()
            begin = time.monotonic()
            program.send_signal(signal.SIGINT)
            assert "KeyboardInterrupt" in program.stderr.read()
            program.wait()
            assert time.monotonic() - begin < 10


class Failing:
    """File of the library that fails in its third call."""

    def __init__(self, failure: BaseException, size: int = 0) -> None:
        self.failure = failure
        self.size = size
        self.calls = 0
        self.committed = False

    def count(self) -> None:
        self.calls += 1
        if self.calls == 3:
            raise self.failure

    def read_at(self, at: int, length: int) -> bytes:
        self.count()
        return bytes(byte % 251 for byte in range(at, min(at + length, self.size)))

    def write(self, data: bytes, at: int) -> None:
        self.count()

    def commit(self) -> None:
        self.committed = True


def test_interrupted_read_skips_nothing() -> None:
    raw = RawReader(Failing(KeyboardInterrupt(), 4 * BUFFER), "name")  # type: ignore[arg-type]
    reader = Reader(raw)
    with pytest.raises(KeyboardInterrupt):
        reader.read(4 * BUFFER - 1)
    assert reader.read(1000) == bytes(byte % 251 for byte in range(1000))


def test_failed_write_is_never_published() -> None:
    native = Failing(MemoryError())
    writer = Writer(RawWriter(native, "name", "wb"))  # type: ignore[arg-type]
    for _ in range(2):
        writer.write(bytes(2 * BUFFER))
    writer.write(b"end")
    with pytest.raises(MemoryError):
        writer.close()
    assert not native.committed
    with pytest.raises(OSError, match="discarded"):
        writer.commit()


def test_callback_that_raises_cancels_the_copy(far: Far, client: lighthaul.Client, large: Path) -> None:
    class Broken(Exception):
        pass

    def fail(progress: lighthaul.Progress) -> None:
        if progress.done:
            raise Broken

    with pytest.raises(Broken):
        client.copy(large, far.place("broken"), rate=SLOW, on_progress=fail)
    with pytest.raises(Broken):
        client.start(large, far.place("broken"), rate=SLOW, on_progress=fail).wait()
    assert not (far.root / "broken").exists()


def test_callback_that_blocks_does_not_stop_the_copy(far: Far, client: lighthaul.Client, large: Path) -> None:
    proceed = threading.Event()
    transfer = client.start(large, far.place("blocked"), on_progress=lambda progress: proceed.wait(60))
    assert transfer.wait(60).entries == 1
    proceed.set()

    def block(progress: lighthaul.Progress) -> None:
        deadline = time.monotonic() + 60
        while not (far.root / "blocked-too").exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    client.copy(large, far.place("blocked-too"), on_progress=block)


def test_forgotten_transfer_is_cancelled(far: Far, client: lighthaul.Client, large: Path) -> None:
    client.start(large, far.place("forgotten"), rate=SLOW)
    # the daemon lets go of the file, which another copy then writes
    client.copy(large, far.place("forgotten"))


def in_child(results: multiprocessing.Queue[str], client: lighthaul.Client, place: str, file: str) -> None:
    try:
        client.copy(file, place)
        results.put(client.stat(place).kind)
    except BaseException as failure:
        results.put(repr(failure))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_client_works_in_a_child(far: Far, client: lighthaul.Client, tmp_path: Path, method: str) -> None:
    (tmp_path / "x").write_bytes(b"123")
    client.copy(tmp_path / "x", far.place("parent"))
    context: Any = multiprocessing.get_context(method)
    results = context.Queue()
    words = (results, client, far.place(f"child-{method}"), str(tmp_path / "x"))
    child = context.Process(target=in_child, args=words)
    child.start()
    assert results.get(timeout=60) == "file"
    child.join()


def test_transfer_of_the_parent_is_refused_in_a_child(far: Far, client: lighthaul.Client, large: Path) -> None:
    transfer = client.start(large, far.place("forked"), rate=SLOW)
    while transfer.progress.done == 0:
        time.sleep(0.01)
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            transfer.wait()
            text = "it ended"
        except RuntimeError as error:
            text = str(error)
        os.write(outlet, json.dumps(text).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "start another one here" in json.loads(os.read(inlet, 1000))
    os.close(inlet)
    os.close(outlet)
    # the parent goes on
    assert not transfer.is_finished
    transfer.cancel()


@pytest.mark.parametrize(
    "end",
    ["", "sys.exit(3)", "raise ValueError", "del client; transfer.progress", "import threading; threading.Thread(target=transfer._native.wait, args=(60,), daemon=True).start()"],
)
def test_interpreter_exits_with_a_running_copy(far: Far, large: Path, end: str) -> None:
    text = f"""
transfer = client.start(sys.argv[1], sys.argv[2], rate="{SLOW}", on_progress=lambda progress: None)
while transfer.progress.done == 0:
    time.sleep(0.01)
{end}
"""
    begin = time.monotonic()
    with script(far, text, str(large), far.place("exit")) as program:
        _, errors = program.communicate(timeout=30)
    assert program.returncode == {"sys.exit(3)": 3, "raise ValueError": 1}.get(end, 0), errors
    assert ("Traceback" in errors) == (end == "raise ValueError"), errors
    assert not (far.root / "exit").exists()
    assert time.monotonic() - begin < 30


AWAITED = f"""
import asyncio, signal
async def main():
    transfer = client.start(sys.argv[1], sys.argv[2], rate="{SLOW}")
    waiting = asyncio.ensure_future(transfer._end())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    # the child has a copy of the socket that tells of the end
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        print((await waiting).entries, flush=True)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
asyncio.run(main())
"""


def test_awaited_copy_ends_while_a_child_process_lives(far: Far, large: Path) -> None:
    with script(far, AWAITED, str(large), far.place("awaited")) as program:
        output, errors = program.communicate(timeout=100)
    assert output == "1\n", errors


@pytest.mark.parametrize("fails_in", ["write", "close"])
def test_restart_under_an_open_writer_publishes_nothing(tmp_path: Path, fails_in: str) -> None:
    with running(tmp_path) as far:
        client, place = far.client(), far.place("new")
        writer = client.open(place, "wb")
        writer.write(bytes(BUFFER))
        writer.flush()
        far.daemon.kill()
        far.daemon.wait()
    with running(tmp_path, far.port) as again:
        with pytest.raises(lighthaul.NetworkError, match=r"cannot write lh://\S+/new: .*(write it again|not known)"):
            for _ in range(1000 if fails_in == "write" else 0):
                writer.write(bytes(BUFFER))
            writer.close()
        # also a buffer that is closed later publishes nothing
        with contextlib.suppress(OSError):
            writer.close()
        assert not (again.root / "new").exists()
        # the same client goes on
        with client.open(place, "wb") as file:
            file.write(b"again")
        assert (again.root / "new").read_bytes() == b"again"


VIEWS = """
import gc
from lighthaul._buffers import Pinned
from lighthaul.fsspec import octets_or_copy
gc.disable()
for take in (octets_or_copy, lambda data: Pinned(data).view):
    for make in (bytearray, lambda size: memoryview(bytearray(size)), lambda size: memoryview(bytes(size)).cast("I")):
        for order in (1, -1):
            data = make(16)
            circle = [data, take(data)][::order]
            circle.append(circle)
            del data, circle
            gc.collect()
"""


def test_views_of_views_are_collected() -> None:
    done = subprocess.run([sys.executable, "-c", VIEWS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
