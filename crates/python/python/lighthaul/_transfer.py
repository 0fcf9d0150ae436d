"""A copy that runs."""

from __future__ import annotations

import asyncio
import atexit
import logging
import socket
import threading
import time
import weakref
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

from . import _lighthaul
from ._errors import PartialError, make
from ._types import Failure, OnProgress, Progress, Summary

_LOG = logging.getLogger("lighthaul")
_POLL = 0.05
"""Seconds between two looks at signals and progress."""
_running: weakref.WeakSet[Transfer] = weakref.WeakSet()


class Transfer:
    """Copy that runs. It is cancelled when nothing refers to it any more, and at the exit of the interpreter.

    As a context manager it waits for the end of the copy, or cancels it if the block raises an exception. In a
    coroutine, `await transfer` does not block the event loop; a cancelled task cancels the copy.
    """

    def __init__(
        self, native: _lighthaul.Transfer, notes: Callable[[], list[tuple[int, str]]], on_progress: OnProgress | None
    ) -> None:
        self._native = native
        self._notes = notes
        self._raised: BaseException | None = None
        self._reporter: threading.Thread | None = None
        if on_progress is not None:
            # it holds no reference to this object, so that a forgotten transfer is still cancelled
            self._reporter = threading.Thread(
                target=_report, args=(weakref.ref(self), native, on_progress), name="lighthaul-progress", daemon=True
            )
            self._reporter.start()
        _running.add(self)

    @property
    def progress(self) -> Progress:
        """Latest progress."""
        self._log()
        return Progress(**self._native.progress())

    @property
    def is_finished(self) -> bool:
        """True if the copy has ended, so that `wait` returns at once."""
        return self._native.wait(0)

    def cancel(self) -> None:
        """Cancel the copy. It ends within a second; the same copy can be resumed later."""
        self._native.cancel()

    def wait(self, timeout: float | None = None) -> Summary:
        """Wait for the end of the copy, and return its result.

        Raises TimeoutError after `timeout` seconds; the copy goes on. Raises PartialError if entries failed.
        """
        self._wait(timeout)
        return self._result()

    def _wait(self, timeout: float | None = None, look: Callable[[], None] = lambda: None) -> None:
        """Wait for the end of the copy, and call `look` meanwhile."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _POLL if deadline is None else min(_POLL, max(0.0, deadline - time.monotonic()))
            has_ended = self._native.wait(left)
            self._log()
            look()
            if has_ended:
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("the copy has not ended yet; wait again, or cancel it")

    def _run(self, on_progress: OnProgress | None) -> Summary:
        """Wait for the end of the copy, and call `on_progress` on this thread. Any exception cancels the copy."""
        try:
            self._wait(look=_Watch(self._native, on_progress) if on_progress else lambda: None)
        except BaseException:
            self.cancel()
            self._native.wait(1.0)
            raise
        return self._result()

    def _result(self) -> Summary:
        if self._reporter is not None and self._reporter is not threading.current_thread():
            # it may be in a callback that blocks
            self._reporter.join(timeout=1.0)
        if self._raised is not None:
            raise self._raised
        record = self._native.result()
        assert record is not None, "the copy has ended"
        failures = tuple(Failure(*failure) for failure in record["failures"])
        summary = Summary(
            entries=record["entries"],
            bytes=record["bytes"],
            unchanged=record["unchanged"],
            elapsed=record["elapsed"],
            progress=Progress(**record["progress"]),
            failures=failures,
        )
        if failures:
            raise _partial(summary)
        return summary

    def _log(self) -> None:
        for level, text in self._notes():
            _LOG.log(level, "%s", text)

    async def _end(self) -> Summary:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        with socket.socket(fileno=self._native.end_socket()) as waiting:
            waiting.setblocking(False)
            loop.add_reader(waiting, _set, ended)
            try:
                await ended
            except asyncio.CancelledError:
                self.cancel()
                raise
            finally:
                loop.remove_reader(waiting)
        self._log()
        return self._result()

    def __await__(self) -> Generator[Any, None, Summary]:
        return self._end().__await__()

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._run(None)
        else:
            self.cancel()
            self._native.wait(1.0)

    def __repr__(self) -> str:
        state = "ended" if self.is_finished else "running"
        progress = self._native.progress()
        return f"<lighthaul.Transfer {state}, {progress['done']} of {progress['total']} bytes>"


def _set(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


class _Watch:
    """Passes each change of the progress to a function."""

    def __init__(self, native: _lighthaul.Transfer, on_progress: OnProgress) -> None:
        self._native = native
        self._on_progress = on_progress
        self._last: Progress | None = None

    def __call__(self) -> None:
        progress = Progress(**self._native.progress())
        if progress != self._last:
            self._last = progress
            self._on_progress(progress)


def _report(transfer: weakref.ref[Transfer], native: _lighthaul.Transfer, on_progress: OnProgress) -> None:
    """Calls `on_progress` until the copy ends. An exception cancels the copy, whose `wait` raises it."""
    watch = _Watch(native, on_progress)
    try:
        while not native.wait(_POLL):
            if transfer() is None:
                native.cancel()
                return
            watch()
        watch()
    except BaseException as raised:
        native.cancel()
        if (owner := transfer()) is not None:
            owner._raised = raised


def _partial(summary: Summary) -> PartialError:
    """Return the exception for a copy of which some entries failed."""
    first, *others = summary.failures
    more = f", and {len(others)} more" if others else ""
    error = make(23, f"{first.reason}{more}")
    assert isinstance(error, PartialError)
    error.summary, error.failures = summary, summary.failures
    return error


@atexit.register
def _cancel_all() -> None:
    """Cancels copies that nobody waits for, so that they keep what has arrived."""
    running = list(_running)
    for transfer in running:
        transfer.cancel()
    deadline = time.monotonic() + 1.0
    for transfer in running:
        try:
            transfer._native.wait(max(0.0, deadline - time.monotonic()))
        except RuntimeError:
            pass  # a copy of the parent of this process
