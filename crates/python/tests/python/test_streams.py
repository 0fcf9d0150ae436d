"""Streams through pipes and files of a daemon: buffers, arrays, coroutines, signals and forks."""

from __future__ import annotations

import array
import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lighthaul
from conftest import Far, running

ARRAYS: dict[str, Any] = {"object_size": "1MiB", "objects_per_second": 100, "delay": 0.05, "no_udp": True}
"""Options for messages of up to 1 MiB, of which none is lost."""
numbers = itertools.count()


@pytest.fixture
def pipe(far: Far) -> str:
    """Place of a new pipe of the daemon."""
    name = f"pipe-{next(numbers)}"
    os.mkfifo(far.root / name)
    return far.place(name)


def until(done: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_buffers_of_all_kinds_cross_a_pipe(client: lighthaul.Client, pipe: str) -> None:
    points = np.zeros(3, dtype=[("x", "<f8"), ("id", "<u2")])
    points["x"] = [1.5, 2.5, 3.5]
    messages: list[Any] = [
        b"",
        b"bytes",
        bytearray(b"x" * 1000),
        memoryview(b"0123456789")[2:5],
        array.array("d", [1.0, 2.0]),
        np.arange(1 << 18, dtype=np.float32).reshape(512, 512),
        np.array(3.0),
        np.empty((0, 3)),
        np.ones(5, dtype=complex),
        points,
    ]
    with client.receive_stream(pipe, **ARRAYS) as receiving, client.send_stream(pipe, **ARRAYS) as sending:
        for message in messages:
            sending.send(message)
        sending.close()
        received = list(receiving)
        assert [bytes(one) for one in received] == [bytes(memoryview(one)) for one in messages]
        summary = receiving.finish()
        assert (summary.messages, summary.delivered, summary.lost) == (len(messages), len(messages), 0)
    assert sending.finish().bytes == summary.bytes == sum(map(len, received))
    assert sending.is_finished and "ended" in repr(sending)
    with pytest.raises(lighthaul.UsageError, match="has ended"):
        sending.send(b"more")


def test_messages_are_received_into_buffers_and_arrays(client: lighthaul.Client, pipe: str) -> None:
    values = np.arange(1 << 17, dtype=np.int64)
    with client.receive_stream(pipe, **ARRAYS) as receiving, client.send_stream(pipe, **ARRAYS) as sending:
        for _ in range(4):
            sending.send(values)
        sending.close()
        target = np.zeros_like(values)
        assert receiving.recv_into(target) == values.nbytes and (target == values).all()
        # a buffer that is too small loses nothing
        with pytest.raises(ValueError, match="1048576 bytes, and the buffer 8"):
            receiving.recv_into(np.zeros(1))
        target[:] = 0
        large = bytearray(values.nbytes + 5)
        assert receiving.recv_into(large) == values.nbytes and large.startswith(values.tobytes())
        with pytest.raises(ValueError, match="multiple"):
            receiving.recv_array([("a", "S3")])
        found = receiving.recv_array(np.int64)
        assert found is not None and found.flags.writeable and (found == values).all()
        for unfit in (b"read only", values.reshape(2, -1)[:, ::2], np.zeros(3, dtype="M8[s]")):
            with pytest.raises(TypeError):
                receiving.recv_into(unfit)
        assert bytes(receiving.recv() or b"") == values.tobytes()
        assert receiving.recv() is None and receiving.recv_into(target) is None and receiving.recv_array() is None


def test_unfit_objects_are_refused_and_the_stream_goes_on(client: lighthaul.Client, far: Far) -> None:
    square = np.ones((4, 4))
    with client.send_stream(far.place("unfit"), **ARRAYS) as sending:
        for unfit in (square[:, 1], np.asfortranarray(np.ones((2, 3))), "text", 5, None, np.zeros(2, dtype="M8[s]")):
            with pytest.raises(TypeError):
                sending.send(unfit)  # type: ignore[arg-type]
        sending.send(np.ascontiguousarray(square[:, 1]))
    assert (far.root / "unfit").read_bytes() == (32).to_bytes(4, "big") + np.ones(4).tobytes()
    with client.send_stream(far.place("lines"), frames="lines", no_udp=True) as sending:
        with pytest.raises(lighthaul.UsageError, match="line feed"):
            sending.send(b"two\nlines")
        sending.send(b"one line")
    assert (far.root / "lines").read_bytes() == b"one line\n"
    with client.send_stream(far.place("fixed"), **ARRAYS | {"frames": 4}) as sending:
        sending.send(b"four")
        sending.send(b"end")
        with pytest.raises(lighthaul.UsageError, match="another framing"):
            sending.send(b"four")
    assert (far.root / "fixed").read_bytes() == b"fourend"
    wrongs: tuple[Any, ...] = ({"frames": "words"}, {"object_size": 5}, {"linger": -1.0}, {"rate": 0})
    for wrong in wrongs:
        with pytest.raises(ValueError):
            client.send_stream(far.place("x"), **wrong)
    with pytest.raises(TypeError, match="no option speed"):
        client.send_stream(far.place("x"), speed=1)  # type: ignore[call-arg]


def test_failures_of_a_stream_are_exceptions(client: lighthaul.Client, far: Far) -> None:
    with pytest.raises(lighthaul.OpenError, match="absent"):
        client.receive_stream(far.place("absent")).recv()
    with pytest.raises(lighthaul.UsageError):
        client.send_stream("here", no_udp=True).finish()
    sending = client.send_stream(far.place("long"), no_udp=True)
    with pytest.raises(lighthaul.UsageError, match="limit"):
        sending.send(bytes(100_000))
        sending.finish()
    sending = client.send_stream(far.place("longer"), **ARRAYS)
    with pytest.raises(lighthaul.UsageError, match="limit"):
        # the socket takes less than the message
        sending.send(bytes((1 << 20) + 1))
        sending.finish()
    assert not (far.root / "longer").exists() or (far.root / "longer").stat().st_size == 0


def test_buffer_cannot_be_resized_while_it_is_sent(client: lighthaul.Client, pipe: str) -> None:
    message = bytearray(1 << 20)
    # there is no reader
    sending = client.send_stream(pipe, **ARRAYS)
    failures: list[BaseException] = []

    def send() -> None:
        try:
            while True:
                sending.send(message)
        except lighthaul.Error as error:
            failures.append(error)

    thread = threading.Thread(target=send)
    thread.start()

    def is_pinned() -> bool:
        try:
            message.append(0)
        except BufferError:
            return True
        message.pop()
        return False

    until(is_pinned)
    sending.cancel()
    thread.join(60)
    assert isinstance(failures[0], lighthaul.Cancelled)
    until(lambda: not is_pinned())


def test_waiting_calls_end_when_the_stream_is_closed(client: lighthaul.Client, pipe: str) -> None:
    receiving = client.receive_stream(pipe, **ARRAYS)
    with pytest.raises(TimeoutError):
        receiving.recv(timeout=0.05)
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            receiving.recv_into(bytearray(10))
        except lighthaul.Cancelled as error:
            failures.append(error)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    with pytest.raises(TimeoutError):
        receiving.recv(timeout=0.05)
    receiving.close()
    for thread in threads:
        thread.join(60)
    assert len(failures) == 2


async def test_coroutines_send_and_receive(client: lighthaul.Client, pipe: str) -> None:
    values = np.random.default_rng(1).random((8, 1 << 14))

    async def send() -> lighthaul.StreamSummary:
        async with client.send_stream(pipe, **ARRAYS) as sending:
            await asyncio.gather(*(sending.asend(row) for row in values))
        return await sending.afinish()

    async with client.receive_stream(pipe, **ARRAYS) as receiving:
        # a cancelled call loses nothing
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(receiving.arecv(), 0.05)
        task = asyncio.create_task(send())
        rows = [await receiving.arecv_array(np.float64)]
        target = np.empty_like(values[0])
        assert await receiving.arecv_into(target) == target.nbytes
        rows.append(target)
        async for message in receiving:
            rows.append(np.frombuffer(message))
        assert (np.stack([row for row in rows if row is not None]) == values).all()
        assert (await task).delivered == len(values) == (await receiving.afinish()).delivered


async def test_receiver_that_is_cancelled_in_a_message_gets_the_rest(client: lighthaul.Client, pipe: str) -> None:
    values = np.random.default_rng(2).integers(0, 256, 1 << 20, dtype=np.uint8)
    receiving = client.receive_stream(pipe, **ARRAYS)
    sending = client.send_stream(pipe, **ARRAYS)
    count = 12

    def send() -> None:
        for _ in range(count):
            sending.send(values)

    task = asyncio.create_task(asyncio.to_thread(send))
    found, cancelled = 0, 0
    while found < count:
        try:
            async with asyncio.timeout(0.0005 * (1 + cancelled % 7)):
                message = await receiving.arecv_array()
        except TimeoutError:
            cancelled += 1
            assert cancelled < 100_000
        else:
            assert message is not None and (message == values).all()
            found += 1
    await task
    assert (await sending.afinish()).delivered == count
    assert cancelled > 0


async def test_sender_that_is_cancelled_in_a_message_ends_the_stream(client: lighthaul.Client, pipe: str) -> None:
    sending = client.send_stream(pipe, **ARRAYS)

    async def fill() -> None:
        while True:
            await sending.asend(bytes(1 << 20))

    # there is no reader
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await fill()
    with pytest.raises(lighthaul.Cancelled):
        await sending.afinish()


def test_global_lock_is_free_while_calls_wait(client: lighthaul.Client, pipe: str) -> None:
    with client.receive_stream(pipe, **ARRAYS) as receiving:
        failures: list[BaseException] = []

        def receive() -> None:
            try:
                receiving.recv()
            except lighthaul.Cancelled as error:
                failures.append(error)

        thread = threading.Thread(target=receive)
        thread.start()
        # a waiting call that held the lock would stop this thread for good
        time.sleep(0.05)
        receiving.cancel()
        thread.join(60)
        assert not thread.is_alive() and len(failures) == 1


SCRIPT = """
import os, sys, lighthaul
client = lighthaul.Client(**{settings!r})
options = {options!r}
{text}
"""


def program(far: Far, text: str) -> subprocess.Popen[str]:
    script = SCRIPT.format(settings=far.settings, options=ARRAYS, text=text)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_interrupt_ends_a_waiting_receiver_which_loses_nothing(
    far: Far, client: lighthaul.Client, pipe: str, tmp_path: Path
) -> None:
    text = f"""
receiving = client.receive_stream({pipe!r}, **options)
print(receiving.recv(), flush=True)
try:
    print("waits", flush=True)
    receiving.recv()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(receiving.recv(), receiving.recv(), flush=True)
"""
    with program(far, text) as waiting:
        assert waiting.stdout is not None
        sending = client.send_stream(pipe, **ARRAYS)
        sending.send(b"one")
        assert waiting.stdout.readline() == "bytearray(b'one')\n"
        assert waiting.stdout.readline() == "waits\n"
        time.sleep(0.1)
        waiting.send_signal(signal.SIGINT)
        assert waiting.stdout.readline() == "interrupted\n"
        sending.send(b"two")
        sending.finish()
        assert waiting.stdout.readline() == "bytearray(b'two') None\n"
        assert waiting.wait(60) == 0


def test_interrupt_in_a_message_cancels_the_stream(far: Far, pipe: str) -> None:
    text = f"""
sending = client.send_stream({pipe!r}, **options)
print("sends", flush=True)
try:
    while True:
        sending.send(bytes(1 << 20))
except KeyboardInterrupt:
    for call in (lambda: sending.send(b"more"), sending.finish):
        try:
            call()
        except lighthaul.Cancelled:
            print("cancelled", flush=True)
"""
    # there is no reader
    with program(far, text) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "sends\n"
        time.sleep(1.5)
        waiting.send_signal(signal.SIGINT)
        assert waiting.stdout.read() == "cancelled\n" * 2
        assert waiting.wait(60) == 0


def test_child_process_leaves_the_streams_of_its_parent(far: Far, pipe: str) -> None:
    text = f"""
import gc, signal
receiving = client.receive_stream({pipe!r}, **options)
sending = client.send_stream({pipe!r}, **options)
sending.send(b"before")
assert receiving.recv() == b"before"
told, tell = os.pipe()
child = os.fork()
if child == 0:
    refused = 0
    for call in (lambda: sending.send(b"x"), receiving.recv, sending.finish, sending.cancel):
        try:
            call()
        except RuntimeError:
            refused += 1
    del sending, receiving
    gc.collect()
    os.write(tell, bytes([refused]))
    # its copies of the sockets stay open
    signal.pause()
assert os.read(told, 1) == bytes([4])
sending.send(b"after")
assert receiving.recv() == b"after"
summary = sending.finish()
assert receiving.recv() is None
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(summary.delivered)
"""
    with program(far, text) as parent:
        output, errors = parent.communicate(timeout=100)
    assert output == "2\n", errors


def test_forgotten_stream_is_cancelled(far: Far, client: lighthaul.Client, pipe: str) -> None:
    sending = client.send_stream(pipe, **ARRAYS)
    receiving = client.receive_stream(pipe, **ARRAYS)
    sending.send(b"x")
    assert receiving.recv() == bytearray(b"x")
    del sending
    # the daemon closes its end of the pipe, at which the other stream ends
    assert receiving.recv() is None


def test_streams_fail_when_the_daemon_dies(tmp_path: Path) -> None:
    with running(tmp_path) as far:
        os.mkfifo(far.root / "pipe")
        client = far.client()
        sending = client.send_stream(far.place("pipe"), **ARRAYS)
        receiving = client.receive_stream(far.place("pipe"), **ARRAYS)
        sending.send(b"x")
        assert receiving.recv() == bytearray(b"x")
        far.daemon.kill()
        with pytest.raises(lighthaul.NetworkError):
            receiving.recv()
        with pytest.raises(lighthaul.NetworkError):
            while True:
                sending.send(bytes(1 << 20))
        with pytest.raises(lighthaul.NetworkError):
            client.send_stream(far.place("pipe"), **ARRAYS).finish()


async def test_coroutines_fail_when_the_daemon_dies(tmp_path: Path) -> None:
    with running(tmp_path) as far:
        os.mkfifo(far.root / "pipe")
        client = far.client()
        sending = client.send_stream(far.place("pipe"), **ARRAYS)
        receiving = client.receive_stream(far.place("pipe"), **ARRAYS)
        await sending.asend(b"x")
        assert await receiving.arecv() == bytearray(b"x")
        far.daemon.kill()
        with pytest.raises(lighthaul.NetworkError):
            await receiving.arecv_into(bytearray(5))
        with pytest.raises(lighthaul.NetworkError):
            while True:
                await sending.asend(bytes(1 << 20))
        with pytest.raises(lighthaul.NetworkError):
            await sending.afinish()


def test_exit_of_the_interpreter_ends_streams(far: Far, pipe: str) -> None:
    text = f"""
receiving = client.receive_stream({pipe!r}, **options)
import threading
threading.Thread(target=receiving.recv, daemon=True).start()
print("exits", flush=True)
"""
    with program(far, text) as ending:
        output, errors = ending.communicate(timeout=60)
        assert (output, ending.returncode) == ("exits\n", 0), errors
