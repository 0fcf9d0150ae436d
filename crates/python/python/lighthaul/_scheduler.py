"""Client of a scheduler: reservations, and the calendar of its network."""

from __future__ import annotations

import datetime
import json
import operator
import time
from collections.abc import Iterator
from typing import TypeAlias, Unpack

from . import _lighthaul, _reservations
from ._access import Access, message, settings
from ._errors import NetworkError, ProtocolError, Refused, TimedOut, UsageError
from ._events import in_thread
from ._reservations import (
    LinkCalendar,
    Outage,
    Quote,
    Reservation,
    ReservationEvent,
    ReservationOptions,
    Topology,
)
from ._times import SECOND, duration_text, nanos_at, text_of
from ._turns import timeout_of
from ._types import Place

Which: TypeAlias = Reservation | int
"""Reservation, or its number."""
Moment: TypeAlias = datetime.datetime | int
"""Time, or its nanoseconds since 1970."""


class Scheduler:
    """Client of a scheduler. Threads can share it, and a child process can use it after a fork.

    The token is in a file, or in the variable `LIGHTHAUL_SCHEDULER_TOKEN`. In coroutines, use `AsyncScheduler`. A
    request to a scheduler that does not answer ends after 30 seconds for the connection, and as long for the answer and
    its body. `reserve` repeats it up to three times.
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

        token_file: file with the token. pin: key that the scheduler must show, which needs `https://`. known_hosts: file
        with known keys.
        """
        self._access = Access(settings(url, token_file, pin, known_hosts), _lighthaul.Scheduler)

    @property
    def _native(self) -> _lighthaul.Scheduler:
        return self._access.native

    def quote(
        self, source: str | None = None, target: str | None = None, **options: Unpack[ReservationOptions]
    ) -> Quote:
        """Return the grant that a request would get now. Nothing is reserved."""
        asked = _reservations.request(source, target, options)
        return _reservations.quote(json.loads(self._native.quote(message(asked))))

    def reserve(
        self,
        source: str | None = None,
        target: str | None = None,
        *,
        tentative: bool = False,
        key: str | None = None,
        **options: Unpack[ReservationOptions],
    ) -> Reservation:
        """Reserve capacity between two hosts, for an amount of data or a length of time.

        tentative: hold the capacity for a short time, until `commit`. key: idempotency key, unique to this request.
        Raises Refused with a `counter_offer` if the transfer cannot end in time. The options are those of
        ReservationOptions.

        After KeyboardInterrupt or NetworkError the request may have been granted. The same call with the same `key`
        returns that reservation; without a `key`, it reserves again.
        """
        asked = _reservations.request(source, target, options) | {"commit": not tentative}
        return _read(self._native.reserve(message(asked), key))

    def reservation(self, which: Which) -> Reservation:
        """Return a reservation as it is now."""
        return _read(self._native.reservation(_number(which)))

    def reservations(self, *, owner: str | None = None, state: str | None = None) -> Iterator[Reservation]:
        """Return reservations in the order of their numbers. Only operators see those of others."""
        after: int | None = None
        while True:
            page = json.loads(self._native.reservations(owner, state, after))
            yield from map(_reservations.reservation, page["items"])
            before, after = after, page.get("next")
            if after is None:
                return
            if before is not None and after <= before:
                raise ProtocolError(f"the list of the scheduler repeats itself after reservation {before}")

    def commit(self, which: Which, why: str = "") -> Reservation:
        """Commit a tentative reservation. `why` is for its journal."""
        return _read(self._native.act("commit", _number(which), why))

    def provision(self, which: Which, why: str = "") -> Reservation:
        """Provision the circuit of a reservation that was made with `provision="manual"`."""
        return _read(self._native.act("provision", _number(which), why))

    def release(self, which: Which, why: str = "") -> Reservation:
        """Release the remaining capacity of a reservation that has started."""
        return _read(self._native.act("release", _number(which), why))

    def cancel(self, which: Which, why: str = "") -> Reservation:
        """Cancel a reservation."""
        return _read(self._native.act("cancel", _number(which), why))

    def modify(
        self,
        which: Which,
        *,
        size: int | str | None = None,
        hold: datetime.timedelta | float | str | None = None,
        by: datetime.datetime | None = None,
        why: str = "",
    ) -> Reservation:
        """Extend or shrink a reservation.

        size: new amount of data, for a reservation that has one. hold: new length of time from its start, or by: new
        end, for one that has a length of time.
        """
        number = _number(which)
        if sum(value is not None for value in (size, hold, by)) != 1:
            raise TypeError("give exactly one of size, hold and by")
        before = self.reservation(number)
        if (size is None) != (before.size is None):
            kind = "a duration: use hold or by" if before.size is None else "a size: use size"
            raise UsageError(f"reservation {number} has {kind}")
        if by is not None:
            if not before.steps:
                raise UsageError(f"reservation {number} is {before.state}: reserve again")
            left = nanos_at(by) - before.steps[0].start
            if left <= 0:
                raise UsageError(f"{by} is before the start of reservation {number}")
            hold = datetime.timedelta(microseconds=left // 1000)
        change = {"size": size, "hold": duration_text(hold), "why": why}
        given = {name: value for name, value in change.items() if value is not None}
        return _read(self._native.modify(number, message(given)))

    def wait(self, which: Which, timeout: float | None = None) -> Reservation:
        """Wait until a reservation is active, and return it then.

        Raises Refused if it ends before, and TimedOut after `timeout` seconds. The scheduler may be restarted meanwhile.
        A request that has begun is not ended by the timeout.
        """
        waiting = Wait(self, which, timeout)
        while (pause := waiting.look()) is not None:
            time.sleep(pause)
        return waiting.found()

    def events(self, after: int | None = None) -> Iterator[ReservationEvent]:
        """Return changes of reservations as they happen: after the event with the number `after`, or from now on.

        Operators see those of all users. A lost connection is made again, and no event is missed or repeated. Raises
        NetworkError after ten minutes without the scheduler. A program that is started again continues after the `seq` of
        its last event.
        """
        return in_thread(self._native.events(after), _reservations.reservation_event)

    def topology(self) -> Topology:
        """Return the nodes and links."""
        return _reservations.topology(json.loads(self._native.topology()))

    def calendar(self, link: str, start: Moment | None = None, end: Moment | None = None) -> LinkCalendar:
        """Return the free and the reserved capacity of a link: of the next day, if no times are given."""
        begin = time.time_ns() if start is None else _nanos(start)
        till = begin + 86400 * SECOND if end is None else _nanos(end)
        return _reservations.link_calendar(json.loads(self._native.calendar(link, begin, till)))

    def plan_outage(
        self, link: str, end: datetime.datetime, *, start: datetime.datetime | None = None, why: str = ""
    ) -> Outage:
        """Plan an outage of a link, from now on if it has no start. Operators may do this.

        After KeyboardInterrupt or NetworkError it may have been planned: see `outages`.
        """
        asked = {"link": link, "from": text_of(start), "till": text_of(end), "why": why}
        given = {name: value for name, value in asked.items() if value is not None}
        return _reservations.outage(json.loads(self._native.plan_outage(message(given))))

    def outages(self) -> list[Outage]:
        """Return the outages that have not ended."""
        return [_reservations.outage(item) for item in json.loads(self._native.outages())]

    def lift_outage(self, outage: Outage | int) -> Outage:
        """Cancel or end an outage."""
        number = outage.id if isinstance(outage, Outage) else operator.index(outage)
        return _reservations.outage(json.loads(self._native.lift_outage(number)))

    def clock_offset(self) -> datetime.timedelta:
        """Return the time by which the clock of the scheduler is ahead of the clock here."""
        return datetime.timedelta(microseconds=int(self._native.clock_offset()) // 1000)

    def __repr__(self) -> str:
        return f"lighthaul.{type(self).__name__}({self._access.settings[0]!r})"


class Wait:
    """Wait for the start of a reservation."""

    def __init__(self, scheduler: Scheduler, which: Which, timeout: float | None) -> None:
        self._scheduler = scheduler
        self._number = _number(which)
        self._timeout = timeout_of(timeout)
        self._heard = time.monotonic()
        self._end = None if self._timeout is None else self._heard + self._timeout
        self._is_first = True
        self._found: Reservation | None = None
        self._ahead: int | None = None

    def look(self) -> float | None:
        """Read the reservation, and return the seconds until the next look; None once it is active."""
        now = time.monotonic()
        if self._end is not None and now >= self._end and not self._is_first:
            raise TimedOut(f"reservation {self._number} is not active after {self._timeout} s")
        self._is_first = False
        left = _LOOK_MAX
        try:
            if self._ahead is None:
                self._ahead = int(self._scheduler._native.clock_offset())
            one = self._scheduler.reservation(self._number)
        except NetworkError:
            # the scheduler may be started again, or another takes its place
            if now - self._heard > _SILENCE_MAX:
                raise
        else:
            self._heard = now
            if one.state == "active":
                self._found = one
                return None
            if one.has_ended:
                raise Refused(f"reservation {self._number} cannot start: it is {one.state}; reserve again")
            if one.steps:
                left = (one.steps[0].start - time.time_ns() - self._ahead) / SECOND
                if left < -_LATE_MAX:
                    # provision is on request, or the circuit takes its time
                    left = _LOOK_MAX
        pause = min(max(left, _LOOK_MIN), _LOOK_MAX)
        if self._end is not None:
            if time.monotonic() >= self._end:
                raise TimedOut(f"reservation {self._number} is not active after {self._timeout} s")
            pause = min(pause, self._end - time.monotonic())
        return max(pause, 0.0)

    def found(self) -> Reservation:
        """Return the active reservation."""
        assert self._found is not None
        return self._found


def _read(text: str) -> Reservation:
    return _reservations.reservation(json.loads(text))


def _number(which: Which) -> int:
    return which.id if isinstance(which, Reservation) else operator.index(which)


def _nanos(moment: Moment) -> int:
    return nanos_at(moment) if isinstance(moment, datetime.datetime) else operator.index(moment)


_LOOK_MIN, _LOOK_MAX = 0.2, 4.0
"""Shortest and longest interval at which a reservation is read, in seconds."""
_LATE_MAX = 5.0
"""Seconds after the start for which it is read at the shortest interval."""
_SILENCE_MAX = 600.0
"""Seconds after which a scheduler that cannot be reached makes `wait` fail."""
