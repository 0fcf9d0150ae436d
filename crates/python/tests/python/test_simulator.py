"""Simulations in virtual time, and the equations of the RBUDP paper."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lighthaul import models, simulator

FIGURES = Path(__file__).parents[4] / "figures"

PLAN = """
title = "a plan"
vary = "rate"
values = ["100Mb/s", "400Mb/s"]
path = { rate = "1Gb/s", rtt = "20ms", queue = "1MiB" }
packet = { len = 1464, overhead = 28, settle = "1ms" }
series = [{ name = "lossy", label = "1 % lost", object = "5MB", loss = "1%", model = true }]
"""


def test_transfers_repeat_with_their_seed_and_fit_the_model() -> None:
    path = {"rtt": 0.05, "loss": 0.01}
    times = simulator.transfer_times("20MB", "400Mb/s", link="1Gb/s", seeds=range(1, 9), **path)  # type: ignore[arg-type]
    assert times.dtype == np.float64 and times.shape == (8,)
    again = simulator.transfer_times(20_000_000, 400_000_000, link="1Gb/s", seeds=range(1, 9), **path)  # type: ignore[arg-type]
    assert (times == again).all() and len(set(times.tolist())) > 1
    expected = models.expected_time(20e6, rate=400e6, **path)
    assert abs(times.mean() - expected) < 0.15 * expected


def test_plan_is_simulated_into_arrays() -> None:
    result = simulator.run(PLAN)
    assert list(result) == ["rate_mbps", "lossy_model", "lossy_expected", "lossy_simulation", "lossy_emulation"]
    assert result.title == "a plan" and result["rate_mbps"].tolist() == [100, 400]
    assert np.isnan(result["lossy_emulation"]).all()
    model = [models.goodput(5e6, rate=rate, rtt=0.02, loss=0.01) / 1e6 for rate in (100e6, 400e6)]
    assert result["lossy_model"] == pytest.approx(model)
    assert result["lossy_simulation"] == pytest.approx(result["lossy_expected"], rel=0.25)
    assert "2 rows" in repr(result)


def test_plan_of_a_figure_gives_its_accepted_table() -> None:
    result = simulator.run(FIGURES / "vbtp-steps.toml")
    with open(FIGURES / "vbtp-steps.csv", newline="") as file:
        accepted = list(csv.DictReader(file))
    assert len(accepted) == len(result[result.variable])
    for column, values in result.items():
        if not column.endswith("_emulation"):
            expected = [float(row[column] or "nan") for row in accepted]
            assert values == pytest.approx(expected, rel=0.001, abs=0.01, nan_ok=True), column


def test_faulty_plans_are_refused_with_the_fault() -> None:
    for text, why in (("title = 'x'\n", "vary, crowd, trc or sizes"), (PLAN.replace("20ms", "soon"), "soon")):
        with pytest.raises(ValueError, match=why):
            simulator.run(text)
    with pytest.raises(FileNotFoundError):
        simulator.run("absent.toml")
    for words in ({"loss": 1.0}, {"rtt": -1.0}, {"size": 0}, {"rate": "fast"}, {"absorb": "1Gb/s"}):
        arguments = {"size": "1MB", "rate": "1Gb/s", "rtt": 0.01} | words
        with pytest.raises(ValueError):
            simulator.transfer_times(**arguments)  # type: ignore[arg-type]


def test_transfers_beyond_the_protocol_are_refused() -> None:
    for words, why in (
        ({"size": "20GB"}, "packets"),
        ({"packet": 70_000}, "packet"),
        ({"packet": 2**32 - 1}, "packet"),
        ({"packet": 65_500, "overhead": 65_500}, "packet"),
        ({"overhead": 2**32 - 1}, "packet"),
        ({"packet": 0}, "packet"),
        ({"rtt": 61.0, "feedback": True}, "minute"),
    ):
        arguments = {"size": "1MB", "rate": "1Gb/s", "rtt": 0.01} | words
        with pytest.raises(ValueError, match=why):
            simulator.transfer_times(**arguments)  # type: ignore[arg-type]


def test_equations_refuse_numbers_for_which_they_have_no_value() -> None:
    path: dict[str, float] = {"size": 1e6, "rate": 1e9, "rtt": 0.1}
    stream: dict[str, float] = {"object_size": 1, "per_second": 1, "rtt": 0.1, "delay": 1}
    faulty: list[tuple[Callable[..., float], dict[str, float], str]] = [
        (models.blasts, {"size": 1e6, "loss": 0.6}, "size"),
        *((models.expected_time, path | {"packet": 1464}, name) for name in ("size", "rate", "packet")),
        *((models.efficiency, path, name) for name in ("size", "rate")),
        (models.size_for, {"efficiency": 0.5, "rate": 1e9, "rtt": 0.1}, "rate"),
        *((models.stream_rate, stream, name) for name in ("object_size", "per_second")),
    ]
    for equation, numbers, name in faulty:
        assert equation(**numbers) > 0
        for bad in (math.inf, math.nan, -1.0, 0.0):
            with pytest.raises(ValueError):
                equation(**numbers | {name: bad})
    for loss in (1 - 1e-16, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="loss"):
            models.blasts(1e12, loss=loss)
    for efficiency in (1.0, 2.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="efficiency"):
            models.size_for(efficiency, rate=1e9, rtt=0.1)
    with pytest.raises(ValueError):
        models.blasts(1e300, loss=0.9, packet=1e-300)
    assert models.blasts(1e300, loss=0.999, packet=1) > 1000


def test_result_is_plotted() -> None:
    pytest.importorskip("matplotlib").use("agg")
    axes = simulator.run(PLAN).plot(marker="o")
    labels = [line.get_label() for line in axes.get_lines()]
    assert labels == ["1 % lost, model", "1 % lost, expected", "1 % lost, simulation"]
    assert axes.get_title() == "a plan"


def test_equations_have_the_values_of_the_paper() -> None:
    assert models.size_for(0.9, rate=600e6, rtt=0.1) == pytest.approx(67.5e6)
    assert models.efficiency(67.5e6, rate=600e6, rtt=0.1) == pytest.approx(0.9)
    path = {"rate": 682e6, "rtt": 0.11, "packet": 1500}
    assert models.resends(450e6, loss=0.12, packet=1500) == 5
    assert models.total_time(450e6, loss=0.12, **path) == pytest.approx(6.661, rel=1e-3)
    assert models.goodput(450e6, loss=0.12, **path) == pytest.approx(450e6 * 8 / 6.661, rel=1e-3)
    assert models.best_goodput(450e6, **path) == pytest.approx(models.goodput(450e6, **path))
    assert models.blasts(1500, loss=0.12, packet=1500) == pytest.approx(1 / 0.88)
    assert models.ack_time(12000, rate=8, packet=1500) == 1
    rate = models.stream_rate(800 * 600 * 3, per_second=20, rtt=0.1, delay=0.5)
    assert rate == pytest.approx(288e6)
    assert math.isinf(models.stream_rate(1, per_second=1, rtt=0.5, delay=0.5))
    with pytest.raises(ValueError):
        models.goodput(1, rate=1e9, rtt=0.1, loss=1.0)
    vector = np.vectorize(lambda size: models.efficiency(size, rate=1e9, rtt=0.1))(np.array([1e6, 1e8]))
    assert vector[0] < vector[1] < 1
