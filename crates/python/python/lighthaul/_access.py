"""Access to a scheduler, which threads and child processes can share."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable
from typing import Generic, TypeVar

from ._types import Place

Native = TypeVar("Native")
Settings = tuple[str, str | None, str | None, str | None]
"""URL, file with the token, key of the scheduler, and file with known keys."""


class Access(Generic[Native]):
    """Connections to a scheduler. A child process makes its own, since it must send nothing on those of its parent."""

    def __init__(self, settings: Settings, make: Callable[[Settings], Native]) -> None:
        self.settings = settings
        self._make = make
        self._start()

    def _start(self) -> None:
        self._made = self._make(self.settings)
        # last: until then, and if it fails, a child process must not use the connections of its parent
        self._process = os.getpid()

    def __getstate__(self) -> object:
        return self.settings, self._make

    def __setstate__(self, state: tuple[Settings, Callable[[Settings], Native]]) -> None:
        self.settings, self._make = state
        self._start()

    @property
    def native(self) -> Native:
        """Client of the native module."""
        if self._process != os.getpid():
            self._start()
        return self._made


def message(value: object) -> str:
    """Return a request in JSON. Integers may be those of NumPy."""
    return json.dumps(value, default=operator.index)


def settings(url: str, token_file: Place | None, pin: str | None, known_hosts: Place | None) -> Settings:
    """Return the settings as the native module takes them."""
    files = [None if path is None else os.path.expanduser(os.fspath(path)) for path in (token_file, known_hosts)]
    return url, files[0], pin, files[1]
