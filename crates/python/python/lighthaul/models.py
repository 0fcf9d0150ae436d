"""Equations of the RBUDP paper, as plain functions of numbers.

    from lighthaul import models

    models.goodput(450e6, rate=682e6, rtt=0.11, loss=0.12)

Sizes are bytes, rates bits a second, and times seconds. `rate` is the rate of the payload, without headers. Sizes and
rates are finite, and the loss is at most 0.999. Nothing else is needed; `numpy.vectorize` applies a function to arrays.
"""

from __future__ import annotations

from . import _lighthaul

__all__ = [
    "ack_time",
    "best_goodput",
    "blasts",
    "efficiency",
    "expected_time",
    "goodput",
    "resends",
    "size_for",
    "stream_rate",
    "total_time",
]

PACKET = 1464
"""Bytes of payload in a packet of 1500 bytes with the headers of IPv4, UDP and RBUDP."""


def goodput(size: float, *, rate: float, rtt: float, loss: float = 0.0, packet: float = PACKET) -> float:
    """Return the goodput in bits a second (equation 1)."""
    return _lighthaul.rbudp_model("goodput", size, (rate, rtt, packet, loss))


def total_time(size: float, *, rate: float, rtt: float, loss: float = 0.0, packet: float = PACKET) -> float:
    """Return the seconds from the first packet to the last tally (equation 2)."""
    return _lighthaul.rbudp_model("time_total", size, (rate, rtt, packet, loss))


def expected_time(size: float, *, rate: float, rtt: float, loss: float = 0.0, packet: float = PACKET) -> float:
    """Return the seconds by equation 2 with the exact mean number of blasts instead of equation 6."""
    return _lighthaul.rbudp_model("time_expected", size, (rate, rtt, packet, loss))


def ack_time(size: float, *, rate: float, packet: float = PACKET) -> float:
    """Return the seconds that a tally takes (equation 3)."""
    return _lighthaul.rbudp_model("time_ack", size, (rate, 0.0, packet, 0.0))


def best_goodput(size: float, *, rate: float, rtt: float, packet: float = PACKET) -> float:
    """Return the goodput without loss in bits a second (equation 4)."""
    return _lighthaul.rbudp_model("goodput_best", size, (rate, rtt, packet, 0.0))


def efficiency(size: float, *, rate: float, rtt: float) -> float:
    """Return the largest fraction of the rate that a payload of this size reaches (equation 5)."""
    return _lighthaul.rbudp_efficiency(size, rate, rtt)


def size_for(efficiency: float, *, rate: float, rtt: float) -> float:
    """Return the smallest payload in bytes that reaches an efficiency (equation 5)."""
    return _lighthaul.rbudp_size_for(efficiency, rate, rtt)


def resends(size: float, *, loss: float, packet: float = PACKET) -> float:
    """Return the number of blasts after the first one (equation 6)."""
    return _lighthaul.rbudp_model("resends", size, (1.0, 0.0, packet, loss))


def blasts(size: float, *, loss: float, packet: float = PACKET) -> float:
    """Return the exact mean number of blasts, for independent loss."""
    return _lighthaul.rbudp_model("blasts_expected", size, (1.0, 0.0, packet, loss))


def stream_rate(object_size: float, *, per_second: float, rtt: float, delay: float) -> float:
    """Return the sending rate for a stream of objects that arrive within `delay` (equation 11).

    It is infinite if the delay is at most a round trip.
    """
    return _lighthaul.rbudp_stream_rate(object_size, per_second, rtt, delay)
