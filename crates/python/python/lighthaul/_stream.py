"""Streams of messages to and from programs on other hosts.

A message is passed to the socket of the native stream from the caller's buffer, and is received into the caller's
buffer. Each message follows its length in four bytes.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypedDict, TypeVar, cast

from . import _lighthaul
from ._errors import UsageError
from ._steps import numpy_module

if TYPE_CHECKING:
    import numpy
    from _typeshed import ReadableBuffer, WriteableBuffer
    from numpy.typing import DTypeLike, NDArray

    Readable: TypeAlias = ReadableBuffer | NDArray[Any]
    Writable: TypeAlias = WriteableBuffer | NDArray[Any]

T = TypeVar("T")
_LOOK = 0.05
"""Seconds between two looks at signals."""
_LEN_MAX = (1 << 32) - 1


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
        self._frames = options.get("frames", "prefixed")
        self._socket = socket.socket(fileno=native.socket())
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._turn = _Turn()

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

    def _raise(self) -> None:
        """Raise the failure of a stream whose socket is closed."""
        self._result()
        raise UsageError("the stream has ended: open another one")

    async def _raise_in_task(self) -> None:
        await self._ended()
        raise UsageError("the stream has ended: open another one")

    def __repr__(self) -> str:
        state = "ended" if self._process == os.getpid() and self.is_finished else "running"
        return f"<lighthaul.{type(self).__name__} {state}>"

    def __del__(self) -> None:
        # it is missing if the stream was not opened
        if (opened := self.__dict__.get("_socket")) is not None:
            opened.close()


class SendStream(_Stream):
    """Stream of messages to a program on another host. Either threads or tasks of one event loop can share it.

    A message is any object with a contiguous buffer, such as bytes, an array or a NumPy array. It is not copied, and
    its buffer cannot be resized until `send` returns. Methods that begin with `a` are for coroutines.

    As a context manager it waits until all messages have arrived, or cancels the stream if the block raises an
    exception. An exception in the middle of a message, such as KeyboardInterrupt, cancels the stream, too.
    """

    def __init__(self, native: _lighthaul.Stream, options: StreamOptions) -> None:
        super().__init__(native, options)
        self._was_last = False

    def send(self, message: Readable) -> None:
        """Send a message. Waits while the buffer of the stream is full."""
        self._check()
        with _Pinned(message) as view, self._lock:
            head = self._head(view)
            self._socket.setblocking(True)
            try:
                sent = self._socket.sendmsg((head, view))
                if sent < len(head):
                    self._socket.sendall(head[sent:])
                    sent = len(head)
                if sent - len(head) < len(view):
                    self._socket.sendall(view[sent - len(head) :])
            except (BrokenPipeError, ConnectionResetError):
                self._raise()
            except BaseException:
                # the rest of the message is missing
                self._native.cancel()
                raise

    async def asend(self, message: Readable) -> None:
        """Send a message in a coroutine. Waits while the buffer of the stream is full."""
        self._check()
        with _Pinned(message) as view:
            async with self._turn.take():
                head = self._head(view)
                parts = [memoryview(head), view]
                sent = 0
                self._socket.setblocking(False)
                try:
                    while sent < len(head) + len(view):
                        try:
                            done = self._socket.sendmsg(parts)
                        except BlockingIOError:
                            await _ready(self._socket, write=True)
                            continue
                        sent += done
                        parts = [memoryview(head)[sent:], view[max(0, sent - len(head)) :]]
                except (BrokenPipeError, ConnectionResetError):
                    await self._raise_in_task()
                except BaseException:
                    if sent > 0:
                        # the rest of the message is missing
                        self._native.cancel()
                    raise

    def close(self) -> None:
        """End the input, without waiting for the arrival of the messages."""
        self._check()
        with self._lock:
            self._shut()

    def finish(self) -> StreamSummary:
        """End the input, and wait until all messages have arrived."""
        self.close()
        return self._result()

    async def afinish(self) -> StreamSummary:
        """End the input, and wait in a coroutine until all messages have arrived."""
        self._check()
        async with self._turn.take():
            self._shut()
        return await self._ended()

    def _shut(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the stream has ended

    def _head(self, view: memoryview) -> bytes:
        """Return the length of a message. Refuses one that the framing would split or join with others."""
        if len(view) > _LEN_MAX:
            raise UsageError("a message has 4 GiB or more: send it in parts")
        if self._frames == "lines" and b"\n" in bytes(view):
            raise UsageError("a message with a line feed is two lines: use another framing, or omit it")
        if isinstance(self._frames, int):
            if len(view) > self._frames or self._was_last:
                text = f"a message has {len(view)} bytes, but each except the last has {self._frames}"
                raise UsageError(f"{text}: use another framing")
            self._was_last = len(view) < self._frames
        return len(view).to_bytes(4, "big")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self._native.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.afinish()
        else:
            self._native.cancel()


class ReceiveStream(_Stream):
    """Stream of messages from a program on another host. Either threads or tasks of one event loop can share it.

    It can be iterated, also with `async for`. Methods that begin with `a` are for coroutines. A call that is
    interrupted or cancelled while it waits loses no message. As a context manager it cancels the stream at its end.
    """

    def __init__(self, native: _lighthaul.Stream, options: StreamOptions) -> None:
        super().__init__(native, options)
        self._head = bytearray()
        self._begun = bytearray()

    def recv(self, timeout: float | None = None) -> bytearray | None:
        """Wait for the next message, and return it; None at the end of the stream.

        Raises TimeoutError if no message begins within `timeout` seconds.
        """
        return self._receive(_NewBuffer(), timeout)

    def recv_into(self, buffer: Writable, timeout: float | None = None) -> int | None:
        """Wait for the next message, write it into `buffer`, and return its length; None at the end of the stream.

        If the buffer is too small, raises ValueError, and the next call gets the message.
        """
        with _Target(buffer) as target:
            return self._receive(target, timeout)

    def recv_array(self, dtype: DTypeLike = "uint8", timeout: float | None = None) -> NDArray[Any] | None:
        """Wait for the next message, and return it as a new NumPy array; None at the end of the stream."""
        return self._receive(_NewArray(dtype), timeout)

    async def arecv(self) -> bytearray | None:
        """Wait for the next message in a coroutine, like `recv`."""
        return await self._receive_in_task(_NewBuffer())

    async def arecv_into(self, buffer: Writable) -> int | None:
        """Wait for the next message in a coroutine, like `recv_into`."""
        with _Target(buffer) as target:
            return await self._receive_in_task(target)

    async def arecv_array(self, dtype: DTypeLike = "uint8") -> NDArray[Any] | None:
        """Wait for the next message in a coroutine, like `recv_array`."""
        return await self._receive_in_task(_NewArray(dtype))

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

    def _receive(self, target: _Goal[T], timeout: float | None) -> T | None:
        self._check()
        if timeout is None:
            with self._lock:
                return self._receive_next(target, None)
        end = time.monotonic() + timeout
        # another thread may wait for a message
        if not self._lock.acquire(timeout=max(0.0, timeout)):
            raise TimeoutError("no message has arrived yet")
        try:
            return self._receive_next(target, end)
        finally:
            self._lock.release()

    def _receive_next(self, target: _Goal[T], end: float | None) -> T | None:
        self._socket.setblocking(True)
        if not self._head and not self._begin(end):
            return None
        try:
            part = self._part(target)
            while not part.is_full:
                part.take(self._socket, socket.MSG_WAITALL)
        except _TooSmall as small:
            raise ValueError(str(small)) from None
        except (_Cut, ConnectionResetError):
            self._raise()
            raise
        except BaseException:
            # it is unknown how much of the message has been read
            self._native.cancel()
            raise
        return self._taken(target)

    def _begin(self, end: float | None) -> bool:
        """Wait for the first byte of a message; return False at the end of the stream. Nothing is read yet."""
        if end is not None:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise TimeoutError("no message has arrived yet")
        try:
            if self._socket.recv(1, socket.MSG_PEEK):
                return True
        except ConnectionResetError:
            pass
        self._result()
        return False

    async def _receive_in_task(self, target: _Goal[T]) -> T | None:
        self._check()
        async with self._turn.take():
            self._socket.setblocking(False)
            part: _Part | None = None
            try:
                while part is None or not part.is_full:
                    try:
                        if part is None and not self._head and not self._socket.recv(1, socket.MSG_PEEK):
                            await self._ended()
                            return None
                        part = part or self._part(target)
                        if not part.is_full:
                            part.take(self._socket)
                    except BlockingIOError:
                        await _ready(self._socket, write=False)
            except _TooSmall as small:
                raise ValueError(str(small)) from None
            except (_Cut, ConnectionResetError):
                if part is None and not self._head:
                    await self._ended()
                    return None
                await self._raise_in_task()
                raise
            except BaseException:
                if part is not None:
                    # the next call has the rest
                    self._begun = bytearray(part.taken)
                raise
            return self._taken(target)

    def _part(self, target: _Goal[T]) -> _Part:
        """Read the length of the message, and return the place for its bytes."""
        while len(self._head) < 4:
            more = self._socket.recv(4 - len(self._head))
            if not more:
                raise _Cut
            self._head += more
        part = _Part(target.room(int.from_bytes(self._head, "big")))
        if self._begun:
            part.start(self._begun)
        return part

    def _taken(self, target: _Goal[T]) -> T:
        """Return a complete message, after which another one follows."""
        self._head.clear()
        self._begun.clear()
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


class _Pinned:
    """Bytes of an object, which it cannot move or resize meanwhile."""

    def __init__(self, message: Readable) -> None:
        self._buffer, self.view = _bytes_of(message)

    def __enter__(self) -> memoryview:
        return self.view

    def __exit__(self, *_: object) -> None:
        self.view.release()
        self._buffer.release()


class _Goal(Generic[T]):
    """Place for a message, and the value that the caller gets."""

    def room(self, length: int) -> memoryview:
        """Return memory for a message of this length."""
        raise NotImplementedError

    def value(self) -> T:
        """Return the result for the caller, once the memory is filled."""
        raise NotImplementedError


class _NewBuffer(_Goal[bytearray]):
    def room(self, length: int) -> memoryview:
        self._bytes = bytearray(length)
        return memoryview(self._bytes)

    def value(self) -> bytearray:
        return self._bytes


class _NewArray(_Goal["NDArray[Any]"]):
    def __init__(self, dtype: DTypeLike) -> None:
        self._numpy = numpy_module()
        self._dtype: numpy.dtype[Any] = self._numpy.dtype(dtype)
        if self._dtype.hasobject or not self._dtype.itemsize:
            raise TypeError(f"messages cannot be arrays of {self._dtype}")

    def room(self, length: int) -> memoryview:
        if length % self._dtype.itemsize:
            text = f"the message has {length} bytes, no multiple of the {self._dtype.itemsize} bytes of {self._dtype}"
            raise _TooSmall(f"{text}: receive it with another type")
        self._bytes = self._numpy.empty(length, dtype="uint8")
        return memoryview(self._bytes)

    def value(self) -> NDArray[Any]:
        array: NDArray[Any] = self._bytes.view(self._dtype)
        return array


class _Target(_Goal[int]):
    """Buffer of the caller."""

    def __init__(self, buffer: Writable) -> None:
        self._buffer, self._view = _bytes_of(buffer)
        if self._view.readonly:
            self.__exit__()
            raise TypeError("the buffer cannot be written to")
        self._length = 0

    def room(self, length: int) -> memoryview:
        if length > len(self._view):
            text = f"the message has {length} bytes, and the buffer {len(self._view)}"
            raise _TooSmall(f"{text}: receive it again with a larger one")
        self._length = length
        return self._view[:length]

    def value(self) -> int:
        return self._length

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._view.release()
        self._buffer.release()


class _TooSmall(Exception):
    """The message does not fit, and stays for the next call."""


class _Cut(Exception):
    """The stream has ended within a message."""


class _Part:
    """Message that is being received."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._filled = 0

    def start(self, begun: bytearray) -> None:
        """Begin with what an earlier call has received."""
        self._view[: len(begun)] = begun
        self._filled = len(begun)

    @property
    def is_full(self) -> bool:
        return self._filled == len(self._view)

    @property
    def taken(self) -> memoryview:
        return self._view[: self._filled]

    def take(self, source: socket.socket, flags: int = 0) -> None:
        """Receive more of the message."""
        count = source.recv_into(self._view[self._filled :], 0, flags)
        if count == 0:
            raise _Cut
        self._filled += count


class _Turn:
    """Lock for the tasks of the event loop that uses a stream."""

    def __init__(self) -> None:
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    def take(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if loop not in self._locks:
            # locks of loops that have ended are of no use
            self._locks = {loop: asyncio.Lock()}
        return self._locks[loop]


def _bytes_of(value: Readable) -> tuple[pickle.PickleBuffer, memoryview]:
    """Return the buffer of an object, which is held until its release, and a view of its bytes."""
    # arrays have buffers, which their types do not say before Python 3.12
    exporter = cast("ReadableBuffer", value)
    try:
        with memoryview(exporter) as view:
            is_contiguous = view.c_contiguous
        if not is_contiguous:
            raise TypeError("the buffer is not contiguous: pass a copy, as of numpy.ascontiguousarray")
        buffer = pickle.PickleBuffer(exporter)
        return buffer, buffer.raw()
    except (ValueError, BufferError) as error:
        # NumPy has no buffer for times and objects
        raise TypeError(f"{error}: pass a view as integers, as in array.view('int64')") from error


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
