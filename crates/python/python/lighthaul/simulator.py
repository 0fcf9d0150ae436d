"""Simulations in virtual time, with the protocol code that also runs on networks.

    from lighthaul import simulator

    seconds = simulator.transfer_times("450MB", "600Mb/s", link="1Gb/s", rtt=0.11, loss=0.001, seeds=range(10))
    result = simulator.run("figures/rbudp-rate.toml")
    result["fast_simulation"], result.plot()

A seed makes a run repeatable to the bit. Results are NumPy arrays: `pip install lighthaul[numpy]`, or `lighthaul[plot]`
with matplotlib.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _lighthaul
from ._steps import new_axes, numpy_module

if TYPE_CHECKING:
    import numpy
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["Result", "run", "transfer_times"]


@dataclass(frozen=True, eq=False, repr=False)
class Result(Mapping[str, "NDArray[numpy.float64]"]):
    """Table of a simulated plan: an array for each column, with NaN for unknown numbers.

    The first column is the variable. The end of a name says where a column comes from: `_model`, `_expected`,
    `_simulation` or `_emulation`.
    """

    title: str
    """Title of the plan."""
    labels: Mapping[str, str]
    """Label of each curve of the plan."""
    table: Mapping[str, NDArray[numpy.float64]]
    """Columns."""

    @property
    def variable(self) -> str:
        """Name of the first column."""
        return next(iter(self.table))

    def __getitem__(self, column: str) -> NDArray[numpy.float64]:
        return self.table[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<lighthaul.simulator.Result {self.title!r}, {len(self[self.variable])} rows: {', '.join(self)}>"

    def plot(self, axes: Axes | None = None, **options: Any) -> Axes:
        """Draw all columns against the first one. The options are those of `Axes.plot`."""
        np = numpy_module()
        axes = axes or new_axes()
        variable = self[self.variable]
        for column, values in self.items():
            known = np.isfinite(values)
            if column == self.variable or not known.any():
                continue
            name, _, origin = column.rpartition("_")
            line = "--" if origin in ("model", "expected") else "-"
            label = f"{self.labels.get(name, name)}, {origin}"
            axes.plot(variable[known], values[known], **{"linestyle": line, "label": label} | options)
        axes.set_title(self.title)
        axes.set_xlabel(_AXES.get(self.variable, self.variable))
        axes.legend()
        return axes


def run(plan: str | os.PathLike[str]) -> Result:
    """Simulate every point of a plan: a file in TOML, as those in `figures`, or its text.

    Plans are those of `lighthaul lab figures` for transfers by RBUDP, SABUL flows on one link, transfers that follow a
    vector, and copies on a circuit. An interrupted simulation ends in the background.
    """
    text = plan if isinstance(plan, str) and "\n" in plan else Path(plan).read_text(encoding="utf-8")
    settings = tomllib.loads(text)
    columns, rows = _lighthaul.simulate_plan(_kind(settings), text)
    np = numpy_module()
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(columns))
    curves = [*settings.get("series", ()), *settings.get("flow", ())]
    labels = {curve["name"]: curve["label"] for curve in curves}
    return Result(settings["title"], labels, {name: table[:, nth] for nth, name in enumerate(columns)})


def transfer_times(
    size: int | str,
    rate: int | str,
    *,
    link: int | str | None = None,
    rtt: float,
    loss: float = 0.0,
    queue: int | str = "1MiB",
    seeds: Iterable[int] = (1,),
    absorb: int | str | None = None,
    socket: int | str | None = None,
    competitors: int = 0,
    nice: int = 0,
    feedback: bool = False,
    packet: int = 1464,
    overhead: int = 28,
    settle: float = 0.001,
) -> NDArray[numpy.float64]:
    """Return the seconds that a transfer by RBUDP takes, one number for each seed.

    A transfer has at most 8388608 packets, and an `rtt` of at most 60 s with `feedback`. An interrupted simulation goes
    on in the background until the end of its seed.

    size: bytes, or text as in "450MB". rate: rate of the payload without headers, in bits a second or as in "600Mb/s".
    link: rate of the link [default: 10Gb/s]. rtt, settle: seconds. loss: fraction of the packets. queue: bytes of the
    queue of the link. absorb, socket: rate that a slow receiver processes, and the size of its socket buffer.
    competitors, nice: tasks that compete for its processor. feedback: the receiver asks for pauses (RBUDP+). packet,
    overhead: bytes of payload in a packet, and of the headers of IP and UDP.
    """
    np = numpy_module()
    case = {
        "size": size,
        "rate": rate,
        "link": "10Gb/s" if link is None else link,
        "rtt": rtt,
        "queue": queue,
        "loss": loss,
        "absorb": absorb,
        "socket": socket,
        "competitors": competitors,
        "nice": nice,
        "feedback": feedback,
        "packet_len": packet,
        "overhead_len": overhead,
        "settle": settle,
    }
    times: NDArray[numpy.float64] = np.array(_lighthaul.simulate_transfers(case, list(seeds)), dtype=np.float64)
    return times


def _kind(settings: Mapping[str, object]) -> str:
    """Return the kind of a plan. Each kind has a key of its own."""
    for key, kind in (("vary", "transfers"), ("crowd", "flows"), ("trc", "vector"), ("sizes", "circuit")):
        if key in settings:
            return kind
    raise ValueError("this is no plan of transfers, flows, a vector or a circuit: it has no vary, crowd, trc or sizes")


_AXES = {
    "rate_mbps": "rate of the payload, Mb/s",
    "object_mb": "size, MB",
    "link_mbps": "rate of the link, Mb/s",
    "seconds": "time, s",
}

for _type in (Result,):
    _type.__module__ = __name__
del _type
