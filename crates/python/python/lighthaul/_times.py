"""Points in time and durations as a scheduler writes them."""

from __future__ import annotations

import datetime
import math

SECOND = 1_000_000_000
"""Nanoseconds of a second."""


def text_of(at: datetime.datetime | None) -> str | None:
    """Return a time as the scheduler reads it. A time without a zone is local."""
    return None if at is None else at.astimezone(datetime.timezone.utc).isoformat()


def nanos_at(at: datetime.datetime) -> int:
    """Return the nanoseconds since 1970 of a time. A time without a zone is local."""
    since = at.astimezone(datetime.timezone.utc) - _EPOCH
    return (since.days * 86400 + since.seconds) * SECOND + since.microseconds * 1000


def nanos_of(text: str) -> int:
    """Return the nanoseconds since 1970 of a time in UTC that a scheduler has written."""
    # Python reads at most six digits of a second
    head, _, digits = text.removesuffix("Z").partition(".")
    whole = datetime.datetime.fromisoformat(head).replace(tzinfo=datetime.timezone.utc)
    return nanos_at(whole) + int(digits[:9].ljust(9, "0"))


def datetime_of(nanos: int) -> datetime.datetime:
    """Return a time in nanoseconds since 1970 as a `datetime` in UTC. Its last three digits are lost."""
    return _EPOCH + datetime.timedelta(microseconds=nanos // 1000)


def read(text: str) -> datetime.datetime:
    """Return a time that the scheduler has written."""
    return datetime_of(nanos_of(text))


def duration_text(duration: datetime.timedelta | float | str | None) -> str | None:
    """Return a duration as the scheduler reads it: text stays, numbers are seconds."""
    if duration is None or isinstance(duration, str):
        return duration
    seconds = duration.total_seconds() if isinstance(duration, datetime.timedelta) else float(duration)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{duration!r} is no duration")
    # no exponent
    return f"{seconds:.6f}s"


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
