"""Schemas of typed messages, and the octets of arrays."""

from __future__ import annotations

import array
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from . import _lighthaul
from ._buffers import octets_or_copy
from ._errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from ._buffers import Readable

Values: TypeAlias = Mapping[str, object]
"""Values of a message by the names of their fields."""

_CODES = {
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "f32": "f",
    "f64": "d",
}
"""Types of numbers, with their codes in the module array."""


class Schema:
    """Name of a message, and names and types of its fields, as in "Pose { time: f64, joints: [f32], name: text }".

    Two schemas are equal if their texts are, apart from white space. A message is a mapping of the names of all fields to
    their values.
    """

    def __init__(self, text: str) -> None:
        """Read a schema. Raises UsageError with the place of a fault in its text."""
        self._native = _lighthaul.Schema(text)
        self._fields = dict(self._native.fields())

    @property
    def name(self) -> str:
        """Name of the message."""
        return self._native.name()

    @property
    def fields(self) -> dict[str, str]:
        """Types of the fields by their names, in their order."""
        return dict(self._fields)

    @property
    def number(self) -> int:
        """Number of the schema, which each packed message has."""
        return self._native.number()

    def pack(self, message: Values) -> bytes:
        """Pack a message, for example for a file. Programs in Rust, C and C++ pack it into the same octets.

        An array is an object with a buffer of numbers of the same type, such as an array of NumPy, or a list of numbers.
        Arrays of several dimensions are packed row by row. Raises TypeError for a value of another type, and UsageError for
        a number that does not fit, or a field that is missing or unknown.
        """
        return self._native.pack([(name, self._packable(name, value)) for name, value in message.items()])

    def unpack(self, octets: Readable) -> dict[str, Any]:
        """Read a packed message. Arrays are those of the module array, which NumPy uses without a copy.

        Raises ProtocolError if the octets are no message of this schema.
        """
        return _values(self._native.unpack(octets))

    def _take(self, octets: Readable) -> dict[str, Any] | None:
        """Read one message of a stream; None for an announcement of this schema."""
        taken = self._native.take(octets)
        return None if taken is None else _values(taken)

    def _packable(self, name: str, value: object) -> object:
        kind = self._fields.get(name, "")
        return _octets(name, kind, value) if kind.startswith("[") else value

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return f"lighthaul.Schema({str(self)!r})"

    def __reduce__(self) -> tuple[type[Schema], tuple[str]]:
        return Schema, (str(self),)


def _values(packed: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the values of a message. No other value than an array is a tuple."""
    return {name: _array(*value) if isinstance(value, tuple) else value for name, value in packed}


def _array(number: str, octets: bytes) -> array.array[Any]:
    found = array.array(_CODES[number])
    found.frombytes(octets)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _octets(name: str, kind: str, value: object) -> object:
    """Return the type of the numbers of an array, and their octets in little-endian order.

    An object that is no array is returned as it is: the native module says what is expected.
    """
    if isinstance(value, list | tuple | range):
        number = kind.strip("[]").partition(";")[0]
        return number, _in_order(_numbers(name, kind, number, value), number, sys.byteorder)
    exporter = cast("ReadableBuffer", value)
    try:
        view = memoryview(exporter)
    except TypeError:
        return value
    with view:
        number = _number_of(view)
        if number not in _CODES:
            raise TypeError(f"the field {name} is {kind}, and not an array with items {view.format!r}")
        # of several dimensions, the last one comes first
        octets = octets_or_copy(exporter)
        order = {">": "big", "!": "big", "<": "little"}.get(view.format[0], sys.byteorder)
        return number, _in_order(octets, number, order)


def _numbers(name: str, kind: str, number: str, value: list[Any] | tuple[Any, ...] | range) -> array.array[Any]:
    """Return the numbers of a list. A number that does not fit is refused, as elsewhere."""
    try:
        numbers: array.array[Any] = array.array(_CODES[number], value)
        # the module array makes them infinite
        if number == "f32" and any(math.isinf(found) and not math.isinf(given) for found, given in zip(numbers, value)):
            raise OverflowError
    except TypeError as error:
        raise TypeError(f"the field {name} is {kind}: {error}") from None
    except OverflowError:
        raise UsageError(f"the value of the field {name} does not fit into {kind}") from None
    return numbers


def _number_of(view: memoryview) -> str:
    """Return the name of the type of the numbers of a view, or another text."""
    code = view.format.lstrip("@=<>!")
    if code in ("f", "d"):
        return f"f{8 * view.itemsize}"
    if len(code) == 1 and code.lower() in "bhilq":
        return f"{'i' if code.islower() else 'u'}{8 * view.itemsize}"
    return code


def _in_order(octets: ReadableBuffer, number: str, order: str) -> memoryview:
    """Return octets in little-endian order."""
    if order == "big":
        swapped = array.array(_CODES[number])
        swapped.frombytes(octets)
        swapped.byteswap()
        return memoryview(swapped.tobytes())
    view = memoryview(octets)
    # an empty view has no other type
    return view.cast("B") if view.nbytes else memoryview(b"")
