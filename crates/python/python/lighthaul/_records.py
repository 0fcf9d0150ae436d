"""Dictionaries that the native module returns."""

from typing import Literal, TypedDict


class ItemRecord(TypedDict):
    """Item of a file system."""

    path: str
    kind: Literal["file", "directory", "link", "other"]
    size: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    target: str | None


class ProgressRecord(TypedDict):
    """Progress of a copy."""

    done: int
    total: int
    entries: int
    packets: int
    resent: int


class SummaryRecord(TypedDict):
    """Result of a copy. A failure has a path, an exit status and a reason."""

    entries: int
    bytes: int
    unchanged: int
    elapsed: float
    progress: ProgressRecord
    failures: list[tuple[str, int, str]]


class PlanRecord(TypedDict):
    """Actions of a dry run, counted."""

    bytes: int
    entries: int
    changes: int
    deletions: int


class ReportRecord(TypedDict):
    """Result of a stream."""

    messages: int
    delivered: int
    bytes: int
    late: int
    lost: int
    repaired: int
    unread: int
    latency_p50: float
    latency_p99: float
    latency_max: float
    rtt: float


Reply = tuple[list[ItemRecord], list[tuple[int, str]]]
"""Items, and the exit status and reason of each item that failed."""
