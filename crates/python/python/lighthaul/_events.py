"""Events of a scheduler as they happen. The native module connects again after the loss of a connection."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar

from . import _lighthaul

T = TypeVar("T")
_LOOK = 0.05
"""Seconds between two looks at signals."""
_SIGNS_MAX = 4096
"""Signs of events that are read at once."""


def in_thread(native: _lighthaul.Events, read: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
    """Return the events of the native module, until the last one."""
    while (text := native.next(_LOOK)) != "":
        if text is not None:
            yield read(json.loads(text))


async def in_task(native: _lighthaul.Events, read: Callable[[Mapping[str, Any]], T]) -> AsyncIterator[T]:
    """Return the events of the native module in a coroutine, until the last one. It needs no thread of a pool."""
    loop = asyncio.get_running_loop()
    with socket.socket(fileno=native.socket()) as signs:
        signs.setblocking(False)
        while (text := native.next(0)) != "":
            if text is None:
                if not await loop.sock_recv(signs, _SIGNS_MAX):
                    # the last event has come before the end of the socket
                    await asyncio.sleep(_LOOK)
            else:
                yield read(json.loads(text))
