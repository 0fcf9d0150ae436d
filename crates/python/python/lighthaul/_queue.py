"""Queue of copies at a scheduler."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _lighthaul
from ._access import Access, message, settings
from ._errors import NetworkError, ProtocolError, Stopping, TimedOut
from ._events import in_thread
from ._times import read, text_of
from ._turns import timeout_of
from ._types import Place

# Seconds for which a wait goes on without an answer of the scheduler.
_PATIENCE = 300.0


@dataclass(frozen=True)
class JobEvent:
    """Change of a job in its history."""

    seq: int
    at: datetime.datetime
    attempt: int
    state: str
    text: str


@dataclass(frozen=True)
class Job:
    """Queued copy, as it was when the scheduler answered.

    state is waiting, queued, running, done, failed or canceled. exit is the exit status of the last attempt, and text
    its result or failure.
    """

    id: int
    owner: str
    name: str
    state: str
    command: tuple[str, ...]
    priority: int
    attempt: int
    failures: int
    retries: int
    at: datetime.datetime
    submitted: datetime.datetime
    cancel_requested: bool
    text: str
    start_by: datetime.datetime | None = None
    every: str | None = None
    worker: str | None = None
    bytes: int | None = None
    bytes_total: int | None = None
    started: datetime.datetime | None = None
    ended: datetime.datetime | None = None
    exit: int | None = None
    _queue: Queue | None = field(default=None, repr=False, compare=False)

    @property
    def has_ended(self) -> bool:
        """True if the job is done, failed or canceled."""
        return self.state in ("done", "failed", "canceled")

    def refresh(self) -> Job:
        """Return the job as it is now."""
        return self._of().job(self.id)

    def wait(self, timeout: float | None = None, *, interval: float = 1.0) -> Job:
        """Wait until the job has ended, and return it then. Raises TimedOut after `timeout` seconds.

        A scheduler that cannot be reached is asked again, for five minutes. One that does not answer may delay the end
        of `timeout` by up to a minute.
        """
        timeout = timeout_of(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        job, lost = self, None
        while True:
            try:
                job, lost = self.refresh(), None
            except (NetworkError, Stopping):
                lost = time.monotonic() if lost is None else lost
                if time.monotonic() - lost > _PATIENCE:
                    raise
            if job.has_ended and lost is None:
                return job
            left = interval if end is None else min(interval, end - time.monotonic())
            if left <= 0:
                raise TimedOut(f"job {self.id} is still {job.state} after {timeout} s")
            time.sleep(left)

    def cancel(self) -> Job:
        """Cancel the job. A running copy stops soon, and keeps what has arrived."""
        return self._of().cancel(self.id)

    def retry(self) -> Job:
        """Queue the failed or canceled job again."""
        return self._of().retry(self.id)

    def events(self) -> list[JobEvent]:
        """Return the history, the oldest event first."""
        return self._of().events(self.id)

    def follow(self, after: int = 0) -> Iterator[JobEvent]:
        """Return the events as they happen, until the job has ended, like `Queue.follow`."""
        return self._of().follow(self.id, after)

    def log(self) -> str:
        """Return the output of all attempts so far."""
        return self._of().log(self.id)

    def _of(self) -> Queue:
        if self._queue is None:
            raise ValueError("the job belongs to no queue")
        return self._queue


class Queue:
    """Queue of copies at a scheduler. A worker elsewhere runs them, so no place is local. Threads can share it, and a
    child process can use it after a fork.

    The token is in a file, or in the variable `LIGHTHAUL_SCHEDULER_TOKEN`.
    """

    def __init__(
        self,
        url: str,
        token_file: Place | None = None,
        *,
        pin: str | None = None,
        known_hosts: Place | None = None,
    ) -> None:
        """Make a client of the scheduler at `url`.

        token_file: file with the token. pin: key that the scheduler must show. known_hosts: file with known keys.
        """
        self._access = Access(settings(url, token_file, pin, known_hosts), _lighthaul.Queue)

    @property
    def _native(self) -> _lighthaul.Queue:
        return self._access.native

    def submit(
        self,
        sources: str | Sequence[str],
        target: str,
        *,
        name: str = "",
        priority: int = 0,
        after: Iterable[Job | int] = (),
        at: datetime.datetime | None = None,
        start_by: datetime.datetime | None = None,
        every: float | str | None = None,
        retries: int = 10,
        delete: bool = False,
        update: bool = False,
        checksum: bool = False,
        archive: bool = False,
        exclude: Sequence[str] = (),
        rate: int | str | None = None,
        book: bool = False,
        by: datetime.datetime | None = None,
        key: str | None = None,
    ) -> Job:
        """Queue a copy, and return its job.

        Places are URLs of daemons and object stores. after: jobs that must be done first. every: seconds or text as in
        1d. rate: bits a second or text as in 1Gb/s. book: the worker books bandwidth for the copy and waits for it. by: with
        book, the copy finishes by this time, or the job fails. key: a further call with the same key returns the same job.
        """
        if isinstance(exclude, str):
            raise TypeError("exclude is a list")
        options: dict[str, object] = {
            "delete": delete,
            "update": update,
            "checksum": checksum,
            "archive": archive,
            "exclude": list(exclude),
            "rate": rate,
            "book": book,
            "by": text_of(by),
        }
        job: dict[str, object] = {
            "sources": [sources] if isinstance(sources, str) else list(sources),
            "target": target,
            "options": _given(options),
            "name": name,
            "priority": priority,
            "after": [one.id if isinstance(one, Job) else one for one in after],
            "at": text_of(at),
            "start_by": text_of(start_by),
            "every": every,
            "retries": retries,
        }
        return self._job(self._native.submit(message(_given(job)), key))

    def job(self, id: int) -> Job:
        """Return a job."""
        return self._job(self._native.job(id))

    def jobs(self, *, owner: str | None = None, states: Sequence[str] = ()) -> Iterator[Job]:
        """Return jobs, the newest first. Only operators see those of others."""
        if isinstance(states, str):
            raise TypeError("states is a list")
        before: int | None = None
        while True:
            page = json.loads(self._native.jobs(owner, list(states), before))
            for item in page["items"]:
                yield self._read(item)
            after, before = before, page.get("next")
            if before is None:
                return
            if after is not None and before >= after:
                raise ProtocolError(f"the list of the scheduler repeats itself before job {after}")

    def cancel(self, id: int) -> Job:
        """Cancel a job."""
        return self._job(self._native.cancel(id))

    def retry(self, id: int) -> Job:
        """Queue a failed or canceled job again."""
        return self._job(self._native.retry(id))

    def events(self, id: int) -> list[JobEvent]:
        """Return the history of a job, the oldest event first."""
        return [_event(event) for event in json.loads(self._native.events(id))]

    def follow(self, id: int, after: int = 0) -> Iterator[JobEvent]:
        """Return the events of a job as they happen, after the one with the number `after`, until the job has ended.

        A lost connection is made again, and no event is missed or repeated. Raises NetworkError after ten minutes without
        the scheduler.
        """
        return in_thread(self._native.follow(id, after), _event)

    def log(self, id: int) -> str:
        """Return the output of all attempts of a job so far."""
        texts: list[str] = []
        attempt = seq = 0
        while pieces := json.loads(self._native.log(id, attempt, seq)):
            texts += (piece["text"] for piece in pieces)
            before, (attempt, seq) = (attempt, seq), (pieces[-1]["attempt"], pieces[-1]["seq"])
            if (attempt, seq) <= before:
                raise ProtocolError(f"the log of job {id} repeats itself after piece {seq} of attempt {attempt}")
        return "".join(texts)

    def _job(self, text: str) -> Job:
        return self._read(json.loads(text))

    def _read(self, item: dict[str, Any]) -> Job:
        times = {name: read(item[name]) for name in _TIMES if name in item}
        return Job(**item | times | {"command": tuple(item["command"])}, _queue=self)


def _event(event: Mapping[str, Any]) -> JobEvent:
    return JobEvent(**dict(event) | {"at": read(event["at"])})


def _given(values: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


_TIMES = ("at", "start_by", "submitted", "started", "ended")
