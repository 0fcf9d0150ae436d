"""Capacity of links over time, and transfers that reserve it, as in the VBLS paper.

    from lighthaul.calendar import Calendar, SECOND

    calendar = Calendar("10Gb/s")
    calendar.book(hold=100 * SECOND, rate_max="4Gb/s", fixed=True)
    booking = calendar.book("100GB")
    print(booking.end / SECOND, booking.steps.breakpoints())

This is the calendar of the scheduler without its service: nothing is stored, and no time passes by itself. A booking is
the capacity that a request has got, like a reservation of the scheduler. Times are
nanoseconds from any start, rates bits a second, and sizes bytes; all are integers. Text with a unit is possible, too.
`breakpoints` needs NumPy, and `plot` matplotlib: `pip install lighthaul[plot]`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _lighthaul
from ._errors import Refused
from ._reservations import Link
from ._steps import Step, Steps, new_axes, numpy_module
from ._times import SECOND

if TYPE_CHECKING:
    import numpy
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = [
    "DAY",
    "SECOND",
    "Booking",
    "Calendar",
    "CalendarRefused",
    "Link",
    "Step",
    "Steps",
    "fair",
    "fifo",
]

DAY = 86400 * SECOND
"""Nanoseconds of a day."""

Rate: TypeAlias = int | str
"""Bits a second, or text as in "10Gb/s"."""
Size: TypeAlias = int | str
"""Bytes, or text as in "100GB"."""


class CalendarRefused(Refused):
    """A request is refused. The attributes are requests that would be granted; None if there are none."""

    earliest_end: int | None = None
    """Earliest end."""
    size_by_then: int | None = None
    """Largest size that ends by the deadline."""
    hold_by_then: int | None = None
    """Longest length of time that ends by the deadline."""
    rate_needed: int | None = None
    """Lowest `rate_max` that ends by the deadline."""

    @classmethod
    def _of(cls, text: str, end: int | None, size: int | None, hold: int | None, rate: int | None) -> CalendarRefused:
        error = cls(text)
        error.earliest_end, error.size_by_then, error.hold_by_then, error.rate_needed = end, size, hold, rate
        return error


@dataclass(frozen=True, slots=True)
class Booking:
    """Granted request: rates over time on a path."""

    id: int | None
    """Number in the calendar; None for a quote."""
    path: tuple[str, ...]
    """Links from the source to the target."""
    steps: Steps
    """Rate over time."""

    @property
    def start(self) -> int:
        """Start of the first step."""
        return self.steps[0].start

    @property
    def end(self) -> int:
        """End of the last step, by which all is transferred."""
        return self.steps[-1].end


class Calendar:
    """Capacity of links over time. Threads can share it."""

    def __init__(
        self,
        links: Rate | Iterable[Link],
        *,
        channel: Rate = 1_000_000,
        slot: int = 1,
        horizon: int = 30 * DAY,
        paths: int = 4,
    ) -> None:
        """Make a calendar without bookings.

        links: capacity of a single link named "link", or the links of a network, as those of `Scheduler.topology`.
        channel: unit of rates of the single link. slot: unit of start and end times. horizon: longest time from now to
        the end of a booking. paths: number of paths that are tried between two nodes.
        """
        if isinstance(links, str) or not isinstance(links, Iterable):
            links = [Link("link", "a", "b", _rate(links), _rate(channel))]
        links = list(links)
        records = [
            (link.name, link.source, link.target, link.capacity, link.channel, link.guard, link.cost) for link in links
        ]
        # refuses two links of one name
        self._native = _lighthaul.Calendar(records, horizon, slot, paths)
        self._links = {link.name: link for link in links}
        self._numbers = itertools.count(1)

    @property
    def links(self) -> tuple[Link, ...]:
        """All links."""
        return tuple(self._links.values())

    def quote(self, size: Size | None = None, **request: Any) -> Booking:
        """Return the grant that `book` with the same arguments would give. Nothing is booked."""
        now, record = self._request(size, **request)
        path, steps = self._native.quote(now, record)
        return Booking(None, tuple(path), Steps(steps))

    def book(self, size: Size | None = None, **request: Any) -> Booking:
        """Book capacity for an amount of data, or with `hold` for a length of time.

        source, target: nodes; not needed if there is one link. path: names of links instead of nodes. rate_max,
        rate_min: bounds of the rate. start: earliest start. by: latest end. fixed: one rate for the whole time (FBLS)
        instead of the free rate at each time (VBLS). margin: fraction that is added to the size. rounds: a step for each
        scheduling round, even where the rate stays equal. priority, owner: as of the scheduler. now: present time.

        Raises CalendarRefused with a request that would be granted, if the booking cannot end in time.
        """
        now, record = self._request(size, **request)
        number = next(self._numbers)
        path, steps = self._native.book(now, number, record)
        return Booking(number, tuple(path), Steps(steps))

    def release(self, booking: Booking | int, now: int = 0) -> Steps:
        """End a booking, and return the steps that are free again."""
        number = booking.id if isinstance(booking, Booking) else booking
        if number is None:
            raise ValueError("a quote is not booked")
        return Steps(self._native.release(now, number))

    def bookings(self) -> list[Booking]:
        """Return all bookings in the order of their numbers."""
        found = self._native.bookings()
        return [Booking(number, tuple(path), Steps(steps)) for number, (path, steps) in sorted(found)]

    def free(self, start: int, end: int, link: str | None = None, *, owner: int = 0) -> Steps:
        """Return the free capacity of a link in a range of time: the capacity function of the paper."""
        return Steps(self._native.free(self._link(link), owner, start, end))

    def plot(
        self, start: int, end: int, link: str | None = None, *, axes: Axes | None = None, **options: Any
    ) -> Axes:
        """Draw the bookings of a link above each other, in seconds after `start`, with its capacity.

        The options are those of `Axes.stairs`.
        """
        np = numpy_module()
        axes = axes or new_axes()
        name = self._link(link)
        shown = [one for one in self.bookings() if name in one.path and one.start < end and start < one.end]
        edges = {start, end}
        for one in shown:
            edges.update(time for step in one.steps for time in (step.start, step.end) if start < time < end)
        times = sorted(edges)
        seconds = (np.array(times, dtype=np.int64) - start) / SECOND
        bottom = np.zeros(len(times) - 1)
        for one in shown:
            top = bottom + np.array([one.steps.at(time) for time in times[:-1]]) / 1e9
            drawn: dict[str, Any] = {"fill": True, "label": f"booking {one.id}"} | options
            axes.stairs(top, seconds, baseline=bottom, **drawn)
            bottom = top
        axes.axhline(self._links[name].capacity / 1e9, color="black", linewidth=1)
        axes.set_xlabel("time, s")
        axes.set_ylabel("rate, Gb/s")
        if shown and len(shown) <= 12:
            axes.legend()
        return axes

    def _link(self, link: str | None) -> str:
        if link is not None:
            if link not in self._links:
                raise ValueError(f"there is no link {link}")
            return link
        if len(self._links) != 1:
            raise TypeError("there are several links: name one")
        return next(iter(self._links))

    def _request(
        self,
        size: Size | None,
        *,
        hold: int | None = None,
        source: str | None = None,
        target: str | None = None,
        path: Sequence[str] | None = None,
        rate_max: Rate | None = None,
        rate_min: Rate | None = None,
        start: int = 0,
        by: int | None = None,
        fixed: bool = False,
        margin: float = 0.0,
        rounds: bool = False,
        priority: int = 0,
        owner: int = 0,
        now: int = 0,
    ) -> tuple[int, dict[str, object]]:
        """Return the present time, and the request as the native module takes it."""
        if isinstance(path, str):
            raise TypeError("path is a list of links")
        if path is None and source is None and target is None:
            path = [self._link(None)]
        return now, {
            "source": source,
            "target": target,
            "path": None if path is None else list(path),
            "size": None if size is None else _size(size),
            "hold": hold,
            "margin_ppm": round(margin * 1e6),
            "rate_max": None if rate_max is None else _rate(rate_max),
            "rate_min": None if rate_min is None else _rate(rate_min),
            # it cannot start in the past
            "start": max(start, now),
            "by": by,
            "fixed": fixed,
            "rounds": rounds,
            "priority": priority,
            "owner": owner,
        }


def fifo(files: Iterable[tuple[int, Size, Rate]], capacity: Rate) -> NDArray[numpy.int64]:
    """Return the end of each file at a packet switch with one queue, as an array.

    A file has an arrival time, a size, and the highest rate of its hosts. Files are in the order of their arrival.
    """
    return _packets(files, capacity, False)


def fair(files: Iterable[tuple[int, Size, Rate]], capacity: Rate) -> NDArray[numpy.int64]:
    """Return the end of each file with max-min fair shares, the goal of congestion control, as an array."""
    return _packets(files, capacity, True)


def _packets(files: Iterable[tuple[int, Size, Rate]], capacity: Rate, is_fair: bool) -> NDArray[numpy.int64]:
    np = numpy_module()
    records = [(int(at), _size(size), _rate(most)) for at, size, most in files]
    if any(later[0] < earlier[0] for earlier, later in zip(records, records[1:])):
        raise ValueError("files must be in the order of their arrival")
    ends = _lighthaul.packet_switched(records, _rate(capacity), is_fair)
    found: NDArray[numpy.int64] = np.minimum(np.array(ends, dtype=np.uint64), (1 << 63) - 1).astype(np.int64)
    return found


def _rate(rate: Rate) -> int:
    return _lighthaul.bits_per_second(rate)


def _size(size: Size) -> int:
    return _lighthaul.byte_count(size)


for _type in (Booking, Calendar, CalendarRefused):
    _type.__module__ = __name__
del _type
