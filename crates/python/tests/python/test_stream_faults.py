"""Streams that are used wrongly, by several threads and tasks at once, or interrupted at a bad moment."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lighthaul
from conftest import Far
from lighthaul._buffers import PartialMessage
from test_streams import ARRAYS, pipe, until

__all__ = ["pipe"]


@pytest.fixture
def full(far: Far, pipe: str) -> Iterator[str]:
    """Place of a pipe whose reader does not read, so that a message of 1 MiB never arrives."""
    reader = os.open(far.root / pipe.rpartition("/")[2], os.O_RDONLY | os.O_NONBLOCK)
    yield pipe
    os.close(reader)


class Pointing(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("next", ctypes.POINTER(ctypes.c_int))]


def test_buffers_with_objects_or_pointers_are_neither_sent_nor_overwritten(client: lighthaul.Client, pipe: str) -> None:
    objects = np.array([{"a": 1}, None] * 8, dtype=object)
    pairs = np.zeros(4, dtype=[("id", "i8"), ("o", object)])
    unfit: list[Any] = [objects, pairs, (ctypes.py_object * 3)(), (ctypes.c_void_p * 3)(), (ctypes.c_char_p * 3)()]
    unfit += [(ctypes.c_wchar_p * 3)(), Pointing(), (Pointing * 2)(), ctypes.CFUNCTYPE(None)()]
    named = np.ones(3, dtype=[("O", "f8"), ("&P", "<i2"), ("text", "U2"), ("z", "c16"), ("Z", "S3", (2, 2)), ("b", "?")])
    with client.receive_stream(pipe, **ARRAYS) as receiving, client.send_stream(pipe, **ARRAYS) as sending:
        for one in unfit:
            with pytest.raises(TypeError, match="objects or pointers"):
                sending.send(one)
        sending.send(bytes(64))
        for one in unfit:
            with pytest.raises(TypeError, match="objects or pointers"):
                receiving.recv_into(one)
        assert objects[0] == {"a": 1} and pairs["o"][0] == 0
        assert receiving.recv() == bytearray(64)
        sending.send(named)
        target = np.zeros_like(named)
        assert receiving.recv_into(target) == named.nbytes and (target == named).all()


async def test_threads_and_tasks_of_two_loops_do_not_mix_their_messages(client: lighthaul.Client, pipe: str) -> None:
    receiving = client.receive_stream(pipe, **ARRAYS)
    sending = client.send_stream(pipe, **ARRAYS)
    found: list[tuple[int, int]] = []

    def message(number: int) -> np.ndarray[Any, Any]:
        return np.full((1 << 20) - number, number, dtype=np.uint8)

    def send(number: int) -> None:
        for _ in range(4):
            sending.send(message(number))

    async def asend(number: int) -> None:
        for _ in range(4):
            await sending.asend(message(number))

    def note(array: np.ndarray[Any, Any]) -> None:
        assert (array == array[0]).all()
        found.append((int(array[0]), len(array)))

    def receive() -> None:
        while (array := receiving.recv_array()) is not None:
            note(array)

    async def receive_in_task() -> None:
        while (array := await receiving.arecv_array()) is not None:
            note(array)

    readers = [asyncio.create_task(receive_in_task()), asyncio.create_task(asyncio.to_thread(receive))]
    others = [asyncio.to_thread(asyncio.run, asend(number)) for number in (5, 6)]
    await asyncio.gather(asyncio.to_thread(send, 1), asyncio.to_thread(send, 2), asend(3), asend(4), *others)
    assert (await sending.afinish()).delivered == 24
    await asyncio.gather(*readers)
    assert sorted(found) == [(number, (1 << 20) - number) for number in range(1, 7) for _ in range(4)]


async def test_call_that_would_block_a_waiting_task_is_refused(client: lighthaul.Client, pipe: str) -> None:
    receiving = client.receive_stream(pipe, **ARRAYS)
    waiting = asyncio.create_task(receiving.arecv())
    await asyncio.sleep(0.05)
    for timeout in (None, 5.0):
        with pytest.raises(lighthaul.UsageError, match="await"):
            receiving.recv(timeout)
    sending = client.send_stream(pipe, **ARRAYS)
    await sending.asend(b"x")
    assert await waiting == bytearray(b"x")
    sending.send(b"y")
    assert receiving.recv(timeout=60) == bytearray(b"y")


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_receiver_never_returns_the_rest_of_a_message_as_another(
    client: lighthaul.Client, pipe: str, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    receiving = client.receive_stream(pipe, **ARRAYS)
    sending = client.send_stream(pipe, **ARRAYS)
    for _ in range(3):
        sending.send(bytes(5000))
    receive = PartialMessage.receive

    def interrupted(part: PartialMessage, source: socket.socket, flags: int = 0) -> None:
        source.recv(1000)
        raise error

    monkeypatch.setattr(PartialMessage, "receive", interrupted)
    with pytest.raises(error):
        receiving.recv()
    monkeypatch.setattr(PartialMessage, "receive", receive)
    for _ in range(2):
        with pytest.raises(lighthaul.Cancelled):
            receiving.recv()
    with pytest.raises(lighthaul.Cancelled):
        receiving.finish()


async def test_interruption_outside_the_handlers_is_noticed_by_the_next_call(
    client: lighthaul.Client, pipe: str
) -> None:
    receiving = client.receive_stream(pipe, **ARRAYS)
    sending = client.send_stream(pipe, **ARRAYS)
    # as after a signal between two instructions
    sending._is_inside = receiving._is_inside = True
    with pytest.raises(lighthaul.Cancelled):
        sending.send(b"x")
    with pytest.raises(lighthaul.Cancelled):
        await sending.asend(b"x")
    # it may have ended with the other stream
    with pytest.raises((lighthaul.Cancelled, lighthaul.UsageError)):
        await receiving.arecv()
    with pytest.raises(lighthaul.Cancelled):
        sending.finish()


async def test_message_that_was_cancelled_before_its_first_byte_is_not_the_last(
    client: lighthaul.Client, far: Far
) -> None:
    sending = client.send_stream(far.place("not-the-last"), **ARRAYS | {"frames": 4})
    full, free = socket.socketpair()
    full.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            full.send(bytes(1 << 16))
    real, sending._socket = sending._socket, full
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await sending.asend(b"end")
    sending._socket = real
    full.close()
    free.close()
    await sending.asend(b"four")
    await sending.asend(b"end")
    assert (await sending.afinish()).delivered == 2
    assert (far.root / "not-the-last").read_bytes() == b"fourend"


async def test_wait_at_the_end_of_a_block_that_is_cancelled_cancels_the_stream(
    client: lighthaul.Client, full: str
) -> None:
    sending = client.send_stream(full, **ARRAYS)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            async with sending:
                await sending.asend(bytes(1 << 20))
    await asyncio.to_thread(until, lambda: sending.is_finished)
    with pytest.raises(lighthaul.Cancelled):
        await sending.afinish()


def test_interrupt_at_the_end_of_a_block_cancels_the_stream(client: lighthaul.Client, full: str) -> None:
    sending = client.send_stream(full, **ARRAYS)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        with sending:
            sending.send(bytes(1 << 20))
            timer.start()
    until(lambda: sending.is_finished)


def test_timeouts_are_of_any_length(client: lighthaul.Client, pipe: str) -> None:
    receiving = client.receive_stream(pipe, **ARRAYS)
    with client.send_stream(pipe, **ARRAYS) as sending:
        for timeout in (math.inf, 1e300, 1e10, 30 * 86400, 10):
            sending.send(b"x")
            assert receiving.recv(timeout) == bytearray(b"x")
        with pytest.raises(ValueError, match="no number"):
            receiving.recv(math.nan)
        with pytest.raises(TimeoutError):
            receiving.recv(-math.inf)


def test_length_of_frames_can_be_an_integer_of_numpy(client: lighthaul.Client, far: Far) -> None:
    options: dict[str, Any] = ARRAYS | {"frames": np.int64(4)}
    with client.send_stream(far.place("frames"), **options) as sending:
        with pytest.raises(lighthaul.UsageError, match="another framing"):
            sending.send(b"twelve bytes")
        sending.send(b"four")
    assert (far.root / "frames").read_bytes() == b"four"


async def test_cancelled_waits_leave_no_descriptors(client: lighthaul.Client, full: str) -> None:
    sending = client.send_stream(full, **ARRAYS)
    await sending.asend(bytes(1 << 20))

    async def wait() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.005):
                await sending.afinish()

    await wait()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(40):
        await wait()
    assert len(os.listdir("/proc/self/fd")) < before + 20
    sending.cancel()
