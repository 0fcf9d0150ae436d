"""Calendars, compared with an array of the rate at each moment."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import lighthaul
from lighthaul.calendar import DAY, SECOND, Calendar, CalendarRefused, Link, Step, Steps, fair, fifo

GIGABIT = 1_000_000_000


def ring() -> Calendar:
    nodes = "abcd"
    ends = list(zip(nodes, nodes[1:] + nodes[0]))
    return Calendar([Link(f"{one}-{other}", one, other, GIGABIT) for one, other in ends])


def test_transfer_uses_the_capacity_that_is_free() -> None:
    calendar = Calendar("10Gb/s")
    held = calendar.book(hold=100 * SECOND, rate_max="4Gb/s", fixed=True)
    assert held.steps == Steps([(0, 100 * SECOND, 4 * GIGABIT)]) and held.path == ("link",)
    quote = calendar.quote("100GB")
    booking = calendar.book(100_000_000_000)
    assert (quote.id, booking.id) == (None, 2) and quote.steps == booking.steps
    assert list(booking.steps) == [(0, 100 * SECOND, 6 * GIGABIT), (100 * SECOND, 120 * SECOND, 10 * GIGABIT)]
    assert booking.steps.bytes == 100_000_000_000 and booking.end == 120 * SECOND
    free = calendar.free(0, 200 * SECOND)
    assert list(free) == [(0, 120 * SECOND, 0), (120 * SECOND, 200 * SECOND, 10 * GIGABIT)]
    assert calendar.bookings() == [held, booking]
    freed = calendar.release(booking, now=50 * SECOND)
    assert freed[0].start == 50 * SECOND
    assert calendar.free(50 * SECOND, 60 * SECOND).at(55 * SECOND) == 6 * GIGABIT


def test_results_are_arrays_of_breakpoints() -> None:
    calendar = Calendar(10 * GIGABIT)
    calendar.book(hold=10 * SECOND, rate_max=10 * GIGABIT, start=5 * SECOND, fixed=True)
    steps = calendar.book("12.5GB").steps
    times, rates = steps.breakpoints()
    assert times.dtype == rates.dtype == np.int64
    assert times.tolist() == [0, 5 * SECOND, 15 * SECOND, 20 * SECOND]
    assert rates.tolist() == [10 * GIGABIT, 0, 10 * GIGABIT, 0]
    assert [steps.at(time) for time in times.tolist()] == rates.tolist()
    seconds = (steps.ends - steps.starts) // SECOND
    assert (seconds * steps.rates).sum() // 8 == steps.bytes == 12_500_000_000
    with pytest.raises(ValueError):
        steps.starts[0] = 1
    assert Steps().breakpoints()[0].size == Steps().starts.size == Steps().bytes == 0
    assert steps[1] == Step(15 * SECOND, 20 * SECOND, 10 * GIGABIT) and steps[:1] == Steps([steps[0]])
    assert pickle.loads(pickle.dumps(steps)) == steps and hash(steps) == hash(steps[:])
    for wrong in ([(1, 1, 1)], [(0, 5, 1), (4, 6, 1)], [(0, 1, -1)]):
        with pytest.raises(ValueError):
            Steps(wrong)


@pytest.mark.parametrize("seed", range(20))
def test_calendar_never_grants_more_than_the_capacity(seed: int) -> None:
    chance = random.Random(seed)
    end = 400
    calendar = ring()
    taken = {link.name: np.zeros(end, dtype=np.int64) for link in calendar.links}
    kept = []
    for _ in range(30):
        source, target = chance.sample("abcd", 2)
        try:
            booking = calendar.book(
                chance.randrange(1, 2 * 10**9),
                source=source,
                target=target,
                rate_max=chance.randrange(1, 1000) * 1_000_000,
                start=chance.randrange(100) * SECOND,
                by=300 * SECOND,
            )
        except CalendarRefused:
            continue
        kept.append(booking)
        if chance.random() < 0.2:
            calendar.release(kept.pop(chance.randrange(len(kept))))
    for booking in kept:
        for link in booking.path:
            for step in booking.steps:
                # the highest rate in each second
                taken[link][step.start // SECOND : step.end // SECOND] += step.rate
    assert kept
    for link, rates in taken.items():
        assert rates.max() <= GIGABIT
        free = calendar.free(0, end * SECOND, link)
        for second in range(end):
            moments = [step for step in free if step.start <= second * SECOND and (second + 1) * SECOND <= step.end]
            if moments:
                assert moments[0].rate == GIGABIT - taken[link][second], (seed, link, second)


def test_refusals_have_a_counter_offer() -> None:
    calendar = Calendar("1Gb/s")
    with pytest.raises(CalendarRefused, match="cannot end in time") as raised:
        calendar.book("10GB", by=40 * SECOND, rate_max="500Mb/s")
    error: CalendarRefused = pickle.loads(pickle.dumps(raised.value))
    assert (error.code, error.kind) == (40, "refused") and isinstance(error, lighthaul.Refused)
    assert (error.earliest_end, error.size_by_then) == (160 * SECOND, 2_500_000_000)
    assert calendar.book(error.size_by_then, by=40 * SECOND, rate_max="500Mb/s").end <= 40 * SECOND
    words: Any
    for words in ({"size": 0}, {"size": 1, "rate_max": "2Gb/s"}, {"hold": 31 * DAY}):
        with pytest.raises(CalendarRefused):
            calendar.book(**words)
    for words in ({}, {"size": 1, "hold": 1}, {"size": 1, "path": ["moon"]}, {"size": 1, "source": "a", "target": "c"}):
        with pytest.raises(ValueError):
            calendar.book(**words)
    for words in ({"size": "5"}, {"size": 1, "rate_max": "fast"}):
        with pytest.raises(ValueError, match="unit|write"):
            calendar.book(**words)
    for words in ({"size": 1, "path": "link"}, {"size": 1, "speed": 2}, {"size": 1.5}, {"size": -1}):
        with pytest.raises(TypeError):
            calendar.book(**words)
    with pytest.raises(ValueError, match="zero"):
        Calendar([Link("x", "a", "b", 0)])
    with pytest.raises(TypeError, match="several links"):
        ring().free(0, 1)
    with pytest.raises(ValueError, match="no link moon"):
        ring().free(0, 1, "moon")
    with pytest.raises(ValueError):
        calendar.release(calendar.quote(1))


def test_threads_share_a_calendar() -> None:
    calendar = Calendar("1Gb/s")
    threads = [threading.Thread(target=lambda: [calendar.book("1MB") for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len({booking.id for booking in calendar.bookings()}) == 800
    assert calendar.free(0, 10 * SECOND)[0] == (0, 6_400_000_000, 0)


REFUSED = """
import sys, threading
from lighthaul.calendar import Calendar, CalendarRefused
sys.setswitchinterval(1e-6)
calendar = Calendar("1Gb/s")

def ask(call):
    for _ in range(400):
        try:
            call("1TB", by=1)
        except CalendarRefused:
            calendar.free(0, 1)

threads = [threading.Thread(target=ask, args=(call,)) for call in (calendar.book, calendar.quote) * 3]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_refusals_in_several_threads_do_not_lock_each_other() -> None:
    # a deadlock would also stop this process
    subprocess.run([sys.executable, "-c", REFUSED], check=True, timeout=100)


def test_links_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="used twice"):
        Calendar([Link("x", "a", "b", GIGABIT), Link("x", "b", "c", GIGABIT)])


def test_arrays_of_steps_stay_read_only() -> None:
    steps = Steps([(0, 1, 5)])
    for array in (steps.starts, steps.ends, steps.rates):
        with pytest.raises(ValueError):
            array.flags.writeable = True
        with pytest.raises(ValueError):
            array[0] = 7
    assert Steps().rates.size == 0


def test_packet_switches_are_compared() -> None:
    files: list[tuple[int, int | str, int | str]] = [(0, "125MB", "1Gb/s"), (0, 125_000_000, GIGABIT)]
    assert fair(files, GIGABIT).tolist() == [2 * SECOND, 2 * SECOND]
    assert fifo(files, GIGABIT).tolist() == [2 * SECOND, 2 * SECOND]
    assert fair(files[:1], "2Gb/s").tolist() == [SECOND]
    with pytest.raises(ValueError, match="order"):
        fair([(1, 1, 1), (0, 1, 1)], GIGABIT)


def test_plots_show_bookings_and_steps() -> None:
    pytest.importorskip("matplotlib").use("agg")
    calendar = Calendar("10Gb/s")
    calendar.book(hold=100 * SECOND, rate_max="4Gb/s", fixed=True)
    booking = calendar.book("100GB")
    axes = calendar.plot(0, 150 * SECOND)
    assert axes.get_ylabel() == "rate, Gb/s" and len(axes.patches) == 2
    stairs: Any = axes.patches[1]
    top = stairs.get_data()
    assert top.values.max() == 10 and top.edges[-1] == 150
    assert booking.steps.plot(axes, color="black") is axes and len(axes.patches) == 3
    axes.figure.canvas.draw()
    Steps().plot()


WITHOUT = """
import sys
for name in ("numpy", "matplotlib", "matplotlib.pyplot", "fsspec", "tqdm"):
    sys.modules[name] = None
import lighthaul
from lighthaul import models, simulator
from lighthaul.calendar import Calendar
calendar = Calendar("10Gb/s")
booking = calendar.book("100GB")
assert booking.steps.bytes == 10**11 and booking.steps.at(0) == 10**10
assert models.efficiency(1e9, rate=1e9, rtt=0.1) > 0.98
for call in (booking.steps.breakpoints, booking.steps.plot, lambda: calendar.plot(0, 1),
             lambda: simulator.transfer_times(1, 1, rtt=0.1)):
    try:
        call()
    except ImportError as error:
        print(error)
"""


def test_package_works_without_optional_packages() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and all("pip install 'lighthaul[" in line for line in lines)
