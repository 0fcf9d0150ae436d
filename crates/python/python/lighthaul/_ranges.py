"""Reads of many coroutines over one session. Reads of one iteration of the event loop are sent together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from . import _lighthaul
from ._blocking import POOL, awaited, caller

Range = tuple[bytes, int, int | None]
"""Path, first byte, and length. The length None means the rest of the file."""


class RangeBatch:
    """Ranges requested in the current iteration of an event loop."""

    def __init__(self) -> None:
        self._wanted: list[Range] = []
        self._waiting: list[asyncio.Future[bytes]] = []
        self._callers: list[threading.Thread] = []

    async def read(self, wanted: Range, files: Callable[[], _lighthaul.Files]) -> bytes:
        """Return the bytes of a range. All readers share the session of `files`."""
        loop = asyncio.get_running_loop()
        if not self._wanted:
            # ready coroutines run before this callback, and add their ranges
            loop.call_soon(self._send, loop, files)
        waiting: asyncio.Future[bytes] = loop.create_future()
        self._wanted.append(wanted)
        self._waiting.append(waiting)
        self._callers.append(caller())
        return await waiting

    def _send(self, loop: asyncio.AbstractEventLoop, files: Callable[[], _lighthaul.Files]) -> None:
        wanted, waiting, callers = self._wanted, self._waiting, self._callers
        self._wanted, self._waiting, self._callers = [], [], []
        cancellation = _lighthaul.Cancellation()
        left = len(waiting)

        def leave(_: asyncio.Future[bytes]) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                cancellation.cancel()

        for one in waiting:
            one.add_done_callback(leave)

        def cat() -> None:
            with awaited(cancellation, callers):
                files().cat_each(wanted, take)

        def take(nth: int, found: bytes | Exception) -> None:
            loop.call_soon_threadsafe(_settle, waiting[nth], found)

        def end(sent: Future[None]) -> None:
            # an exception of the whole request applies to all its ranges
            error = sent.exception()
            if error is not None and not loop.is_closed():
                for one in waiting:
                    loop.call_soon_threadsafe(_settle, one, error)

        try:
            POOL.submit(cancellation, cat).add_done_callback(end)
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
