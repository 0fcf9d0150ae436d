"""Reservations at a scheduler of this host, over TLS."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import multiprocessing
import os
import pickle
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import lighthaul
from conftest import PROGRAM, service
from lighthaul import _blocking, _reservations

HOUR = datetime.timedelta(hours=1)
NETWORK = """
[[link]]
name = "near-far"
from = "near"
to = "far"
capacity = "1Gb/s"
both = true
"""


@dataclass(frozen=True)
class Office:
    """A scheduler with its key."""

    folder: Path
    url: str
    pin: str

    def client(self, name: str = "ada") -> lighthaul.Scheduler:
        """Return the client for the user of this name."""
        return lighthaul.Scheduler(self.url, self.folder / name, pin=self.pin)


def prepare(folder: Path) -> None:
    """Make the files of a scheduler."""
    for name, role in (("ada", "user"), ("bob", "user"), ("olga", "operator")):
        words = [PROGRAM, "token", name, "--role", role, "--tokens", str(folder / "tokens")]
        token = subprocess.run(words, env=environment(folder), check=True, capture_output=True, text=True).stdout
        (folder / name).write_text(token)
    (folder / "network.toml").write_text(NETWORK)


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}


@contextmanager
def running(folder: Path, listen: str = "127.0.0.1:0") -> Iterator[Office]:
    """Run a scheduler, which is killed at the end."""
    files = {"topology": "network.toml", "store": "books", "tokens": "tokens", "key": "host-key"}
    options = [word for name, file in files.items() for word in (f"--{name}", str(folder / file))]
    words = ["scheduler", "--listen", listen, *options]
    patterns = r"booking at (\S+),", r"this host's key is (sha256:\w+)"
    with service(words, folder, environment(folder), patterns) as (_, (url, pin)):
        yield Office(folder, url, pin)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    prepare(folder)
    with running(folder) as found:
        yield found


def soon(hours: float) -> datetime.datetime:
    return datetime.datetime.now() + hours * HOUR


def test_reservation_is_made_listed_modified_and_cancelled(office: Office) -> None:
    client = office.client()
    quote = client.quote("near", "far", size="30GB", start=soon(1))
    one = client.reserve("near", "far", size="30GB", start=soon(1), priority=3)
    assert (one.owner, one.state, one.path, one.size) == ("ada", "provisioned", ("near-far",), 30_000_000_000)
    assert quote.path == one.path and quote.steps.bytes == one.steps.bytes >= 30_000_000_000
    assert one.request["priority"] == 3 and one.journal[0].who == "ada"
    assert one.start is not None and abs(one.start - soon(1).astimezone()) < datetime.timedelta(minutes=5)
    assert one.promised_end == one.steps[-1].end_time and one.hold_till is None
    less = client.modify(one, size="15GB", why="fewer files")
    assert less.steps.bytes < one.steps.bytes and less.size == 15_000_000_000
    assert client.modify(one.id, size=40_000_000_000).steps.bytes > one.steps.bytes
    assert one.id in [other.id for other in client.reservations(state="provisioned")]
    assert client.cancel(one, "not needed").state == "terminated"
    ended = client.reservation(one.id)
    assert ended.has_ended and ended.journal[-1].why == "not needed"
    with pytest.raises(lighthaul.Error):
        client.modify(one, size="1GB")
    assert one.id in [other.id for other in office.client("olga").reservations(owner="ada")]


def test_tentative_reservation_for_a_time_is_committed_and_prolonged(office: Office) -> None:
    client = office.client()
    start = soon(20)
    held = client.reserve("near", "far", hold=2 * HOUR, start=start, rate_max="200Mb/s", fixed=True, tentative=True)
    assert held.state == "reserved" and held.hold_till is not None
    assert [step.rate for step in held.steps] == [200_000_000]
    one = client.commit(held)
    assert one.hold_till is None and one.hold == "PT2H"
    longer = client.modify(one, by=start + 3 * HOUR)
    assert longer.start is not None
    assert abs(longer.promised_end - longer.start - 3 * HOUR) < datetime.timedelta(seconds=1)
    assert client.modify(one, hold=3600).hold == "PT1H"
    for wrong in ({}, {"size": 1, "hold": 2}):
        with pytest.raises(TypeError):
            client.modify(one, **wrong)  # type: ignore[arg-type]
    with pytest.raises(lighthaul.UsageError, match="use hold or by"):
        client.modify(one, size=1)
    with pytest.raises(lighthaul.UsageError, match="before the start"):
        client.modify(one, by=start - HOUR)
    client.cancel(one)


def test_vectors_and_calendars_are_numpy_arrays(office: Office) -> None:
    client = office.client()
    start = soon(2)
    begin = time.time_ns() + 7200 * 10**9
    one = client.reserve("near", "far", hold="30m", start=start, rate_max=600_000_000, fixed=True)
    other = client.reserve(path=["near-far"], size="300GB", start=start)
    assert other.steps.rates.dtype == np.int64 and other.steps.rates.tolist() == [400_000_000, 1_000_000_000]
    assert (other.steps.ends[:-1] == other.steps.starts[1:]).all()
    work = ((other.steps.ends - other.steps.starts).astype(object) * other.steps.rates).sum()
    assert int(work) // (8 * 10**9) == other.steps.bytes
    with pytest.raises(ValueError):
        other.steps.rates[0] = 1
    times, rates = other.steps.breakpoints()
    assert rates.tolist() == [400_000_000, 1_000_000_000, 0] and times[-1] == other.steps[-1].end
    shown = client.calendar("near-far", begin - 3600 * 10**9, start + 3 * HOUR)
    assert shown.capacity == 1_000_000_000
    assert shown.free.at(one.steps[0].start) == 0 and shown.free.at(begin - 3500 * 10**9) == shown.capacity
    assert {(taken.id, taken.owner) for taken in shown.allocations} == {(one.id, "ada"), (other.id, "ada")}
    assert {taken.owner for taken in office.client("bob").calendar("near-far", start).allocations} == {None}
    for which in (one, other):
        client.cancel(which)


def test_refusal_has_a_counter_offer_and_survives_pickling(office: Office) -> None:
    client = office.client()
    with pytest.raises(lighthaul.Refused, match="cannot end in time") as raised:
        client.reserve("near", "far", size="100TB", by=soon(2))
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.code, error.kind, error.problem) == (40, "refused", "late")
    offer = error.counter_offer
    assert offer.earliest_end > soon(200).astimezone() and 0 < offer.size_by_then < 10**12
    # time has passed since the offer
    granted = client.reserve("near", "far", size=offer.size_by_then, by=soon(2.1))
    client.cancel(granted)


def test_failures_are_typed_and_name_a_remedy(office: Office) -> None:
    client = office.client()
    for asked, text in (
        (lambda: client.reservation(99999), "no reservation 99999"),
        (lambda: client.reserve("near", "moon", size=1), "moon"),
        (lambda: client.reserve("near", "far", size="much"), "MB"),
        (lambda: client.calendar("none"), "none"),
    ):
        with pytest.raises(ValueError, match=text):
            asked()
    with pytest.raises(TypeError, match="no option speed"):
        client.reserve("near", "far", speed=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="list of links"):
        client.reserve(path="near-far", size=1)
    with pytest.raises(lighthaul.PermissionDenied) as raised:
        client.plan_outage("near-far", soon(1))
    assert raised.value.problem == "forbidden"
    (office.folder / "wrong").write_text("x" * 43)
    with pytest.raises(lighthaul.PermissionDenied):
        lighthaul.Scheduler(office.url, office.folder / "wrong", pin=office.pin).topology()
    with pytest.raises(lighthaul.PermissionDenied, match="is expected"):
        lighthaul.Scheduler(office.url, office.folder / "ada", pin="sha256:" + "0" * 64).topology()
    with pytest.raises(lighthaul.NetworkError):
        lighthaul.Scheduler("https://127.0.0.1:1", office.folder / "ada", pin=office.pin).topology()


def test_wait_returns_the_active_reservation_and_ends_with_it(office: Office) -> None:
    client = office.client()
    one = client.reserve("near", "far", hold=600, start=datetime.datetime.now() + datetime.timedelta(seconds=4))
    assert client.wait(one, timeout=100).state == "active"
    assert client.release(one).state == "released"
    late = client.reserve("near", "far", hold=60, start=soon(30))
    with pytest.raises(lighthaul.TimedOut, match="not active"):
        client.wait(late, timeout=0.3)
    client.cancel(late)
    with pytest.raises(lighthaul.Refused, match="terminated"):
        client.wait(late)


def test_wait_goes_on_when_the_scheduler_is_killed_and_started_again(tmp_path: Path) -> None:
    prepare(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        with running(tmp_path) as office:
            client = office.client()
            start = datetime.datetime.now() + datetime.timedelta(seconds=4)
            one = client.reserve("near", "far", hold=600, start=start)
            waiting = pool.submit(client.wait, one, 100)
            time.sleep(0.5)
            assert not waiting.done()
        with pytest.raises(lighthaul.NetworkError):
            client.topology()
        with running(tmp_path, office.url.removeprefix("https://")):
            assert waiting.result(100).state == "active"


def test_operator_sees_the_network_and_plans_outages(office: Office) -> None:
    client = office.client("olga")
    topology = client.topology()
    assert set(topology.nodes) == {"near", "far"} and topology.link("far-near").capacity == 1_000_000_000
    with pytest.raises(KeyError):
        topology.link("moon")
    victim = office.client().reserve("far", "near", hold=HOUR, start=soon(50), by=soon(51.5))
    outage = client.plan_outage("far-near", soon(53), start=soon(49), why="repair")
    assert (outage.moved, outage.failed) == ((victim.id,), ())
    moved = client.reservation(victim).start
    assert moved is not None and moved >= outage.end
    assert outage.id in [one.id for one in client.outages()]
    client.lift_outage(outage)
    assert outage.id not in [one.id for one in client.outages()]
    assert abs(client.clock_offset()) < datetime.timedelta(minutes=1)


async def test_coroutines_have_the_same_methods(office: Office) -> None:
    client = lighthaul.AsyncScheduler(office.url, office.folder / "bob", pin=office.pin)
    asked = (client.reserve("near", "far", size="1MB", start=soon(70)) for _ in range(5))
    made = await asyncio.gather(*asked)
    assert [one.id async for one in client.reservations()] == sorted(one.id for one in made)
    assert (await client.quote("near", "far", size=1)).path == ("near-far",)
    waiting = asyncio.create_task(client.wait(made[0]))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    waiting.cancel()
    with pytest.raises(lighthaul.TimedOut):
        await client.wait(made[1], timeout=0.1)
    assert (await client.modify(made[2], size="2MB")).size == 2_000_000
    for one in made:
        assert (await client.cancel(one)).state == "terminated"
    public = {name for name in dir(lighthaul.Scheduler) if not name.startswith("_")}
    assert public == {name for name in dir(client) if not name.startswith("_")}
    for name in public:
        ours, theirs = getattr(lighthaul.AsyncScheduler, name), getattr(lighthaul.Scheduler, name)
        assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters, name
        assert inspect.iscoroutinefunction(ours) or inspect.isasyncgenfunction(ours), name
        assert ours.__qualname__ == f"AsyncScheduler.{name}" and ours.__doc__


async def test_events_show_each_change_once(office: Office) -> None:
    client = office.client("bob")
    coroutines = lighthaul.AsyncScheduler(office.url, office.folder / "bob", pin=office.pin)
    events = client.events()
    made = client.reserve("near", "far", size="1MB", start=soon(600))
    client.cancel(made)
    first = next(events)
    assert (first.kind, first.who, first.reservation.id) == ("reserved", "bob", made.id)
    later = [first]
    while later[-1].reservation.state != "terminated":
        later.append(next(events))
    assert {one.reservation.id for one in later} == {made.id}
    # another program continues after the first event
    again: list[lighthaul.ReservationEvent] = []
    async for event in coroutines.events(first.seq):
        again.append(event)
        if event.reservation.state == "terminated":
            break
    assert again == later[1:]
    # a task that is cancelled while it waits
    async def next_event() -> lighthaul.ReservationEvent:
        return await anext(coroutines.events(again[-1].seq))

    waiting = asyncio.create_task(next_event())
    await asyncio.sleep(0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (office.folder / "guessed").write_text("guessed")
    with pytest.raises(lighthaul.PermissionDenied):
        office.client("guessed").events()


async def test_many_streams_of_events_wait_without_threads_of_the_pool(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = office.client("bob")
    coroutines = lighthaul.AsyncScheduler(office.url, office.folder / "bob", pin=office.pin)
    before = client.events()
    made = client.reserve("near", "far", size="1MB", start=soon(600))
    first = next(before)
    streams = [coroutines.events(first.seq - 1) for _ in range(8)]
    for stream in streams:
        assert (await anext(stream)).seq == first.seq

    def refuse() -> None:
        pytest.fail("a stream waits in the pool of the requests")

    monkeypatch.setattr(_blocking.POOL, "get", refuse)
    waiting = asyncio.gather(*(anext(stream) for stream in streams))
    await asyncio.sleep(0)
    client.cancel(made)
    async with asyncio.timeout(60):
        ends = await waiting
    assert {event.reservation.id for event in ends} == {made.id}


def ask(client: lighthaul.Scheduler) -> int:
    return len(client.topology().links)


def test_answers_that_contradict_themselves_are_protocol_errors() -> None:
    step = {"from": "2031-01-01T00:00:00Z", "till": "2031-01-01T00:00:01.5Z", "rate_bps": 5}
    answer = {"path": ["x"], "steps": [step, step], "promised_end": "2031-01-01T00:00:01.123456789Z"}
    with pytest.raises(lighthaul.ProtocolError, match="in order"):
        _reservations.quote(answer)
    quote = _reservations.quote(answer | {"steps": [step]})
    assert quote.steps[0].end - quote.steps[0].start == 1_500_000_000
    assert quote.promised_end.microsecond == 123456 and quote.steps[0].end_time > quote.steps[0].start_time


def test_child_process_has_connections_of_its_own(office: Office) -> None:
    client = office.client()
    assert ask(client) == 2
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            assert pool.apply(ask, (client,)) == 2
        assert ask(client) == 2
