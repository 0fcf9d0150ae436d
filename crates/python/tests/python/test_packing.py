"""Typed messages: octets that all languages share, values that do not fit, streams, and coroutines."""

from __future__ import annotations

import array
import asyncio
import itertools
import os
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lighthaul
from conftest import Far

VECTORS = Path(__file__).parents[3] / "packing/tests/vectors.txt"
RELIABLE: dict[str, Any] = {"no_udp": True}
POSE = lighthaul.Schema("Pose { time: f64, joints: [f32], frame: u16, name: text, image: bytes, valid: bool }")
VALUES = {"time": 1.5, "joints": [0.25, -1.0], "frame": 7, "name": "arm", "image": b"\0\xff", "valid": True}
numbers = itertools.count()


@pytest.fixture
def pipe(far: Far) -> str:
    """Place of a new pipe of the daemon."""
    name = f"typed-{next(numbers)}"
    os.mkfifo(far.root / name)
    return far.place(name)


def vectors() -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    """Return the schemas, values and octets of the shared file."""
    found: list[tuple[str, dict[str, Any], dict[str, str]]] = []
    for line in VECTORS.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word in ("", "#"):
            continue
        if word == "schema":
            found.append((rest, {}, {}))
        elif word in ("number", "octets", "announcement"):
            found[-1][2][word] = rest
        else:
            field, _, value = rest.partition(" ")
            found[-1][1][field] = value_of(word, value)
    return found


def value_of(kind: str, text: str) -> object:
    match kind:
        case "bool":
            return text == "true"
        case "unsigned" | "signed":
            return int(text)
        case "float":
            return float(text)
        case "bytes":
            return bytes.fromhex(text)
        case "array":
            number, *words = text.split()
            return [float(word) if number[0] == "f" else int(word) for word in words]
    return text


@pytest.mark.parametrize(("text", "values", "expected"), vectors())
def test_messages_have_the_octets_of_rust_and_cpp(text: str, values: dict[str, Any], expected: dict[str, str]) -> None:
    schema = lighthaul.Schema(text)
    assert f"{schema.number:016x}" == expected["number"]
    packed = schema.pack(values)
    assert packed.hex() == expected["octets"]
    read = schema.unpack(packed)
    assert {name: list(value) if isinstance(value, array.array) else value for name, value in read.items()} == values
    assert schema.pack(read) == packed
    announced = schema._native.announcer(False).before_message()
    assert announced is not None and announced.hex() == expected["announcement"]
    # what the C++ program and the test in Rust have, too
    assert len(vectors()) == 6


def test_schema_has_its_fields_and_is_a_value() -> None:
    assert (POSE.name, POSE.fields["joints"], list(POSE.fields)) == ("Pose", "[f32]", list(VALUES))
    other = lighthaul.Schema(str(POSE))
    assert other == POSE and hash(other) == hash(POSE) and pickle.loads(pickle.dumps(POSE)) == POSE
    assert POSE != lighthaul.Schema("Pose {}") and repr(lighthaul.Schema("A { }")) == "lighthaul.Schema('A{}')"
    with pytest.raises(lighthaul.UsageError, match="wrong at octet 7: there is no type"):
        lighthaul.Schema("A { x: f16 }")


def test_arrays_of_all_kinds_are_packed_as_their_numbers() -> None:
    schema = lighthaul.Schema("A { x: [f32] }")
    expected = schema.pack({"x": [1.0, 2.0, 3.0, 4.0]})
    square = np.array([[1, 2], [3, 4]], dtype="f4")
    exporter: Any = np.arange(1, 5, dtype="f4")
    for same in (
        (1, 2, 3, 4),
        range(1, 5),
        array.array("f", [1, 2, 3, 4]),
        np.arange(1, 5, dtype="f4"),
        # another order of octets, row by row, and with gaps
        np.arange(1, 5, dtype=">f4"),
        square,
        np.asfortranarray(square),
        np.arange(1, 9, dtype="f4").repeat(2)[:8:2],
        memoryview(exporter),
    ):
        assert schema.pack({"x": same}) == expected, repr(same)
    nothing: tuple[Any, ...] = ([], np.empty(0, "f4"), np.empty((3, 0), "f4"), array.array("f"))
    for empty in nothing:
        assert schema.unpack(schema.pack({"x": empty})) == {"x": array.array("f")}
    assert schema.unpack(schema.pack({"x": np.array(5, "f4")})) == {"x": array.array("f", [5])}
    # NumPy uses the memory of the message
    read = schema.unpack(expected)["x"]
    view = np.asarray(read)
    view[0] = 9
    assert view.dtype == np.float32 and read[0] == 9


def test_scalars_of_numpy_are_numbers() -> None:
    schema = lighthaul.Schema("A { n: u8, f: f32, b: bool }")
    values = {"n": np.uint8(7), "f": np.float32(0.5), "b": np.True_}
    assert schema.unpack(schema.pack(values)) == {"n": 7, "f": 0.5, "b": True}
    assert schema.unpack(schema.pack(values | {"f": 3}))["f"] == 3.0


@pytest.mark.parametrize(
    ("field", "value", "error", "says"),
    [
        ("frame", 65536, lighthaul.UsageError, "frame does not fit into u16"),
        ("frame", -1, lighthaul.UsageError, "frame does not fit into u16"),
        ("frame", 1 << 70, lighthaul.UsageError, "frame does not fit into u16"),
        ("frame", 1.0, TypeError, "the field frame is u16, and not float"),
        ("frame", True, TypeError, "the field frame is u16, and not bool"),
        ("frame", "7", TypeError, "the field frame is u16, and not str"),
        ("time", None, TypeError, "the field time is f64, and not NoneType"),
        ("time", True, TypeError, "the field time is f64, and not bool"),
        ("time", 10**30, lighthaul.UsageError, "time does not fit into f64"),
        ("name", b"arm", TypeError, "the field name is text, and not bytes"),
        ("image", "arm", TypeError, "the field image is bytes, and not str"),
        ("valid", 1, TypeError, "the field valid is bool, and not int"),
        ("joints", 5, TypeError, "the field joints is [f32], and not int"),
        ("joints", "text", TypeError, "the field joints is [f32], and not str"),
        ("joints", None, TypeError, "the field joints is [f32], and not NoneType"),
        ("joints", np.zeros(2), TypeError, "the field joints is [f32], and not [f64]"),
        ("joints", np.zeros(2, "i4"), TypeError, "the field joints is [f32], and not [i32]"),
        ("joints", np.zeros(2, complex), TypeError, "an array with items 'Zd'"),
        ("joints", np.array([None]), TypeError, "an array with items 'O'"),
        ("joints", ["a"], TypeError, "the field joints is [f32]: must be real number"),
        ("joints", [1e300], lighthaul.UsageError, "joints does not fit into [f32]"),
    ],
)
def test_wrong_values_name_their_field(field: str, value: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        POSE.pack(VALUES | {field: value})


def test_missing_and_unknown_fields_and_other_octets_are_refused() -> None:
    with pytest.raises(lighthaul.UsageError, match="the field valid has no value"):
        POSE.pack({name: value for name, value in VALUES.items() if name != "valid"})
    with pytest.raises(lighthaul.UsageError, match="Pose has no field speed"):
        POSE.pack(VALUES | {"speed": 1})
    fixed = lighthaul.Schema("A { x: [u16; 2] }")
    with pytest.raises(lighthaul.UsageError, match=re.escape("x does not fit into [u16;2]")):
        fixed.pack({"x": [1, 2, 3]})
    with pytest.raises(lighthaul.UsageError, match=re.escape("x does not fit into [u16;2]")):
        fixed.pack({"x": [1, 1 << 16]})
    packed = POSE.pack(VALUES)
    for octets in (b"", b"text", packed[:-1], packed + b"\0", fixed.pack({"x": [1, 2]})):
        with pytest.raises(lighthaul.ProtocolError):
            POSE.unpack(octets)
    assert POSE.unpack(bytearray(packed)) == POSE.unpack(memoryview(packed)) == POSE.unpack(np.frombuffer(packed, "u1"))


def test_typed_messages_cross_a_pipe(client: lighthaul.Client, pipe: str) -> None:
    joints = np.linspace(0, 1, 50, dtype="f4")
    with client.receive_typed(pipe, POSE, **RELIABLE) as receiving:
        with client.send_typed(pipe, str(POSE), **RELIABLE) as sending:
            assert sending.schema == receiving.schema and "TypedSendStream Pose running" in repr(sending)
            for nth in range(1200):
                sending.send(VALUES | {"frame": nth, "joints": joints})
            sending.close()
            first = receiving.recv(timeout=60)
            assert first is not None and (np.asarray(first["joints"]) == joints).all()
            with pytest.raises(TypeError, match="frame is u16"):
                sending.send(VALUES | {"frame": "x"})
            rest = list(receiving)
        assert [one["frame"] for one in [first, *rest]] == list(range(1200))
        # the schema is announced again after a thousand messages
        assert sending.finish().messages == receiving.finish().messages == 1202
    with pytest.raises(lighthaul.UsageError, match="prefixed framing"):
        client.send_typed(pipe, POSE, frames="lines")
    with pytest.raises(TypeError, match="no option"):
        client.receive_typed(pipe, POSE, linker=1)  # type: ignore[call-arg]


async def test_tasks_send_and_receive_typed_messages(client: lighthaul.Client, pipe: str) -> None:
    async with client.receive_typed(pipe, POSE, **RELIABLE) as receiving:
        async with client.send_typed(pipe, POSE, **RELIABLE) as sending:
            await asyncio.gather(*(sending.asend(VALUES | {"frame": nth}) for nth in range(100)))
            sending.close()
            first = await receiving.arecv()
            assert first is not None
            rest = [one async for one in receiving]
        assert sorted(one["frame"] for one in [first, *rest]) == list(range(100))
        assert (await receiving.afinish()).lost == 0


def test_other_schema_is_refused_with_its_difference(client: lighthaul.Client, pipe: str) -> None:
    other = str(POSE).replace("[f32]", "[f64]")
    with client.receive_typed(pipe, other, **RELIABLE) as receiving:
        sending = client.send_typed(pipe, POSE, **RELIABLE)
        sending.send(VALUES)
        with pytest.raises(lighthaul.ProtocolError, match=re.escape("joints is [f32], and [f64] is expected")):
            receiving.recv()
        sending.cancel()


def test_announcement_is_not_lost_with_a_cancelled_task(client: lighthaul.Client, pipe: str) -> None:
    """A task that is cancelled before its first byte leaves the announcement for the next message."""
    announcer = POSE._native.announcer(False)
    sending = client.send_typed(pipe, POSE, **RELIABLE)
    stream = sending._stream
    stream._announcer = announcer
    due = stream._due(memoryview(b"message"))
    announcement = bytes(next(due))
    due.close()
    assert [bytes(one) for one in stream._due(memoryview(b"message"))] == [announcement, b"message"]
    assert [bytes(one) for one in stream._due(memoryview(b"message"))] == [b"message"]
    sending.cancel()


@pytest.mark.skipif(sys.byteorder != "little", reason="the order of octets of this host")
def test_octets_of_arrays_are_little_endian() -> None:
    packed = lighthaul.Schema("A { x: [u16] }").pack({"x": [1, 0x0203]})
    assert packed.endswith(b"\x01\x00\x03\x02")
