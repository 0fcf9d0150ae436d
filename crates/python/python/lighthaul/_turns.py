"""Lock that threads and tasks of any event loop share, and timeouts of threads."""

from __future__ import annotations

import asyncio
import math
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from ._errors import UsageError

_POLL_MIN, _POLL_MAX = 0.001, 0.02
"""Shortest and longest interval at which a task looks for the end of the turn of a thread, in seconds."""


class Turns:
    """One turn at a time, of a thread or of a task. Tasks of one event loop have their turns in order."""

    def __init__(self) -> None:
        self._taken = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Event loop of the task whose turn it is."""
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._adding = threading.Lock()

    def of_thread(self) -> threading.Lock:
        """Return the lock of the turn of a thread.

        Raises UsageError in an event loop whose task has the turn: that task would never continue.
        """
        loop = asyncio._get_running_loop()
        if loop is not None and self._loop is loop:
            raise UsageError("a task of this event loop uses the stream: await the method for coroutines")
        return self._taken

    @contextmanager
    def of_thread_within(self, timeout: float) -> Iterator[None]:
        """Take the turn of a thread, or raise TimeoutError."""
        if not self.of_thread().acquire(timeout=min(max(0.0, timeout), threading.TIMEOUT_MAX)):
            raise TimeoutError("another thread or task uses the stream")
        try:
            yield
        finally:
            self._taken.release()

    @asynccontextmanager
    async def of_task(self) -> AsyncIterator[None]:
        """Take the turn of a task."""
        loop = asyncio.get_running_loop()
        with self._adding:
            queue = self._loops.setdefault(loop, asyncio.Lock())
        async with queue:
            # only threads and tasks of other loops have the turn now
            pause = _POLL_MIN
            while not self._taken.acquire(blocking=False):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _POLL_MAX)
            self._loop = loop
            try:
                yield
            finally:
                self._loop = None
                self._taken.release()


def timeout_of(timeout: float | None) -> float | None:
    """Return a timeout; None if it is infinite. Refuses NaN."""
    if timeout is None or timeout == math.inf:
        return None
    if math.isnan(timeout):
        raise ValueError("the timeout is no number")
    return timeout
