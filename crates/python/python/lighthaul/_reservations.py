"""Reservations of a scheduler, and its network."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from ._steps import Steps
from ._times import duration_text, nanos_of, read, text_of


class ReservationOptions(TypedDict, total=False):
    """Options of a reservation, as those of `lighthaul book`."""

    path: Sequence[str] | None
    """Links in order, instead of two hosts."""
    size: int | str | None
    """Amount of data: bytes, or text as in "1.2TB". Give either this or `hold`."""
    hold: datetime.timedelta | float | str | None
    """Length of time: seconds, or text as in "2h30m"."""
    rate_max: int | str | None
    """Highest usable rate: bits a second, or text as in "10Gb/s" [default: the highest that is available]."""
    rate_min: int | str | None
    """Lowest usable rate [default: none]."""
    start: datetime.datetime | None
    """Earliest start [default: now]. A time without a zone is local."""
    by: datetime.datetime | None
    """Latest end [default: none]."""
    margin_percent: int | None
    """Percentage added to `size` for headers and retransmissions [default: 3]."""
    priority: int | None
    """Priority when reservations are moved: higher values are placed first [default: 0]."""
    fixed: bool
    """Reserve one rate for the whole time, instead of the free rate at each time."""
    provision: Literal["auto", "manual"]
    """Provision the circuit with the commit, or on request."""
    interface: str | None
    """Interface of the circuit [default: no circuit]."""
    packets: str | None
    """Packets of the circuit, as in "udp 10.0.0.2/32 5000-5010" [default: all]."""


@dataclass(frozen=True)
class JournalEntry:
    """Change of a reservation."""

    at: datetime.datetime
    verb: str
    from_state: str
    to_state: str
    who: str
    why: str


@dataclass(frozen=True)
class Reservation:
    """Reserved capacity, as it was when the scheduler answered.

    state is reserved, committed, provisioned, active, released, terminated or failed. steps is the rate over time, in
    nanoseconds since 1970. hold_till is the time at which a reservation that is not committed expires.
    """

    id: int
    owner: str
    state: str
    path: tuple[str, ...]
    steps: Steps
    promised_end: datetime.datetime
    created: datetime.datetime
    changed: datetime.datetime
    source: str | None = None
    target: str | None = None
    size: int | None = None
    hold: str | None = None
    hold_till: datetime.datetime | None = None
    failure: str | None = None
    packet_overhead_bytes: int = 0
    request: Mapping[str, Any] = field(default_factory=dict, repr=False)
    journal: tuple[JournalEntry, ...] = field(default=(), repr=False)

    @property
    def has_ended(self) -> bool:
        """True if the reservation is released, terminated or failed, and holds no capacity."""
        return self.state in ("released", "terminated", "failed")

    @property
    def start(self) -> datetime.datetime | None:
        """Start of the first step; None if the reservation holds nothing."""
        return self.steps[0].start_time if self.steps else None


@dataclass(frozen=True)
class ReservationEvent:
    """Change of a reservation.

    kind is reserved, changed, resized or moved. who is the user, device or component that made the change.
    """

    seq: int
    """Number, after which a program can continue."""
    at: datetime.datetime
    kind: str
    who: str
    why: str
    reservation: Reservation
    """Reservation after the change."""


@dataclass(frozen=True)
class Quote:
    """Grant that a request would get now. Nothing is reserved."""

    path: tuple[str, ...]
    steps: Steps
    promised_end: datetime.datetime


@dataclass(frozen=True, slots=True)
class CounterOffer:
    """Requests that would be granted instead of a refused one. A value is None if no such request would be granted."""

    earliest_end: datetime.datetime | None = None
    """Earliest end."""
    size_by_then: int | None = None
    """Largest size in bytes that ends by the deadline."""
    hold_by_then: str | None = None
    """Longest length of time that ends by the deadline, in ISO 8601."""
    rate_needed: int | None = None
    """Lowest `rate_max` in bits a second that ends by the deadline."""


@dataclass(frozen=True, slots=True)
class Link:
    """Link of the network: one direction between two nodes."""

    name: str
    source: str
    target: str
    capacity: int
    """Bits a second."""
    channel: int = 1_000_000
    """Unit of rates in bits a second."""
    guard: int = 0
    """Guard time after a change of rate, in nanoseconds."""
    cost: int = 1
    """Cost for path selection."""
    interfaces: tuple[str, ...] = ()
    """Interfaces at which circuits over the link are made."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Network of a scheduler."""

    nodes: tuple[str, ...]
    links: tuple[Link, ...]

    def link(self, name: str) -> Link:
        """Return the link with this name."""
        for link in self.links:
            if link.name == name:
                return link
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Capacity of one reservation on a link. The owner is None if the client may not see the reservation."""

    id: int
    owner: str | None
    start: int
    end: int
    rate: int


@dataclass(frozen=True, slots=True)
class LinkCalendar:
    """Free and reserved capacity of a link. Times are nanoseconds since 1970."""

    link: str
    capacity: int
    free: Steps
    allocations: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class Outage:
    """Planned outage of a link, and the reservations that it affected."""

    id: int
    link: str
    start: datetime.datetime
    end: datetime.datetime
    moved: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()


def request(source: str | None, target: str | None, options: Mapping[str, Any]) -> dict[str, object]:
    """Return a request as the scheduler reads it."""
    unknown = options.keys() - ReservationOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"reservations have no option {', '.join(sorted(unknown))}")
    if isinstance(options.get("path"), str):
        raise TypeError("path is a list of links")
    same = ("path", "size", "rate_max", "rate_min", "margin_percent", "priority", "provision")
    values: dict[str, object] = {name: options.get(name) for name in same}
    values |= {"from": source, "to": target, "hold": duration_text(options.get("hold"))}
    values |= {"start": text_of(options.get("start")), "by": text_of(options.get("by"))}
    if options.get("fixed"):
        values["shape"] = "fixed"
    if (interface := options.get("interface")) is not None:
        values["flow"] = {"interface": interface, "packets": options.get("packets") or "all"}
    elif options.get("packets") is not None:
        raise TypeError("packets need an interface")
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value is not None}


def reservation(item: Mapping[str, Any]) -> Reservation:
    """Return a reservation that the scheduler has written."""
    asked = item["request"]
    journal = (
        JournalEntry(read(line["at"]), line["verb"], line["from"], line["to"], line["who"], line["why"])
        for line in item["journal"]
    )
    hold_till = item.get("hold_till")
    return Reservation(
        id=item["id"],
        owner=item["owner"],
        state=item["state"],
        path=tuple(item["path"]),
        steps=_steps(item["steps"], "rate_bps"),
        promised_end=read(item["promised_end"]),
        created=read(item["created"]),
        changed=read(item["changed"]),
        source=asked.get("from"),
        target=asked.get("to"),
        size=asked.get("size"),
        hold=asked.get("hold"),
        hold_till=hold_till and read(hold_till),
        failure=item.get("failure"),
        packet_overhead_bytes=item.get("packet_overhead_bytes", 0),
        request=asked,
        journal=tuple(journal),
    )


def reservation_event(item: Mapping[str, Any]) -> ReservationEvent:
    """Return an event that the scheduler has written."""
    changed = reservation(item["reservation"])
    return ReservationEvent(item["seq"], read(item["at"]), item["kind"], item["who"], item["why"], changed)


def quote(item: Mapping[str, Any]) -> Quote:
    """Return a quote that the scheduler has written."""
    return Quote(tuple(item["path"]), _steps(item["steps"], "rate_bps"), read(item["promised_end"]))


def counter_offer(item: Mapping[str, Any]) -> CounterOffer:
    """Return a counter-offer that the scheduler has written."""
    end = item.get("earliest_end")
    names = ("size_by_then", "hold_by_then", "rate_needed")
    return CounterOffer(end and read(end), **{name: item.get(name) for name in names})


def topology(item: Mapping[str, Any]) -> Topology:
    """Return the network that the scheduler has written."""
    links = (
        Link(
            name=link["name"],
            source=link["from"],
            target=link["to"],
            capacity=link["capacity_bps"],
            channel=link["channel_bps"],
            guard=link["guard_ns"],
            cost=link["cost"],
            interfaces=tuple(link.get("interfaces", ())),
        )
        for link in item["links"]
    )
    return Topology(tuple(item["nodes"]), tuple(links))


def link_calendar(item: Mapping[str, Any]) -> LinkCalendar:
    """Return the calendar of a link that the scheduler has written."""
    allocations = (
        Allocation(one["id"], one.get("owner"), nanos_of(one["from"]), nanos_of(one["till"]), one["bps"])
        for one in item["allocations"]
    )
    return LinkCalendar(item["link"], item["capacity_bps"], _steps(item["free"], "bps"), tuple(allocations))


def outage(item: Mapping[str, Any]) -> Outage:
    """Return an outage that the scheduler has written."""
    start, end = read(item["from"]), read(item["till"])
    return Outage(item["id"], item["link"], start, end, tuple(item["moved"]), tuple(item["failed"]))


def _steps(items: Sequence[Mapping[str, Any]], rate: str) -> Steps:
    try:
        return Steps((nanos_of(item["from"]), nanos_of(item["till"]), item[rate]) for item in items)
    except ValueError as error:
        from ._errors import ProtocolError

        raise ProtocolError(f"the scheduler has answered with rates over time that are invalid: {error}") from error
