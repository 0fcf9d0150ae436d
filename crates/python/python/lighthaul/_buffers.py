"""Memory of messages: objects of the caller with a buffer, and new ones."""

from __future__ import annotations

import pickle
import re
import socket
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast

from ._steps import numpy_module

if TYPE_CHECKING:
    import numpy
    from _typeshed import ReadableBuffer, WriteableBuffer
    from numpy.typing import DTypeLike, NDArray

    Readable: TypeAlias = ReadableBuffer | NDArray[Any]
    Writable: TypeAlias = WriteableBuffer | NDArray[Any]

T = TypeVar("T")


class Pinned:
    """Bytes of an object, which it cannot move or resize meanwhile."""

    def __init__(self, message: Readable) -> None:
        self.view = _bytes_of(message)

    def __enter__(self) -> memoryview:
        return self.view

    def __exit__(self, *_: object) -> None:
        self.view.release()


class Target(Generic[T]):
    """Place for a message, and the value that the caller gets."""

    def memory(self, length: int) -> memoryview:
        """Return memory for a message of this length."""
        raise NotImplementedError

    def value(self) -> T:
        """Return the result for the caller, once the memory is filled."""
        raise NotImplementedError


class NewBuffer(Target[bytearray]):
    """A new bytearray."""

    def memory(self, length: int) -> memoryview:
        self._bytes = bytearray(length)
        return memoryview(self._bytes)

    def value(self) -> bytearray:
        return self._bytes


class NewArray(Target["NDArray[Any]"]):
    """A new NumPy array."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._numpy = numpy_module()
        self._dtype: numpy.dtype[Any] = self._numpy.dtype(dtype)
        if self._dtype.hasobject or not self._dtype.itemsize:
            raise TypeError(f"messages cannot be arrays of {self._dtype}")

    def memory(self, length: int) -> memoryview:
        if length % self._dtype.itemsize:
            text = f"the message has {length} bytes, no multiple of the {self._dtype.itemsize} bytes of {self._dtype}"
            raise Unfit(f"{text}: receive it with another type")
        self._bytes = self._numpy.empty(length, dtype="uint8")
        return memoryview(self._bytes)

    def value(self) -> NDArray[Any]:
        array: NDArray[Any] = self._bytes.view(self._dtype)
        return array


class CallerBuffer(Target[int]):
    """Buffer of the caller."""

    def __init__(self, buffer: Writable) -> None:
        self._view = _bytes_of(buffer)
        if self._view.readonly:
            self.__exit__()
            raise TypeError("the buffer cannot be written to")
        self._length = 0

    def memory(self, length: int) -> memoryview:
        if length > len(self._view):
            text = f"the message has {length} bytes, and the buffer {len(self._view)}"
            raise Unfit(f"{text}: receive it again with a larger one")
        self._length = length
        return self._view[:length]

    def value(self) -> int:
        return self._length

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._view.release()


class Unfit(Exception):
    """The message does not fit into the memory, and stays for the next call."""


class Truncated(Exception):
    """The stream has ended within a message."""


class PartialMessage:
    """Message that is being received."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._filled = 0

    def start(self, received: bytearray) -> None:
        """Begin with what an earlier call has received."""
        self._view[: len(received)] = received
        self._filled = len(received)

    @property
    def is_full(self) -> bool:
        return self._filled == len(self._view)

    @property
    def received(self) -> memoryview:
        return self._view[: self._filled]

    def receive(self, source: socket.socket, flags: int = 0) -> None:
        """Receive more of the message."""
        count = source.recv_into(self._view[self._filled :], 0, flags)
        if count == 0:
            raise Truncated
        self._filled += count


def octets_of(exporter: ReadableBuffer) -> memoryview:
    """Return a view of the bytes of a contiguous buffer with items of any type. It holds the buffer until its release."""
    with memoryview(exporter) as view:
        if not view.c_contiguous:
            raise TypeError("the buffer is not contiguous: pass a copy, as of numpy.ascontiguousarray")
        if not view.nbytes:
            # an empty view cannot be cast
            return memoryview(bytearray())
        try:
            return view.cast("B")
        except TypeError:
            # a PickleBuffer of a view would crash the garbage collector of CPython before 3.13 (gh-77894)
            if isinstance(exporter, memoryview):
                text = f"a view of items of the type {view.format!r} has no view of its bytes"
                raise TypeError(f"{text}: pass its object, or a copy") from None
    return pickle.PickleBuffer(exporter).raw()


def octets_or_copy(exporter: ReadableBuffer) -> memoryview:
    """Return a view of the bytes of a buffer, or of a copy."""
    try:
        return octets_of(exporter)
    except TypeError:
        return memoryview(memoryview(exporter).tobytes())


def _bytes_of(value: Readable) -> memoryview:
    """Return a view of the bytes of a message. It holds the object of the caller until its release."""
    # arrays have buffers, which their types do not say before Python 3.12
    exporter = cast("ReadableBuffer", value)
    try:
        with memoryview(exporter) as view:
            items = view.format
        if not _PLAIN.fullmatch(_NAME.sub("", items)):
            # a received message would replace addresses of this process, and a sent one would disclose them
            raise TypeError(f"the buffer has items of the type {items!r}, which may be objects or pointers: pass numbers")
        return octets_of(exporter)
    except (ValueError, BufferError) as error:
        # NumPy has no buffer for times
        raise TypeError(f"{error}: pass a view as integers, as in array.view('int64')") from error


_NAME = re.compile(r":[^:]*:")
"""Name of a field in the format of a buffer."""
_PLAIN = re.compile(r"(T\{|\}|Z[fdg]|[?cbBhHiIlLqQnNefdgCDEFGsptuwx]|[@=<>!^]|[0-9(), ])*")
"""Format of a buffer (PEP 3118) whose items have no objects (O), pointers (P, &, z, Z) and functions (X)."""
