"""Reads of many coroutines over one session. Reads of one iteration of the event loop are sent together."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from . import _lighthaul

THREADS = 64
"""Maximum number of blocking requests. A waiting thread costs little, and a round trip may be long."""

Range = tuple[bytes, int, int | None]
"""Path, first byte, and length. The length None means the rest of the file."""


class Pool:
    """Threads for blocking requests. A child process starts its own threads."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # a thread of the parent may have held the lock at the fork
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def get(self) -> ThreadPoolExecutor:
        """Return the threads of this process."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="lighthaul")
            return self._threads


POOL = Pool()


class RangeBatch:
    """Ranges requested in the current iteration of an event loop."""

    def __init__(self) -> None:
        self._wanted: list[Range] = []
        self._waiting: list[asyncio.Future[bytes]] = []

    async def read(self, wanted: Range, files: Callable[[], _lighthaul.Files]) -> bytes:
        """Return the bytes of a range. All readers share the session of `files`."""
        loop = asyncio.get_running_loop()
        if not self._wanted:
            # ready coroutines run before this callback, and add their ranges
            loop.call_soon(self._send, loop, files)
        waiting: asyncio.Future[bytes] = loop.create_future()
        self._wanted.append(wanted)
        self._waiting.append(waiting)
        return await waiting

    def _send(self, loop: asyncio.AbstractEventLoop, files: Callable[[], _lighthaul.Files]) -> None:
        wanted, waiting = self._wanted, self._waiting
        self._wanted, self._waiting = [], []

        def take(nth: int, found: bytes | Exception) -> None:
            loop.call_soon_threadsafe(_settle, waiting[nth], found)

        def end(sent: Future[None]) -> None:
            # an exception of the whole request applies to all its ranges
            error = sent.exception()
            if error is not None and not loop.is_closed():
                for one in waiting:
                    loop.call_soon_threadsafe(_settle, one, error)

        try:
            POOL.get().submit(lambda: files().cat_each(wanted, take)).add_done_callback(end)
        except RuntimeError as error:
            # no thread can be started
            for one in waiting:
                _settle(one, error)


def _settle(waiting: asyncio.Future[bytes], found: bytes | BaseException) -> None:
    # a cancelled coroutine no longer waits
    if waiting.done():
        return
    if isinstance(found, BaseException):
        waiting.set_exception(found)
    else:
        waiting.set_result(found)
