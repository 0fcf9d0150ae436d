"""Writes over fsspec that are cancelled, or end with an exception: no half of a file is published."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import fsspec
import pytest

from conftest import Far, running
from lighthaul import _blocking
from lighthaul.fsspec import LighthaulFileSystem

SLICE = bytes(1000)
SCRIPT = """
import concurrent.futures.thread, json, sys, threading
def put():
    fs.put_file(sys.argv[2], sys.argv[3])
# runs after the functions that are registered later, and before the wait for threads
threading._register_atexit(lambda: print("exits", flush=True))
from lighthaul.fsspec import LighthaulFileSystem
fs = LighthaulFileSystem(**json.loads(sys.argv[1]))
"""
"""Begin of a program that copies a FIFO to a file."""


def options_of(far: Far) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": far.port, **far.settings}


def is_created(far: Far, name: str) -> None:
    """Wait for the temporary file in a directory."""
    until = time.monotonic() + 60
    while not (far.root / name).exists() or not any((far.root / name).iterdir()):
        assert time.monotonic() < until, "the file is not created"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    """A daemon of this module: sessions of interrupted programs hold memory there until they are lost."""
    with running(tmp_path_factory.mktemp("ends")) as found:
        yield found


@pytest.fixture
def options(far: Far) -> dict[str, Any]:
    return options_of(far)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A source that gives its bytes when the test wants that."""
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@contextmanager
def program(far: Far, end: str, fifo: Path, name: str) -> Iterator[tuple[subprocess.Popen[str], IO[bytes]]]:
    """Run a program, and return it with the other side of its FIFO, once it copies."""
    words = [sys.executable, "-c", SCRIPT + end, json.dumps(options_of(far)), str(fifo), f"/{name}/file"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            with opened(fifo) as outlet:
                outlet.write(SLICE)
                is_created(far, name)
                yield started, outlet
        finally:
            started.kill()


def opened(fifo: Path) -> IO[bytes]:
    """Open the other side of a FIFO, without a wait for the program."""
    return os.fdopen(os.open(fifo, os.O_RDWR), "wb", buffering=0)


def end_main_thread(started: subprocess.Popen[str]) -> None:
    """End the main thread of a program, and wait until the interpreter has called its functions for that."""
    assert started.stdin is not None
    started.stdin.write("end\n")
    started.stdin.flush()
    assert said(started) == "exits\n"


def said(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline()


def ends(started: subprocess.Popen[str], outlet: IO[bytes]) -> None:
    """Give the rest of the source, and wait for the end of the program."""
    outlet.write(SLICE)
    outlet.close()
    assert started.wait(60) == 0


async def test_cancelled_put_publishes_nothing(
    far: Far, options: dict[str, Any], fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = _blocking.Pool()
    monkeypatch.setattr(_blocking, "POOL", pool)
    fs = LighthaulFileSystem(asynchronous=True, skip_instance_cache=True, **options)
    putting = asyncio.ensure_future(fs._put_file(str(fifo), "/cancelled-put/file"))
    with opened(fifo) as outlet:
        outlet.write(SLICE)
        await asyncio.to_thread(is_created, far, "cancelled-put")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(putting, 0.1)
        outlet.write(SLICE)
    pool.get().shutdown()
    assert list((far.root / "cancelled-put").glob("file")) == []


async def test_cancelled_request_of_a_full_pool_does_not_start(
    far: Far, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_blocking, "THREADS", 1)
    pool = _blocking.Pool()
    monkeypatch.setattr(_blocking, "POOL", pool)
    go = asyncio.Event()
    loop = asyncio.get_running_loop()
    first = asyncio.ensure_future(
        _blocking.blocking(lambda: asyncio.run_coroutine_threadsafe(go.wait(), loop).result())
    )
    fs = LighthaulFileSystem(asynchronous=True, skip_instance_cache=True, **options)
    piping = asyncio.ensure_future(fs._pipe_file("/not-started", b"x"))
    await asyncio.sleep(0)
    piping.cancel()
    go.set()
    await first
    pool.get().shutdown()
    assert not (far.root / "not-started").exists()


def test_interrupted_put_publishes_nothing(far: Far, fifo: Path) -> None:
    end = 'try: put()\nexcept KeyboardInterrupt: print("interrupted", flush=True)'
    with program(far, end, fifo, "interrupted-put") as (started, outlet):
        started.send_signal(signal.SIGINT)
        assert said(started) == "interrupted\n"
        ends(started, outlet)
    assert list((far.root / "interrupted-put").glob("file")) == []


def test_put_that_nobody_waits_for_ends_with_the_interpreter(far: Far, fifo: Path) -> None:
    end = "threading.Thread(target=put, daemon=True).start()\nsys.stdin.readline()"
    with program(far, end, fifo, "abandoned-put") as (started, outlet):
        end_main_thread(started)
        ends(started, outlet)
    assert list((far.root / "abandoned-put").glob("file")) == []


def test_put_of_a_thread_is_complete_before_the_interpreter_ends(far: Far, fifo: Path) -> None:
    end = "threading.Thread(target=put).start()\nsys.stdin.readline()"
    with program(far, end, fifo, "joined-put") as (started, outlet):
        end_main_thread(started)
        ends(started, outlet)
    assert (far.root / "joined-put/file").read_bytes() == 2 * SLICE


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_failed_block_of_fsspec_open_keeps_the_old_file(far: Far, mode: str, compression: str | None) -> None:
    (far.root / "good").write_bytes(b"old")
    data: Any = b"half" if mode == "wb" else "half"
    opened = fsspec.open(far.place("good"), mode, compression=compression, **far.settings)
    with pytest.raises(ZeroDivisionError):
        with opened as file:
            file.write(data)
            raise ZeroDivisionError
    assert (far.root / "good").read_bytes() == b"old"


def in_text(fs: LighthaulFileSystem) -> None:
    with fs.open("/ended", "w") as file:
        file.write("half")
        raise ZeroDivisionError


def in_closing(fs: LighthaulFileSystem) -> None:
    with closing(fs.open("/ended", "wb")) as file:
        file.write(b"half")
        raise ZeroDivisionError


@pytest.mark.parametrize("work", [in_text, in_closing])
def test_file_that_an_exception_closes_is_discarded(
    far: Far, options: dict[str, Any], work: Callable[[LighthaulFileSystem], None]
) -> None:
    (far.root / "ended").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        work(LighthaulFileSystem(**options))
    assert (far.root / "ended").read_bytes() == b"old"


def in_handler(fs: LighthaulFileSystem) -> None:
    file = fs.open("/ended", "wb")
    try:
        file.write(b"whole")
        raise EOFError
    except EOFError:
        # the program may take the file for complete
        file.close()


def in_finally(fs: LighthaulFileSystem) -> None:
    file = fs.open("/ended", "wb")
    try:
        file.write(b"half")
        raise EOFError
    finally:
        file.close()


@pytest.mark.parametrize("work", [in_handler, in_finally])
def test_close_in_a_handler_says_that_the_file_is_discarded(
    far: Far, options: dict[str, Any], work: Callable[[LighthaulFileSystem], None]
) -> None:
    (far.root / "ended").write_bytes(b"old")
    with pytest.raises(OSError, match="discarded, since it was closed while EOFError was handled") as found:
        work(LighthaulFileSystem(**options))
    assert isinstance(found.value.__context__, EOFError)
    assert (far.root / "ended").read_bytes() == b"old"


def test_interrupted_finally_discards_the_file(far: Far, options: dict[str, Any]) -> None:
    fs = LighthaulFileSystem(**options)
    with pytest.raises(KeyboardInterrupt):
        file = fs.open("/interrupted", "wb")
        try:
            raise KeyboardInterrupt
        finally:
            file.close()
    assert not (far.root / "interrupted").exists()


def test_file_that_is_committed_in_a_handler_is_complete(far: Far, options: dict[str, Any]) -> None:
    file = LighthaulFileSystem(**options).open("/committed", "wb")
    try:
        file.write(b"whole")
        raise EOFError
    except EOFError:
        file.commit()
        file.close()
    assert (far.root / "committed").read_bytes() == b"whole"


async def test_stream_that_an_exception_closes_is_discarded(far: Far, options: dict[str, Any]) -> None:
    fs = LighthaulFileSystem(asynchronous=True, skip_instance_cache=True, **options)
    with pytest.raises(OSError, match="ended-stream was discarded"):
        file = await fs.open_async("/ended-stream", "wb")
        try:
            await file.write(b"half")
            raise ZeroDivisionError
        finally:
            await file.close()
    assert not (far.root / "ended-stream").exists()


def test_exceptions_that_do_not_concern_a_file_do_not_discard_it(far: Far, options: dict[str, Any]) -> None:
    fs = LighthaulFileSystem(**options)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        # it was raised before the file was opened
        with fs.open("/handled", "wb") as file:
            file.write(b"one")
    items = iter([b"t", b"wo"])
    file = fs.open("/iterated", "wb")
    while True:
        try:
            file.write(next(items))
        except StopIteration:
            file.close()
            break
    assert (far.root / "handled").read_bytes() == b"one"
    assert (far.root / "iterated").read_bytes() == b"two"
