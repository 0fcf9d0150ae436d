"""Streams of messages to and from programs on other hosts.

A message is passed to the socket of the native stream from the caller's buffer, and is received into the caller's
buffer. Each message follows its length in four bytes.
"""

from __future__ import annotations

import asyncio
import operator
import os
import select
import socket
import time
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypedDict, TypeVar

from . import _lighthaul
from ._buffers import CallerBuffer, NewArray, NewBuffer, PartialMessage, Pinned, Target, Truncated, Unfit
from ._errors import UsageError
from ._turns import Turns, timeout_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from ._buffers import Readable, Writable

T = TypeVar("T")
_LOOK = 0.05
"""Seconds between two looks at signals."""
_LEN_MAX = (1 << 32) - 1
_PIECE = 1 << 16
_POLL_MAX = 3600.0
"""Longest wait of one system call in seconds. It takes milliseconds as an int of C."""


class StreamOptions(TypedDict, total=False):
    """Options of a stream, as those of `lighthaul stream`."""

    frames: Literal["prefixed", "lines"] | int
    """Framing in the pipe or file of the other host: after their length, as lines, or a number of bytes of each."""
    rate: int | str | None
    """Highest rate on the wire, in bits a second or as in "900Mb/s" [default: measured]."""
    plain: bool
    """Do not encrypt data packets. The other side must agree."""
    no_udp: bool
    """Carry the messages by TCP, so that none is lost."""
    code: str | None
    """Forward error correction of messages: "none", "xor:N" or "rs:N+M" [default: xor:3]."""
    linger: float | None
    """Seconds that a message waits for others of its block [default: 0.002]."""
    deadline: float | None
    """Age in seconds from which a message counts as late [default: no limit]."""
    drop_late: bool
    """Drop late messages."""
    object_size: int | str | None
    """Size of the largest object. A stream of objects loses none, and they may be larger than a datagram."""
    objects_per_second: float | None
    """Objects per second, for a stream of objects."""
    delay: float | None
    """Seconds to collect a payload of objects, and also to send it [default: 0.5]."""
    blasts: int | None
    """Planned passes over a payload of objects, each with one round trip [default: 1]."""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """Result of a stream. Times are seconds."""

    messages: int
    """Messages or objects that were sent."""
    delivered: int
    """Messages or objects that arrived."""
    bytes: int
    """Bytes of those that arrived."""
    late: int
    """Messages or objects that were late."""
    lost: int
    """Messages that did not arrive."""
    repaired: int
    """Lost messages that were restored."""
    unread: int
    """Messages that arrived and were dropped, because the reader was too slow."""
    latency_p50: float
    """Median of the latency."""
    latency_p99: float
    """99th percentile of the latency."""
    latency_max: float
    """Largest latency."""
    rtt: float
    """Round-trip time of the path."""


class _Stream:
    """Running stream. It is cancelled when nothing refers to it any more."""

    def __init__(self, native: _lighthaul.Stream, options: StreamOptions) -> None:
        self._native = native
        frames = options.get("frames") or "prefixed"
        # integers of NumPy are no int
        self._frames = frames if isinstance(frames, str) else operator.index(frames)
        self._socket = socket.socket(fileno=native.socket())
        self._process = os.getpid()
        self._turns = Turns()
        self._is_inside = False
        """True while a part of a message has been passed, also after an exception at any place."""
        self._is_broken = False

    @property
    def is_finished(self) -> bool:
        """True if the stream has ended."""
        return self._native.wait(0)

    def cancel(self) -> None:
        """Cancel the stream, also while another thread or task waits for it. Calls that wait raise Cancelled."""
        self._check()
        self._native.cancel()

    def _check(self) -> None:
        if self._process != os.getpid():
            # raises the error
            self._native.wait(0)

    def _result(self) -> StreamSummary:
        """Wait for the end of the stream, and return its result."""
        while not self._native.wait(_LOOK):
            pass
        record = self._native.result()
        assert record is not None, "the stream has ended"
        return StreamSummary(**record)

    async def _ended(self) -> StreamSummary:
        """Wait for the end of the stream in a coroutine."""
        with socket.socket(fileno=self._native.end_socket()) as ended:
            await _ready(ended, write=False)
        return self._result()

    def _raise(self) -> NoReturn:
        """Raise the failure of a stream whose socket is closed."""
        self._result()
        raise UsageError("the stream has ended: open another one")

    async def _raise_in_task(self) -> NoReturn:
        await self._ended()
        raise UsageError("the stream has ended: open another one")

    def _abort(self) -> None:
        """Cancel a stream with an incomplete message, so that no other message follows it."""
        self._is_broken = True
        self._native.cancel()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the stream has ended

    def _is_usable(self) -> bool:
        """Return False, and cancel the stream, if an exception has ended a call in the middle of a message."""
        if self._is_inside and not self._is_broken:
            self._abort()
        return not self._is_broken

    def __repr__(self) -> str:
        state = "ended" if self._process == os.getpid() and self.is_finished else "running"
        return f"<lighthaul.{type(self).__name__} {state}>"

    def __del__(self) -> None:
        # it is missing if the stream was not opened
        if (opened := self.__dict__.get("_socket")) is not None:
            opened.close()


class SendStream(_Stream):
    """Stream of messages to a program on another host. Either threads or tasks of one event loop can share it.

    A message is any object with a contiguous buffer of numbers or characters, such as bytes, an array or a NumPy array.
    It is not copied, and its buffer cannot be resized until `send` returns. Methods that begin with `a` are for
    coroutines.

    As a context manager it waits until all messages have arrived, or cancels the stream if the block raises an
    exception. An exception in the middle of a message, such as KeyboardInterrupt, cancels the stream, too.
    """

    def __init__(
        self,
        native: _lighthaul.Stream,
        options: StreamOptions,
        announcer: _lighthaul.SchemaAnnouncer | None = None,
    ) -> None:
        super().__init__(native, options)
        self._was_last = False
        self._announcer = announcer
        self._announcement: bytes | None = None
        """Announcement of the schema that has not been sent yet."""

    def send(self, message: Readable) -> None:
        """Send a message. Waits while the buffer of the stream is full."""
        self._check()
        with Pinned(message) as view, self._turns.of_thread():
            if not self._is_usable():
                self._raise()
            for due in self._due(view):
                self._send_now(due)

    def _due(self, view: memoryview) -> Generator[memoryview, None, None]:
        """Return the announcement that comes before a message, if one is due, and the message."""
        if self._announcer is not None:
            self._announcement = self._announcement or self._announcer.before_message()
            if self._announcement is not None:
                yield memoryview(self._announcement)
                self._announcement = None
        yield view

    def _send_now(self, view: memoryview) -> None:
        head = self._head(view)
        self._socket.setblocking(True)
        self._is_inside = True
        try:
            sent = self._socket.sendmsg((head, view))
            if sent < len(head):
                self._socket.sendall(head[sent:])
                sent = len(head)
            if sent - len(head) < len(view):
                self._socket.sendall(view[sent - len(head) :])
        except (BrokenPipeError, ConnectionResetError):
            self._is_inside = False
            self._raise()
        except BaseException:
            # the rest of the message is missing
            self._abort()
            raise
        self._sent(view)

    async def asend(self, message: Readable) -> None:
        """Send a message in a coroutine. Waits while the buffer of the stream is full."""
        self._check()
        with Pinned(message) as view:
            async with self._turns.of_task():
                if not self._is_usable():
                    await self._raise_in_task()
                for due in self._due(view):
                    await self._send_in_task(due)

    async def _send_in_task(self, view: memoryview) -> None:
        head = self._head(view)
        self._socket.setblocking(False)
        try:
            await self._send_parts(head, view)
        except (BrokenPipeError, ConnectionResetError):
            self._is_inside = False
            await self._raise_in_task()
        except BaseException:
            if self._is_inside:
                # the rest of the message is missing
                self._abort()
            raise
        self._sent(view)

    async def _send_parts(self, head: bytes, view: memoryview) -> None:
        parts = [memoryview(head), view]
        sent = 0
        while sent < len(head) + len(view):
            self._is_inside = True
            try:
                sent += self._socket.sendmsg(parts)
            except BlockingIOError:
                # a task that is cancelled before the first byte leaves the stream as it was
                self._is_inside = sent > 0
                await _ready(self._socket, write=True)
                continue
            parts = [memoryview(head)[sent:], view[max(0, sent - len(head)) :]]

    def close(self) -> None:
        """End the input, without waiting for the arrival of the messages."""
        self._check()
        with self._turns.of_thread():
            self._shut()

    def finish(self) -> StreamSummary:
        """End the input, and wait until all messages have arrived."""
        self.close()
        return self._result()

    async def afinish(self) -> StreamSummary:
        """End the input, and wait in a coroutine until all messages have arrived."""
        self._check()
        async with self._turns.of_task():
            self._shut()
        return await self._ended()

    def _shut(self) -> None:
        self._is_usable()
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the stream has ended

    def _head(self, view: memoryview) -> bytes:
        """Return the length of a message. Refuses one that the framing would split or join with others."""
        if len(view) > _LEN_MAX:
            raise UsageError("a message has 4 GiB or more: send it in parts")
        if self._frames == "lines" and _has_line_feed(view):
            raise UsageError("a message with a line feed is two lines: use another framing, or omit it")
        if isinstance(self._frames, int):
            if len(view) > self._frames or self._was_last:
                text = f"a message has {len(view)} bytes, but each except the last has {self._frames}"
                raise UsageError(f"{text}: use another framing")
        return len(view).to_bytes(4, "big")

    def _sent(self, view: memoryview) -> None:
        """Note that the message has been sent as a whole."""
        self._was_last = isinstance(self._frames, int) and len(view) < self._frames
        self._is_inside = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            # also if the wait for the end is interrupted; a stream that has ended stays so
            self._native.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.afinish()
        finally:
            self._native.cancel()


class ReceiveStream(_Stream):
    """Stream of messages from a program on another host. Either threads or tasks of one event loop can share it.

    It can be iterated, also with `async for`. Methods that begin with `a` are for coroutines. As a context manager it
    cancels the stream at its end.

    A call that is interrupted or cancelled while it waits for a message loses none. In the middle of a message, a
    cancelled task leaves the rest for the next call, and an exception in a thread, such as KeyboardInterrupt, cancels
    the stream.
    """

    def __init__(self, native: _lighthaul.Stream, options: StreamOptions) -> None:
        super().__init__(native, options)
        self._head = bytearray()
        self._received = bytearray()
        """Length of the next message, and the part of it that a cancelled task has received."""

    def recv(self, timeout: float | None = None) -> bytearray | None:
        """Wait for the next message, and return it; None at the end of the stream.

        Raises TimeoutError if no message begins within `timeout` seconds.
        """
        return self._receive(NewBuffer(), timeout)

    def recv_into(self, buffer: Writable, timeout: float | None = None) -> int | None:
        """Wait for the next message, write it into `buffer`, and return its length; None at the end of the stream.

        If the buffer is too small, raises ValueError, and the next call gets the message.
        """
        with CallerBuffer(buffer) as target:
            return self._receive(target, timeout)

    def recv_array(self, dtype: DTypeLike = "uint8", timeout: float | None = None) -> NDArray[Any] | None:
        """Wait for the next message, and return it as a new NumPy array; None at the end of the stream."""
        return self._receive(NewArray(dtype), timeout)

    async def arecv(self) -> bytearray | None:
        """Wait for the next message in a coroutine, like `recv`."""
        return await self._receive_in_task(NewBuffer())

    async def arecv_into(self, buffer: Writable) -> int | None:
        """Wait for the next message in a coroutine, like `recv_into`."""
        with CallerBuffer(buffer) as target:
            return await self._receive_in_task(target)

    async def arecv_array(self, dtype: DTypeLike = "uint8") -> NDArray[Any] | None:
        """Wait for the next message in a coroutine, like `recv_array`."""
        return await self._receive_in_task(NewArray(dtype))

    def close(self) -> None:
        """Cancel the stream. Messages that were not received are dropped."""
        self.cancel()

    def finish(self) -> StreamSummary:
        """Drop messages until the end of the stream, and return its result."""
        while self.recv() is not None:
            pass
        return self._result()

    async def afinish(self) -> StreamSummary:
        """Drop messages until the end of the stream in a coroutine, and return its result."""
        while await self.arecv() is not None:
            pass
        return await self._ended()

    def _receive(self, target: Target[T], timeout: float | None) -> T | None:
        self._check()
        timeout = timeout_of(timeout)
        if timeout is None:
            with self._turns.of_thread():
                return self._receive_next(target, None)
        end = time.monotonic() + timeout
        # another thread may wait for a message
        with self._turns.of_thread_within(timeout):
            return self._receive_next(target, end)

    def _receive_next(self, target: Target[T], end: float | None) -> T | None:
        if not self._is_usable():
            self._raise()
        self._socket.setblocking(True)
        if not self._head and not self._begin(end):
            return None
        self._is_inside = True
        try:
            part = self._part(target)
            while not part.is_full:
                part.receive(self._socket, socket.MSG_WAITALL)
        except Unfit as unfit:
            self._is_inside = False
            raise ValueError(str(unfit)) from None
        except (Truncated, ConnectionResetError):
            self._raise()
        except BaseException:
            # it is unknown how much of the message has been read
            self._abort()
            raise
        return self._taken(target)

    def _begin(self, end: float | None) -> bool:
        """Wait for the first byte of a message; return False at the end of the stream. Nothing is read yet."""
        if end is not None:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            left = max(0.0, end - time.monotonic())
            while not poll.poll(min(left, _POLL_MAX) * 1000):
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError("no message has arrived yet")
        try:
            if self._socket.recv(1, socket.MSG_PEEK):
                return True
        except ConnectionResetError:
            pass
        self._result()
        return False

    async def _receive_in_task(self, target: Target[T]) -> T | None:
        self._check()
        async with self._turns.of_task():
            if not self._is_usable():
                await self._raise_in_task()
            self._socket.setblocking(False)
            if not self._head and not await self._begin_in_task():
                return None
            try:
                await self._receive_rest(target)
            except Unfit as unfit:
                self._is_inside = False
                raise ValueError(str(unfit)) from None
            except (Truncated, ConnectionResetError):
                await self._raise_in_task()
            except BaseException:
                if self._is_inside:
                    self._abort()
                raise
            return self._taken(target)

    async def _begin_in_task(self) -> bool:
        """Wait in a coroutine for the first byte of a message, like `_begin`."""
        while True:
            try:
                if self._socket.recv(1, socket.MSG_PEEK):
                    return True
                break
            except BlockingIOError:
                await _ready(self._socket, write=False)
            except ConnectionResetError:
                break
        await self._ended()
        return False

    async def _receive_rest(self, target: Target[T]) -> None:
        part: PartialMessage | None = None
        while part is None or not part.is_full:
            self._is_inside = True
            try:
                if part is None:
                    part = self._part(target)
                if not part.is_full:
                    part.receive(self._socket)
            except BlockingIOError:
                try:
                    await _ready(self._socket, write=False)
                except BaseException:
                    # nothing is read meanwhile, so the next call gets the rest
                    if part is not None:
                        self._received = bytearray(part.received)
                    self._is_inside = False
                    raise

    def _part(self, target: Target[T]) -> PartialMessage:
        """Read the length of the message, and return the place for its bytes."""
        while len(self._head) < 4:
            more = self._socket.recv(4 - len(self._head))
            if not more:
                raise Truncated
            self._head += more
        part = PartialMessage(target.memory(int.from_bytes(self._head, "big")))
        if self._received:
            part.start(self._received)
        return part

    def _taken(self, target: Target[T]) -> T:
        """Return a complete message, after which another one follows."""
        self._head.clear()
        self._received.clear()
        self._is_inside = False
        return target.value()

    def __iter__(self) -> Iterator[bytearray]:
        while (message := self.recv()) is not None:
            yield message

    async def __aiter__(self) -> AsyncIterator[bytearray]:
        while (message := await self.arecv()) is not None:
            yield message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._native.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._native.cancel()


def _has_line_feed(view: memoryview) -> bool:
    """Search for a line feed. A view has no search, so a copy of a small piece is searched at a time."""
    return any(b"\n" in bytes(view[start : start + _PIECE]) for start in range(0, len(view), _PIECE))


async def _ready(waiting: socket.socket, write: bool) -> None:
    """Wait until a socket can be written or read."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(waiting, _set, ready)
    try:
        await ready
    finally:
        remove(waiting)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
