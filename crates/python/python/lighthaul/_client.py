"""Client of other hosts."""

from __future__ import annotations

import builtins
import datetime
import functools
import os
import threading
from collections.abc import Iterable
from typing import IO, Any, TypedDict, Unpack

from . import _lighthaul
from ._errors import UsageError, make
from ._files import open_file
from ._packing import Schema
from ._records import Reply
from ._stream import ReceiveStream, SendStream, StreamOptions
from ._transfer import Transfer
from ._typed import TypedReceiveStream, TypedSendStream
from ._types import CopyOptions, FileInfo, OnProgress, Place, Plan, Summary, Usage


class _Settings(TypedDict):
    key: str | None
    known_hosts: str | None
    pin: str | None
    strict: bool
    token: str | None
    statement: str | None
    ssh: str | None
    remote: str | None
    install: bool
    port_range: str | None
    gateway: str | None
    known_paths: str | None


class Client:
    """Client of other hosts. Threads can share it, and a child process can use it after a fork.

    Files that are not named are those of the user, as for the command: `~/.config/lighthaul` has the key and the known
    hosts. A token may also be in the variable `LIGHTHAUL_TOKEN`.
    """

    def __init__(
        self,
        key: Place | None = None,
        known_hosts: Place | None = None,
        token: str | None = None,
        *,
        pin: str | None = None,
        strict: bool = False,
        statement: Place | None = None,
        ssh: str | None = None,
        remote: str | None = None,
        install: bool = False,
        port_range: str | None = None,
        gateway: str | None = None,
        known_paths: Place | None = None,
    ) -> None:
        """Make a client.

        key: file with the private key. known_hosts: file with the keys of daemons. token: token for a daemon.
        pin: key that the daemon must show. strict: refuse a daemon whose key is not known. statement: file with the
        statement of an authority. ssh: command for HOST:PATH. remote: program there. install: put a copy of the program
        there if it has none. port_range: ports that its firewall lets pass. gateway: gateway on the way.
        known_paths: file with measured rates.
        """
        self._settings = _Settings(
            key=_file(key),
            known_hosts=_file(known_hosts),
            pin=pin,
            strict=strict,
            token=token,
            statement=_file(statement),
            ssh=ssh,
            remote=remote,
            install=install,
            port_range=port_range,
            gateway=gateway,
            known_paths=_file(known_paths),
        )
        self._start()

    def _start(self) -> None:
        self._made = _lighthaul.Client(self._settings)
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}
        self._connected: dict[tuple[str, bool], _lighthaul.Files] = {}
        # last: until then, and if it fails, a child process must not use the connections of its parent
        self._process = os.getpid()

    @property
    def _native(self) -> _lighthaul.Client:
        # threads of the parent may have held its locks when it forked
        if self._process != os.getpid():
            self._start()
        return self._made

    def copy(
        self,
        sources: Place | Iterable[Place],
        target: Place,
        *,
        on_progress: OnProgress | None = None,
        **options: Unpack[CopyOptions],
    ) -> Summary:
        """Copy files and directories, and return when they are in place.

        `on_progress` is called on this thread. An exception that it raises, or KeyboardInterrupt, cancels the copy.
        Raises PartialError if entries failed. The options are those of CopyOptions.
        """
        return self.start(sources, target, **options)._run(on_progress)

    def start(
        self,
        sources: Place | Iterable[Place],
        target: Place,
        *,
        on_progress: OnProgress | None = None,
        **options: Unpack[CopyOptions],
    ) -> Transfer:
        """Start a copy, and return at once. `on_progress` is called on a thread of its own."""
        native = self._native
        started = native.start(_request(sources, target, options))
        return Transfer(started, native.notes, on_progress)

    def plan(
        self, sources: Place | Iterable[Place], target: Place, **options: Unpack[CopyOptions]
    ) -> Plan:
        """Count what a copy would do, by a dry run."""
        return Plan(**self._native.plan(_request(sources, target, options)))

    def send_stream(self, place: str, **options: Unpack[StreamOptions]) -> SendStream:
        """Open a stream to a pipe or file of another host, and return at once. Messages are appended to a file.

        Messages of a stream are small. For larger ones, such as arrays, give `object_size` and `objects_per_second`. The
        options are those of StreamOptions.
        """
        return SendStream(self._stream(place, True, options), options)

    def receive_stream(self, place: str, **options: Unpack[StreamOptions]) -> ReceiveStream:
        """Open a stream from a pipe or file of another host, and return at once."""
        return ReceiveStream(self._stream(place, False, options), options)

    def send_typed(self, place: str, schema: Schema | str, **options: Unpack[StreamOptions]) -> TypedSendStream:
        """Open a stream of messages of a schema to a pipe of another host, like `send_stream`."""
        schema, native = self._typed(place, True, schema, options)
        # a stream of objects loses none, and begins with its receiver
        announcer = schema._native.announcer(options.get("object_size") is None)
        return TypedSendStream(SendStream(native, options, announcer), schema)

    def receive_typed(self, place: str, schema: Schema | str, **options: Unpack[StreamOptions]) -> TypedReceiveStream:
        """Open a stream of messages of a schema from a pipe of another host, like `receive_stream`."""
        schema, native = self._typed(place, False, schema, options)
        return TypedReceiveStream(ReceiveStream(native, options), schema)

    def _typed(
        self, place: str, to: bool, schema: Schema | str, options: StreamOptions
    ) -> tuple[Schema, _lighthaul.Stream]:
        if (options.get("frames") or "prefixed") != "prefixed":
            raise UsageError("typed messages need the prefixed framing: set it on both sides")
        schema = Schema(schema) if isinstance(schema, str) else schema
        return schema, self._stream(place, to, options)

    def _stream(self, place: str, to: bool, options: StreamOptions) -> _lighthaul.Stream:
        unknown = options.keys() - StreamOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"streams have no option {', '.join(sorted(unknown))}")
        passed = {name: value for name, value in options.items() if value is not None}
        return self._native.stream(passed | {"place": _place(place), "to": to})

    def ls(self, place: Place, *, all: bool = False, recursive: bool = False) -> list[FileInfo]:
        """List a directory, or a file itself, in the order of names. `all` includes names that begin with a dot."""
        found = _items(self._native.ls(_place(place), all, recursive))
        return sorted(found, key=lambda info: info.path)

    def stat(self, place: Place) -> FileInfo:
        """Describe an item. A symbolic link is not followed."""
        return _items(self._native.stat(_place(place)))[0]

    def exists(self, place: Place) -> bool:
        """Return True if there is an item."""
        try:
            self.stat(place)
        except FileNotFoundError:
            return False
        return True

    def du(self, place: Place) -> Usage:
        """Sum the sizes of all files below a place."""
        found = _items(self._native.ls(_place(place), True, True))
        directories = sum(info.is_dir for info in found)
        size = sum(info.size for info in found if info.kind == "file")
        return Usage(bytes=size, files=len(found) - directories, directories=directories)

    def rm(self, place: Place, *, recursive: bool = False) -> None:
        """Remove a file, or with `recursive` a directory with all that it contains."""
        self._remove([place], recursive)

    def _remove(self, places: Iterable[Place], recursive: bool) -> None:
        """Remove items of one host in one request."""
        _items(self._native.remove(list(map(_place, places)), recursive))

    def mkdir(self, place: Place, *, parents: bool = False) -> None:
        """Create a directory. `parents` creates those above, too, and accepts one that exists."""
        _items(self._native.make(_place(place), parents))

    def open(
        self,
        place: Place,
        mode: str = "r",
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open a file, as the function `open` of Python does.

        Reads of a file of another host are read ahead. A new file gets its name when it is closed; an exception in
        its `with` block discards it.
        """
        host, path = _lighthaul.Client.split(_place(place))
        if host is None:
            return builtins.open(os.fsdecode(path), mode, encoding=encoding, errors=errors, newline=newline)
        files = functools.partial(self._files, host)
        return open_file(files, path, os.fspath(place), mode, encoding, errors, newline)

    def _files(self, host: str, changes: bool) -> _lighthaul.Files:
        """Return the files of a host, over a connection that is kept."""
        native = self._native
        with self._lock:
            turn = self._turns.setdefault(host, threading.Lock())
        # a host that does not answer delays only requests to itself
        with turn:
            kept = self._connected
            files = kept.get((host, changes)) or kept.get((host, True))
            if files is None:
                files = kept[host, changes] = native.files(host, changes)
            return files

    def __getstate__(self) -> _Settings:
        return self._settings

    def __setstate__(self, settings: _Settings) -> None:
        self._settings = settings
        self._start()

    def __repr__(self) -> str:
        shown = {name: value for name, value in self._settings.items() if value}
        shown |= {name: "..." for name in ("token", "gateway") if name in shown}
        return f"lighthaul.Client({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _file(path: Place | None) -> str | None:
    return None if path is None else os.path.expanduser(os.fspath(path))


def _place(place: Place) -> str:
    """Return a place as text. A path object never names another host."""
    if isinstance(place, str):
        return place
    path = os.fspath(place)
    return path if os.path.isabs(path) else os.path.join(".", path)


def _places(places: Place | Iterable[Place]) -> list[str]:
    if isinstance(places, str | os.PathLike):
        return [_place(places)]
    return [_place(place) for place in places]


def _request(sources: Place | Iterable[Place], target: Place, options: CopyOptions) -> dict[str, object]:
    """Return a request as the native module takes it."""
    unknown = options.keys() - CopyOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"copies have no option {', '.join(sorted(unknown))}")
    passed = {name: value for name, value in options.items() if value is not None}
    passed |= {"sources": _places(sources), "target": _place(target)}
    stop_at = options.get("stop_at")
    if isinstance(stop_at, datetime.datetime):
        passed["stop_at"] = stop_at.timestamp()
    for name in ("include", "exclude", "files"):
        listed = passed.get(name)
        if isinstance(listed, str | bytes):
            raise TypeError(f"{name} is a list")
        if isinstance(listed, Iterable):
            passed[name] = [os.fspath(item) for item in listed]
    return passed


def _items(reply: Reply) -> list[FileInfo]:
    """Return the items of a reply. Raises the first failure."""
    found, failed = reply
    for code, text in failed:
        raise make(code, text, _lighthaul.reason(text))
    return [FileInfo(**item) for item in found]


_DEFAULT: list[Client] = []
"""Client of the user, once it is needed."""


def open_place(
    place: Place,
    mode: str = "r",
    *,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> IO[Any]:
    """Open a file with the client of the user, as `Client.open` does."""
    if not _DEFAULT:
        _DEFAULT.append(Client())
    return _DEFAULT[0].open(place, mode, encoding=encoding, errors=errors, newline=newline)
