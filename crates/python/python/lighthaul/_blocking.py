"""Blocking requests of coroutines, on threads. A coroutine that is cancelled stops its request.

A thread cannot be ended from outside. So each request has a cancellation, which all functions of the native module look
at. The interpreter waits for the threads at its exit, and cancels requests before that if no thread waits for them.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from . import _lighthaul

T = TypeVar("T")

THREADS = 64
"""Maximum number of blocking requests. A waiting thread costs little, and a round trip may be long."""
END_TIMEOUT = 1.0
"""Longest wait for the end of a cancelled request, in seconds."""

CALLER: ContextVar[threading.Thread | None] = ContextVar("lighthaul_caller", default=None)
"""Thread that waits for the coroutines of a context, unless that is the thread of their event loop."""


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

    def submit(self, cancellation: _lighthaul.Cancellation, work: Callable[[], T]) -> Future[T]:
        """Do work on a thread. Its requests fail once it is cancelled."""
        return self.get().submit(cancellation.run, work)


POOL = Pool()


async def blocking(work: Callable[[], T]) -> T:
    """Do blocking work on a thread. If the task is cancelled, so is the work."""
    cancellation = _lighthaul.Cancellation()
    started = POOL.submit(cancellation, work)
    running = asyncio.wrap_future(started)
    with awaited(cancellation, [caller()]):
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            cancellation.cancel()
            started.cancel()
            running.add_done_callback(_retrieve)
            # a later request may be for the same file, which has one writer at a time
            await asyncio.wait([running], timeout=END_TIMEOUT)
            raise
        return running.result()


def caller() -> threading.Thread:
    """Return the thread that waits for the present coroutine."""
    return CALLER.get() or threading.current_thread()


def _retrieve(ended: asyncio.Future[T]) -> None:
    """Take the exception of a cancelled request, which asyncio would report otherwise."""
    if not ended.cancelled():
        ended.exception()


_awaited: dict[_lighthaul.Cancellation, Sequence[threading.Thread]] = {}
"""Requests that run, with the threads that wait for them."""


@contextmanager
def awaited(cancellation: _lighthaul.Cancellation, threads: Sequence[threading.Thread]) -> Iterator[None]:
    """Note a request with the threads that wait for it."""
    _awaited[cancellation] = threads
    try:
        yield
    finally:
        _awaited.pop(cancellation, None)


def _cancel_abandoned() -> None:
    """Cancel requests at the exit of the interpreter, except those of threads that it waits for."""
    for cancellation, threads in list(_awaited.items()):
        if not any(_is_joined(thread) for thread in threads):
            cancellation.cancel()


def _is_joined(thread: threading.Thread) -> bool:
    return thread.is_alive() and not thread.daemon and thread is not threading.main_thread()


# the last function that was registered there is the first to run, so before the pool waits for its threads
getattr(threading, "_register_atexit", atexit.register)(_cancel_abandoned)
