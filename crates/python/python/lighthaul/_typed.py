"""Streams of typed messages to and from programs on other hosts, in Python and in other languages."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Self

from ._packing import Schema, Values
from ._stream import ReceiveStream, SendStream, StreamSummary


class _Typed:
    """Stream of messages of one schema."""

    def __init__(self, stream: SendStream | ReceiveStream, schema: Schema) -> None:
        self._any = stream
        self._schema = schema

    @property
    def schema(self) -> Schema:
        """Schema of the messages."""
        return self._schema

    @property
    def is_finished(self) -> bool:
        """True if the stream has ended."""
        return self._any.is_finished

    def cancel(self) -> None:
        """Cancel the stream, also while another thread or task waits for it. Calls that wait raise Cancelled."""
        self._any.cancel()

    def close(self) -> None:
        """End the input, or cancel a stream that receives."""
        self._any.close()

    def finish(self) -> StreamSummary:
        """Wait for the end of the stream, and return its result. It counts announcements of the schema, too."""
        return self._any.finish()

    async def afinish(self) -> StreamSummary:
        """Wait for the end of the stream in a coroutine, like `finish`."""
        return await self._any.afinish()

    def __repr__(self) -> str:
        return repr(self._any).replace(type(self._any).__name__, f"{type(self).__name__} {self._schema.name}", 1)

    def __enter__(self) -> Self:
        self._any.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._any.__exit__(kind, value, trace)

    async def __aenter__(self) -> Self:
        await self._any.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._any.__aexit__(kind, value, trace)


class TypedSendStream(_Typed):
    """Stream of typed messages to a program on another host. Either threads or tasks of one event loop can share it.

    The schema is announced before the first message, so that a receiver with another schema can say what differs. As a
    context manager it waits until all messages have arrived, or cancels the stream if the block raises an exception.
    """

    def __init__(self, stream: SendStream, schema: Schema) -> None:
        super().__init__(stream, schema)
        self._stream = stream

    def send(self, message: Values) -> None:
        """Send a message, as `Schema.pack` takes it. Waits while the buffer of the stream is full."""
        self._stream.send(self._schema.pack(message))

    async def asend(self, message: Values) -> None:
        """Send a message in a coroutine, like `send`."""
        await self._stream.asend(self._schema.pack(message))


class TypedReceiveStream(_Typed):
    """Stream of typed messages from a program on another host. Either threads or tasks of one event loop can share it.

    It can be iterated, also with `async for`. A sender with another schema is a ProtocolError, which says what differs. As
    a context manager it cancels the stream at its end.
    """

    def __init__(self, stream: ReceiveStream, schema: Schema) -> None:
        super().__init__(stream, schema)
        self._stream = stream

    def recv(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for the next message, and return it as `Schema.unpack` does; None at the end of the stream.

        Raises TimeoutError if no message begins within `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        left = timeout
        while (octets := self._stream.recv(left)) is not None:
            if (message := self._schema._take(octets)) is not None:
                return message
            if end is not None:
                left = max(0.0, end - time.monotonic())
        return None

    async def arecv(self) -> dict[str, Any] | None:
        """Wait for the next message in a coroutine, like `recv`."""
        while (octets := await self._stream.arecv()) is not None:
            if (message := self._schema._take(octets)) is not None:
                return message
        return None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (message := self.recv()) is not None:
            yield message

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self.arecv()) is not None:
            yield message
