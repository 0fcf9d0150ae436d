"""Rates over time."""

from __future__ import annotations

import array
import bisect
import datetime
import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from ._times import SECOND, datetime_of

if TYPE_CHECKING:
    import numpy
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_MAX = (1 << 63) - 1


class Step(NamedTuple):
    """Rate in a range of time. Times are nanoseconds: for a scheduler those since 1970."""

    start: int
    end: int
    """End, exclusive."""
    rate: int
    """Bits a second."""

    @property
    def start_time(self) -> datetime.datetime:
        """Start as a `datetime`, for nanoseconds since 1970."""
        return datetime_of(self.start)

    @property
    def end_time(self) -> datetime.datetime:
        """End as a `datetime`, for nanoseconds since 1970."""
        return datetime_of(self.end)


class Steps(Sequence[Step]):
    """Rate over time, as steps in order. Between steps the rate is zero.

    The properties `starts`, `ends` and `rates`, and `breakpoints`, are NumPy arrays: `pip install lighthaul[numpy]`.
    """

    __slots__ = ("_ends", "_rates", "_starts")

    def __init__(self, steps: Iterable[tuple[int, int, int]] = ()) -> None:
        """Make a rate over time. A step is a start, an end and a rate."""
        given = list(steps)
        before = 0
        for start, end, rate in given:
            if start < before or end <= start or rate < 0:
                raise ValueError("steps must be in order, without overlaps, and with rates that are not negative")
            before = end
        self._starts = array.array("q", (min(step[0], _MAX) for step in given))
        self._ends = array.array("q", (min(step[1], _MAX) for step in given))
        self._rates = array.array("q", (min(step[2], _MAX) for step in given))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, nth: int) -> Step: ...
    @overload
    def __getitem__(self, nth: slice) -> Steps: ...
    def __getitem__(self, nth: int | slice) -> Step | Steps:
        if isinstance(nth, slice):
            return Steps(list(self)[nth])
        return Step(self._starts[nth], self._ends[nth], self._rates[nth])

    def __iter__(self) -> Iterator[Step]:
        return map(Step, self._starts, self._ends, self._rates)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Steps):
            return NotImplemented
        return (self._starts, self._ends, self._rates) == (other._starts, other._ends, other._rates)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Steps({[tuple(step) for step in self]!r})"

    def at(self, time: int) -> int:
        """Return the rate at a time."""
        nth = bisect.bisect_right(self._starts, time) - 1
        return self._rates[nth] if nth >= 0 and time < self._ends[nth] else 0

    @property
    def bytes(self) -> int:
        """Bytes that the rates carry from the first start to the last end."""
        return sum(step.rate * (step.end - step.start) for step in self) // (8 * SECOND)

    @property
    def starts(self) -> NDArray[numpy.int64]:
        """Start of each step in nanoseconds."""
        return _view(self._starts)

    @property
    def ends(self) -> NDArray[numpy.int64]:
        """End of each step in nanoseconds."""
        return _view(self._ends)

    @property
    def rates(self) -> NDArray[numpy.int64]:
        """Rate of each step in bits a second."""
        return _view(self._rates)

    def breakpoints(self) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """Return the times at which the rate changes, and the rate from each of them on. The last rate is zero."""
        np = numpy_module()
        times: list[int] = []
        rates: list[int] = []
        for step in self:
            if times and times[-1] == step.start:
                rates[-1] = step.rate
            else:
                times.append(step.start)
                rates.append(step.rate)
            times.append(step.end)
            rates.append(0)
        return np.array(times, dtype=np.int64), np.array(rates, dtype=np.int64)

    def plot(self, axes: Axes | None = None, **options: Any) -> Axes:
        """Draw the rate over time in seconds after the first start: `pip install lighthaul[plot]`.

        The options are those of `Axes.stairs`.
        """
        axes = axes or new_axes()
        times, rates = self.breakpoints()
        if len(times):
            axes.stairs(rates[:-1] / 1e9, (times - times[0]) / SECOND, **options)
        axes.set_xlabel("time, s")
        axes.set_ylabel("rate, Gb/s")
        return axes


def numpy_module() -> Any:
    """Return the module numpy, which is optional."""
    return _optional("numpy", "numpy", "arrays need NumPy")


def new_axes() -> Axes:
    """Return axes of a new figure of matplotlib, which is optional."""
    pyplot = _optional("matplotlib.pyplot", "plot", "plots need matplotlib")
    axes: Axes = pyplot.subplots(layout="constrained")[1]
    return axes


def _optional(module: str, extra: str, text: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{text}: pip install 'lighthaul[{extra}]'") from error


def _view(values: array.array[int]) -> NDArray[numpy.int64]:
    """Return an array of the same memory. It cannot be written to."""
    np = numpy_module()
    view: NDArray[numpy.int64] = np.empty(0, dtype=np.int64)
    if values:
        # a flag of the array would not be sufficient, since it can be set again
        view = np.frombuffer(memoryview(values).toreadonly(), dtype=np.int64)
    return view
