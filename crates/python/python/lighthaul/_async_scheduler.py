"""Client of a scheduler for coroutines, made from the one for threads."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from ._blocking import POOL
from ._events import in_task
from ._reservations import Reservation, ReservationEvent, reservation_event
from ._scheduler import Scheduler, Wait, Which
from ._types import Place

P = ParamSpec("P")
T = TypeVar("T")


def _coroutine(
    method: Callable[Concatenate[Scheduler, P], T],
) -> Callable[Concatenate[AsyncScheduler, P], Coroutine[Any, Any, T]]:
    """Return a method that runs one of `Scheduler` in a thread."""

    @functools.wraps(method)
    async def run(self: AsyncScheduler, /, *args: P.args, **words: P.kwargs) -> T:
        return await _run(lambda: method(self._scheduler, *args, **words))

    run.__qualname__ = f"AsyncScheduler.{method.__name__}"
    return run


class AsyncScheduler:
    """Client of a scheduler for coroutines, with the methods of `Scheduler`.

    A cancelled task does not wait for the answer any more, but its request may still be granted: give `reserve` a `key`
    to find it again. The thread of the request ends with the answer, or with its timeout.
    """

    def __init__(
        self,
        url: str,
        token_file: Place | None = None,
        *,
        pin: str | None = None,
        known_hosts: Place | None = None,
    ) -> None:
        """Make a client of the scheduler at `url`, like `Scheduler`."""
        self._scheduler = Scheduler(url, token_file, pin=pin, known_hosts=known_hosts)

    quote = _coroutine(Scheduler.quote)
    reserve = _coroutine(Scheduler.reserve)
    reservation = _coroutine(Scheduler.reservation)
    commit = _coroutine(Scheduler.commit)
    provision = _coroutine(Scheduler.provision)
    release = _coroutine(Scheduler.release)
    cancel = _coroutine(Scheduler.cancel)
    modify = _coroutine(Scheduler.modify)
    topology = _coroutine(Scheduler.topology)
    calendar = _coroutine(Scheduler.calendar)
    plan_outage = _coroutine(Scheduler.plan_outage)
    outages = _coroutine(Scheduler.outages)
    lift_outage = _coroutine(Scheduler.lift_outage)
    clock_offset = _coroutine(Scheduler.clock_offset)

    async def reservations(self, *, owner: str | None = None, state: str | None = None) -> AsyncIterator[Reservation]:
        """Return reservations in the order of their numbers. Only operators see those of others."""
        found = self._scheduler.reservations(owner=owner, state=state)
        while (one := await _run(lambda: next(found, None))) is not None:
            yield one

    async def events(self, after: int | None = None) -> AsyncIterator[ReservationEvent]:
        """Return changes of reservations as they happen, like `Scheduler.events`."""
        native = await _run(lambda: self._scheduler._native.events(after))
        async for event in in_task(native, reservation_event):
            yield event

    async def wait(self, which: Which, timeout: float | None = None) -> Reservation:
        """Wait until a reservation is active, like `Scheduler.wait`."""
        waiting = Wait(self._scheduler, which, timeout)
        while (pause := await _run(waiting.look)) is not None:
            await asyncio.sleep(pause)
        return waiting.found()

    def __repr__(self) -> str:
        return repr(self._scheduler).replace("Scheduler", "AsyncScheduler", 1)


async def _run(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(POOL.get(), work)
