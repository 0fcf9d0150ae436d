"""Events of a scheduler as they happen. The native module connects again after the loss of a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar

from . import _lighthaul
from ._ranges import POOL

T = TypeVar("T")
_LOOK = 0.05
"""Seconds between two looks at signals."""
_TASK_LOOK = 0.5
"""Seconds for which the thread of a coroutine waits at most, also after its cancellation."""


def in_thread(native: _lighthaul.Events, read: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
    """Return the events of the native module, until the last one."""
    while (text := native.next(_LOOK)) != "":
        if text is not None:
            yield read(json.loads(text))


async def in_task(native: _lighthaul.Events, read: Callable[[Mapping[str, Any]], T]) -> AsyncIterator[T]:
    """Return the events of the native module in a coroutine, until the last one."""
    loop = asyncio.get_running_loop()
    while (text := await loop.run_in_executor(POOL.get(), native.next, _TASK_LOOK)) != "":
        if text is not None:
            yield read(json.loads(text))
