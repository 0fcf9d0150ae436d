"""Exceptions: one class for each exit status of the command, and for reasons that Python has an exception for."""

from __future__ import annotations

import errno as _errno
import json as _json
from typing import TYPE_CHECKING

from . import _lighthaul
from ._reservations import CounterOffer, counter_offer

if TYPE_CHECKING:
    from ._types import Failure, Summary


class Error(Exception):
    """Failed request. Its text says what failed, why, and what to do."""

    code: int = 2
    """Exit status of the command for this error."""
    kind: str = "protocol"
    """Name of that status."""
    problem: str | None = None
    """Word for the reason for which a scheduler refused the request, as in "late"."""

    @property
    def remedy(self) -> str:
        """What to do: the end of the text, or advice for this kind of failure."""
        return _lighthaul.remedy(self.code, str(self))


class UsageError(Error, ValueError):
    """The request is invalid."""

    code, kind = 1, "usage"


class ProtocolError(Error):
    """The two sides do not understand each other."""


class OpenError(Error, OSError):
    """The source or the target cannot be opened."""

    code, kind = 3, "open"


class NotFound(OpenError, FileNotFoundError):
    """There is no such file or directory."""

    errno = _errno.ENOENT


class Exists(OpenError, FileExistsError):
    """The path exists, and is not replaced."""

    errno = _errno.EEXIST


class NotADirectory(OpenError, NotADirectoryError):
    """A part of the path is no directory."""

    errno = _errno.ENOTDIR


class IsADirectory(OpenError, IsADirectoryError):
    """The path is a directory."""

    errno = _errno.EISDIR


class NetworkError(Error, ConnectionError):
    """The network failed. A retry may succeed."""

    code, kind = 10, "network"


class FileError(Error, OSError):
    """Reading or writing a file failed."""

    code, kind = 11, "io"


class NotEmpty(FileError):
    """The directory is not empty."""

    errno = _errno.ENOTEMPTY


class NoSpace(FileError):
    """The disk is full."""

    errno = _errno.ENOSPC


class Busy(FileError):
    """Another client writes the file, or the server has too many open files."""

    errno = _errno.EBUSY


class IntegrityError(Error):
    """The received data differ from those that were sent. No such file got its name."""

    code, kind = 12, "integrity"


class PermissionDenied(Error, PermissionError):
    """The key or the permission is missing."""

    code, kind = 13, "permission"
    errno = _errno.EACCES


class Cancelled(Error):
    """The copy was cancelled."""

    code, kind = 20, "interrupted"


class PartialError(Error):
    """Some entries failed; the others are in place."""

    code, kind = 23, "partial"
    summary: Summary | None = None
    """Result of the copy."""
    failures: tuple[Failure, ...] = ()
    """Entries that failed."""


class SourceChanged(Error):
    """Files changed or vanished while they were read."""

    code, kind = 24, "changed"


class DeleteLimitError(Error):
    """Items stay because no more may be deleted."""

    code, kind = 25, "delete_limit"


class TimedOut(Error, TimeoutError):
    """The other side was silent for too long, or the copy reached its end time."""

    code, kind = 30, "timed_out"


class Refused(Error):
    """A deadline or a reservation is refused."""

    code, kind = 40, "refused"
    counter_offer: CounterOffer | None = None
    """Requests that would be granted instead."""


class InternalError(Error):
    """A part of the library panicked."""

    code, kind = 70, "internal"


class Stopping(Error, ConnectionError):
    """The daemon is being stopped. A retry may succeed."""

    code, kind = 75, "stopping"


_BY_CODE: dict[int, type[Error]] = {
    kind.code: kind
    for kind in (
        UsageError,
        ProtocolError,
        OpenError,
        NetworkError,
        FileError,
        IntegrityError,
        PermissionDenied,
        Cancelled,
        PartialError,
        SourceChanged,
        DeleteLimitError,
        TimedOut,
        Refused,
        InternalError,
        Stopping,
    )
}

_BY_REASON: dict[str, type[Error]] = {
    "ENOENT": NotFound,
    "EEXIST": Exists,
    "ENOTDIR": NotADirectory,
    "EISDIR": IsADirectory,
    "ENOTEMPTY": NotEmpty,
    "ENOSPC": NoSpace,
    "EROFS": PermissionDenied,
    "EBUSY": Busy,
}


def make(code: int, text: str, reason: str | None = None, problem: str | None = None) -> Error:
    """Return the exception for an exit status, and for the reason of the system if there is one.

    problem: answer of a scheduler, in JSON.
    """
    kind = _BY_REASON.get(reason or "") if code in (3, 11) else None
    error = (kind or _BY_CODE.get(code, ProtocolError))(text)
    error.code = code
    error.kind = _BY_CODE.get(code, ProtocolError).kind
    if problem is not None:
        answer = _json.loads(problem)
        error.problem = answer["type"].rpartition(":")[2]
        offer = answer.get("counter_offer")
        if isinstance(error, Refused) and offer is not None:
            error.counter_offer = counter_offer(offer)
    return error
