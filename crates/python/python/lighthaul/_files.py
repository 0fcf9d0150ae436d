"""Files of another host as file objects."""

from __future__ import annotations

import io
import logging
import os
import sys
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Any

from . import _lighthaul

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer, WriteableBuffer

_LOG = logging.getLogger("lighthaul")
CALLERS = 8
"""Callers of `close` among which a context manager is searched. There are one to three between them."""
BUFFER = 1 << 20
"""Bytes of a buffer. The library reads further ahead, as far as the path needs."""


class Interruption:
    """Exceptions that end the work with a file between its opening and its close.

    fsspec, pandas and others close a file without the exception that ended their block. Such a file is discarded: its
    last bytes may be missing.
    """

    def __init__(self) -> None:
        # an exception that was handled before does not concern the file
        self._before = sys.exception()

    def exception(self) -> BaseException | None:
        """Return the exception that is being handled, if that began after the file was opened."""
        raised = sys.exception()
        # the end of an iterator is no failure
        if raised is self._before or isinstance(raised, StopIteration | StopAsyncIteration):
            return None
        return raised

    @staticmethod
    def report(name: str, raised: BaseException) -> None:
        """Say that a file was discarded. That is an error if the program may go on as if the file were complete."""
        text = f"{name} was discarded, since it was closed while {type(raised).__name__} was handled"
        if isinstance(raised, Exception) and not _ends_block():
            raise OSError(f"{text}: close it after that, or commit it first")
        _LOG.warning("%s", text)


def _ends_block() -> bool:
    """Return whether a context manager is ending its block, which raises the exception again."""
    frame: FrameType | None = sys._getframe()
    for _ in range(CALLERS):
        if frame is None:
            break
        if frame.f_code.co_name in ("__exit__", "__aexit__"):
            return True
        frame = frame.f_back
    return False


class RawReader(io.RawIOBase):
    """Unbuffered file that is read."""

    def __init__(self, native: _lighthaul.Reader, name: str) -> None:
        super().__init__()
        self._native = native
        self._at = 0
        self._end = 0
        self.name = name
        self.mode = "rb"
        self.size = native.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if begin + offset < 0:
            raise ValueError("the position is negative")
        self._at = begin + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._check()
        view = memoryview(buffer).cast("B")
        # a sequential read is split into pieces, so that the library keeps reading ahead
        piece = BUFFER if self._at == self._end else len(view)
        filled = 0
        while filled < len(view):
            data = self._native.read_at(self._at + filled, min(piece, len(view) - filled))
            if not data:
                break
            view[filled : filled + len(data)] = data
            filled += len(data)
        # after an exception, the position is where it was: the caller has nothing
        self._at += filled
        self._end = self._at
        return filled

    def readall(self) -> bytes:
        self._check()
        # in pieces, since only bytes that arrive prove that the file has its size
        found = bytearray()
        while data := self._native.read_at(self._at + len(found), BUFFER):
            found += data
        self._at += len(found)
        self._end = self._at
        return bytes(found)

    def _check(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")


class Reader(io.BufferedReader):
    """Buffered file for reading."""

    raw: RawReader

    def __init__(self, raw: RawReader) -> None:
        super().__init__(raw, BUFFER)

    @property
    def size(self) -> int:
        """Size in bytes, as fsspec expects it."""
        return self.raw.size


class RawWriter(io.RawIOBase):
    """Unbuffered file that is written. It gets its name when it is closed.

    Nothing is left of one that is discarded, except bytes that were appended to a file. A file that is closed while an
    exception is handled, as in `finally`, is discarded: its last bytes may be missing.
    """

    def __init__(self, native: _lighthaul.Writer, name: str, mode: str, autocommit: bool = True) -> None:
        super().__init__()
        self._native: _lighthaul.Writer | None = native
        self._at = native.size
        self._autocommit = autocommit
        self._failed = False
        self._committed = False
        self._interruption = Interruption()
        self.name = name
        self.mode = mode

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: ReadableBuffer) -> int:
        if self.closed:
            raise ValueError("the file is closed")
        if self._failed:
            raise OSError("the file was discarded, since a write to it has failed")
        if self._committed:
            raise OSError("the file is complete: it was committed, and has its name")
        try:
            octets = bytes(data)
            if self._native is not None:
                self._native.write(octets, self._at)
        except BaseException:
            # a buffer closes this file although its last bytes are missing
            if self._native is not None:
                self.discard()
                self._failed = True
            raise
        self._at += len(octets)
        return len(octets)

    def commit(self) -> None:
        """Complete the file, which gets its name once it is on disk."""
        if self._failed:
            raise OSError("the file was discarded, since a write to it has failed")
        if (native := self._native) is not None:
            self._native = None
            self._committed = True
            native.commit()

    def discard(self) -> None:
        """Leave nothing of the file."""
        self._native = None
        self._failed = False

    def close(self) -> None:
        if not self.closed:
            try:
                if self._autocommit and not self._failed:
                    self._complete()
            finally:
                super().close()

    def _complete(self) -> None:
        raised = self._interruption.exception()
        if raised is None or self._native is None:
            self.commit()
        else:
            self.discard()
            self._interruption.report(self.name, raised)

    def __del__(self) -> None:
        # the collector may end this file before the buffer above it, whose last bytes are missing then
        if not self.closed:
            self.discard()


class Writer(io.BufferedWriter):
    """Buffered file that is written. An exception in its block discards it."""

    raw: RawWriter

    def __init__(self, raw: RawWriter) -> None:
        super().__init__(raw, BUFFER)

    def commit(self) -> None:
        """Complete the file, which gets its name once it is on disk. Nothing can be written afterwards."""
        if not self.closed:
            self.flush()
        self.raw.commit()

    def discard(self) -> None:
        """Leave nothing of the file."""
        self.raw.discard()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        # a file that was not closed is incomplete
        if not self.closed:
            self.discard()


class TextWriter(io.TextIOWrapper):
    """Text file that is written. An exception in its block discards it."""

    def __init__(self, writer: Writer, encoding: str | None, errors: str | None, newline: str | None) -> None:
        super().__init__(writer, encoding, errors, newline)
        self._writer = writer

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.discard()
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            self._writer.discard()


def open_file(
    files: Callable[[bool], _lighthaul.Files],
    path: bytes,
    name: str,
    mode: str,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> IO[Any]:
    """Open a file of a host, whose files `files` returns, with the right to write if that is asked for."""
    kind = mode.replace("b", "").replace("t", "")
    is_text = "b" not in mode
    if kind not in ("r", "w", "x", "a") or ("b" in mode and "t" in mode):
        raise ValueError(f"mode {mode!r} is not possible: use r, w, x or a, with b for bytes")
    if not is_text and (encoding or errors or newline):
        raise ValueError("bytes have no encoding, errors or newline")
    if kind == "r":
        reader = Reader(RawReader(files(False).open(path), name))
        return io.TextIOWrapper(reader, encoding, errors, newline) if is_text else reader
    remote = files(True)
    native = remote.append(path) if kind == "a" else remote.create(path, kind == "x")
    writer = Writer(RawWriter(native, name, f"{kind}b"))
    return TextWriter(writer, encoding, errors, newline) if is_text else writer
