"""File system for fsspec: URLs such as lh://far.example.org/data/x.zarr in xarray, dask, zarr, pandas and others.

All requests of one call are pipelined: a thousand ranges cost one round trip and the time on the wire. So are those of
coroutines that read at the same time.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import inspect
import io
import os
import posixpath
import re
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from fsspec import AbstractFileSystem
from fsspec.asyn import AbstractAsyncStreamedFile, AsyncFileSystem, async_methods, sync
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.utils import tokenize

from . import _lighthaul
from ._blocking import CALLER, END_TIMEOUT, blocking
from ._buffers import octets_or_copy
from ._client import Client
from ._errors import Exists, NotFound
from ._files import Interruption, RawWriter, TextWriter, Writer, open_file
from ._ranges import Range, RangeBatch
from ._records import ItemRecord

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

P = ParamSpec("P")
T = TypeVar("T")

PIECE = 4 << 20
"""Bytes that are read or written at a time."""


class LighthaulFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Files of one host, which runs `lighthaul serve`.

    host, port: the daemon. Other options are those of `lighthaul.Client`, such as `key` and `token`.
    """

    protocol = "lh"
    root_marker = "/"
    cachable = True

    def __init__(self, host: str, port: int | None = None, **options: Any) -> None:
        inherited = ("asynchronous", "loop", "batch_size", "use_listings_cache", "skip_instance_cache")
        super().__init__(host=host, port=port, **{name: options.pop(name) for name in inherited if name in options})
        self._client = _client(options)
        self._batches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, RangeBatch] = weakref.WeakKeyDictionary()
        name = f"[{host}]" if ":" in host else host
        self._host = f"lh://{name}/" if port is None else f"lh://{name}:{port}/"

    # names

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        if path.startswith("lh://"):
            path = "/" + path.removeprefix("lh://").partition("/")[2]
        return "/" + path.strip("/")

    def unstrip_protocol(self, name: str) -> str:
        return self._host.rstrip("/") + str(self._strip_protocol(name))

    @staticmethod
    def _get_kwargs_from_urls(urlpath: str) -> dict[str, Any]:
        host = urlpath.removeprefix("lh://").partition("/")[0]
        name, colon, port = host.rpartition(":")
        if not colon or port.endswith("]"):
            return {"host": host.strip("[]")}
        return {"host": name.strip("[]"), "port": int(port)}

    @property
    def fsid(self) -> str:
        return self._host

    def _octets(self, path: str) -> bytes:
        return os.fsencode(self._strip_protocol(path))

    # requests

    def _files(self, changes: bool) -> _lighthaul.Files:
        return self._client._files(self._host, changes)

    async def _do(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do blocking work on a thread. It stops if the task is cancelled."""
        return await blocking(functools.partial(work, *args, **kwargs))

    async def _read(self, wanted: Range) -> bytes:
        """Read a range, together with ranges of other coroutines."""
        loop = asyncio.get_running_loop()
        batch = self._batches.get(loop)
        if batch is None:
            batch = self._batches[loop] = RangeBatch()
        return await batch.read(wanted, lambda: self._files(False))

    def _entry(self, record: ItemRecord, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "size": record["size"] if record["kind"] != "directory" else 0,
            "type": record["kind"],
            "mode": record["mode"],
            "uid": record["uid"],
            "gid": record["gid"],
            "mtime": record["mtime_ns"] / 1e9,
            "mtime_ns": record["mtime_ns"],
            "destination": record["target"],
        }

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        record = await self._do(lambda: self._files(False).stat(self._octets(path), True))
        return self._entry(record, self._strip_protocol(path))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        info = await self._info(path)
        if info["type"] != "directory":
            return [info] if detail else [path]
        found = await self._below(path)
        return found if detail else [entry["name"] for entry in found]

    async def _below(self, path: str) -> list[dict[str, Any]]:
        """List a directory."""
        records = await self._do(lambda: self._files(False).ls(self._octets(path)))
        return [self._entry(record, posixpath.join(path, record["path"])) for record in records]

    async def _find(self, path: str, maxdepth: int | None = None, withdirs: bool = False, **options: Any) -> Any:
        """List all files below a path. All directories of one depth are listed together."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        on_error = options.get("on_error", "omit")
        found: dict[str, Any] = {}

        async def below(name: str) -> list[dict[str, Any]]:
            try:
                return await self._below(name)
            except OSError as error:
                if on_error == "raise":
                    raise
                if callable(on_error):
                    on_error(error)
                return []

        directories: list[str] = []
        try:
            info = await self._info(path)
        except OSError:
            if on_error == "raise":
                raise
        else:
            if info["type"] == "directory":
                directories.append(path)
            if info["type"] != "directory" or withdirs:
                found[path] = info
        depth = 0
        while directories and (maxdepth is None or depth < maxdepth):
            entries = [entry for listed in await asyncio.gather(*map(below, directories)) for entry in listed]
            directories = [entry["name"] for entry in entries if entry["type"] == "directory"]
            found |= {entry["name"]: entry for entry in entries if withdirs or entry["type"] != "directory"}
            depth += 1
        names = sorted(found)
        return {name: found[name] for name in names} if options.get("detail", False) else names

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        octets = self._octets(path)
        first = start or 0
        if first >= 0 and (end is None or end >= 0):
            return await self._read((octets, first, None if end is None else max(0, end - first)))

        def cat() -> bytes:
            reader = self._files(False).open(octets)
            first, last, _ = slice(start, end).indices(reader.size)
            return reader.read_at(first, max(0, last - first))

        return await self._do(cat)

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[bytes | Exception]:
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("each path needs a start and an end")

        known, others = [], []
        for nth, (path, start, end) in enumerate(zip(paths, starts, ends, strict=True)):
            first = start or 0
            if end is None or end < 0 or first < 0:
                others.append(nth)
            else:
                known.append((nth, (self._octets(path), first, max(0, end - first))))
        # the others need the size of the file first
        sizeless = [self._cat_file(paths[nth], starts[nth], ends[nth]) for nth in others]
        cat = self._do(lambda: self._files(False).cat_ranges([wanted for _, wanted in known]))
        data, *rest = await asyncio.gather(cat, *sizeless, return_exceptions=True)
        if isinstance(data, BaseException):
            raise data
        found: list[Any] = [b""] * len(paths)
        for nth, one in [*zip((nth for nth, _ in known), data, strict=True), *zip(others, rest, strict=True)]:
            found[nth] = one
        failed = [one for one in found if isinstance(one, BaseException)]
        if failed and on_error == "raise":
            raise failed[0]
        return found

    async def _pipe_file(self, path: str, value: ReadableBuffer, mode: str = "overwrite", **_: Any) -> None:
        def pipe() -> None:
            octets = octets_or_copy(value)
            writer = self._create(path, mode == "create")
            for at in range(0, len(octets), PIECE):
                writer.write(bytes(octets[at : at + PIECE]), at)
            writer.commit()

        await self._do(pipe)

    async def _put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return

        def put() -> None:
            with open(lpath, "rb") as source:
                callback.set_size(os.fstat(source.fileno()).st_size)
                writer = self._create(rpath, mode == "create")
                at = 0
                while piece := source.read(PIECE):
                    writer.write(piece, at)
                    at += len(piece)
                    callback.relative_update(len(piece))
                writer.commit()

        await self._do(put)

    async def _get_file(self, rpath: str, lpath: str, callback: Any = DEFAULT_CALLBACK, **_: Any) -> None:
        if (await self._info(rpath))["type"] == "directory":
            os.makedirs(lpath, exist_ok=True)
            return

        def get() -> None:
            reader = self._files(False).open(self._octets(rpath))
            callback.set_size(reader.size)
            parent = os.path.dirname(os.path.abspath(lpath))
            os.makedirs(parent, exist_ok=True)
            # the name is that of a complete file
            target = tempfile.NamedTemporaryFile(dir=parent, delete=False)
            try:
                with target:
                    at = 0
                    while piece := reader.read_at(at, PIECE):
                        target.write(piece)
                        at += len(piece)
                        callback.relative_update(len(piece))
                os.chmod(target.name, 0o666 & ~_umask())
                os.replace(target.name, lpath)
            except BaseException:
                os.unlink(target.name)
                raise

        await self._do(get)

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._do(lambda: self._files(True).remove(self._octets(path)))

    async def _rmdir(self, path: str, **_: Any) -> None:
        await self._do(lambda: self._files(True).remove_dir(self._octets(path)))

    async def _rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        names = await self._expand_path(path, recursive=False)
        if recursive and maxdepth is None:
            # the host removes what is below in one request, and leaves the targets of links
            await self._do(self._client._remove, [self.unstrip_protocol(name) for name in names], True)
        else:
            await asyncio.gather(*(self._rm_tree(name, maxdepth if recursive else 0) for name in names))

    async def _rm_tree(self, name: str, depth: int | None) -> None:
        """Remove a file, or a directory with what is `depth` levels below it. A link goes, not its target."""
        record = await self._do(lambda: self._files(False).stat(self._octets(name), False))
        if record["kind"] != "directory":
            await self._rm_file(name)
            return
        if depth != 0:
            below = await self._below(name)
            await asyncio.gather(*(self._rm_tree(one["name"], None if depth is None else depth - 1) for one in below))
        await self._rmdir(name)

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        if (await self._info(path1))["type"] == "directory":
            await self._makedirs(path2, exist_ok=True)
            return
        one, two = self._octets(path1), self._octets(path2)
        await self._do(lambda: self._with_parent(path2, lambda: self._files(True).copy(one, two)))

    async def _mv_file(self, path1: str, path2: str, **_: Any) -> None:
        one, two = self._octets(path1), self._octets(path2)
        await self._do(lambda: self._with_parent(path2, lambda: self._files(True).rename(one, two)))

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        """Rename a file or directory."""
        if self.isdir(path2):
            path2 = posixpath.join(self._strip_protocol(path2), posixpath.basename(self._strip_protocol(path1)))
        one, two = self._octets(path1), self._octets(path2)
        self._with_parent(path2, lambda: self._files(True).rename(one, two))

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        def make() -> None:
            self._files(True).make_dir(self._octets(path))

        await self._do(lambda: self._with_parent(path, make) if create_parents else make())

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        await self._do(lambda: self._make_dirs(self._strip_protocol(path), exist_ok))

    async def _touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        octets = self._octets(path)
        if not truncate and await self._do(self._is_there, path):
            await self._do(lambda: self._files(True).set_time(octets, time.time_ns()))
        else:
            await self._pipe_file(path, b"")

    async def _created(self, path: str) -> datetime.datetime:
        raise NotImplementedError("the time of creation is not known")

    async def _modified(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp((await self._info(path))["mtime"], tz=datetime.timezone.utc)

    def created(self, path: str) -> datetime.datetime:
        """Not known of these files."""
        raise NotImplementedError("the time of creation is not known")

    def modified(self, path: str) -> datetime.datetime:
        """Return the time of the last change."""
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def ukey(self, path: str) -> str:
        """Return a text that changes with the content."""
        info = self.info(path)
        return str(tokenize(self._host, info["name"], info["size"], info["mtime_ns"]))

    def checksum(self, path: str) -> int:
        """Return a number that changes with the content."""
        return int(self.ukey(path), 16)

    # directories above

    def _make_dirs(self, path: str, exist_ok: bool) -> None:
        try:
            self._with_parent(path, lambda: self._files(True).make_dir(self._octets(path)))
        except Exists:
            is_dir = self._files(False).stat(self._octets(path), True)["kind"] == "directory"
            if not (exist_ok and is_dir):
                raise

    def _with_parent(self, path: str, work: Callable[[], T]) -> T:
        """Do work that creates a path, and its directory before if that is missing, as stores of objects do."""
        try:
            return work()
        except NotFound:
            parent = posixpath.dirname(self._strip_protocol(path))
            # another request may have created it meanwhile
            if not self._is_there(parent):
                self._make_dirs(parent, True)
            return work()

    def _is_there(self, path: str) -> bool:
        try:
            self._files(False).stat(self._octets(path), True)
        except NotFound:
            return False
        return True

    def _create(self, path: str, is_new: bool) -> _lighthaul.Writer:
        return self._with_parent(path, lambda: self._files(True).create(self._octets(path), is_new))

    # file objects

    def open(self, path: str, mode: str = "rb", *args: Any, **options: Any) -> Any:
        """Open a file. An exception in its block discards it."""
        opened = super().open(path, mode, *args, **options)
        if isinstance(opened, io.TextIOWrapper) and isinstance(opened.buffer, Writer):
            settings = (options.get(name) for name in ("encoding", "errors", "newline"))
            return TextWriter(opened.detach(), *settings)
        return opened

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **_: Any,
    ) -> Any:
        name = self.unstrip_protocol(path)
        if mode == "rb":
            return open_file(self._files, self._octets(path), name, mode)
        if mode not in ("wb", "xb", "ab"):
            raise ValueError(f"mode {mode!r} is not possible: use rb, wb, xb or ab")
        if mode == "ab" and self._is_there(path):
            native = self._files(True).append(self._octets(path))
        else:
            # a file that another program creates meanwhile is not replaced by an append
            native = self._create(path, mode in ("xb", "ab"))
        return Writer(RawWriter(native, name, mode, autocommit))

    async def open_async(self, path: str, mode: str = "rb", **_: Any) -> StreamedFile:
        """Open a file for coroutines, for reading or writing from begin to end."""
        name = self.unstrip_protocol(path)
        if mode == "rb":
            reader = await self._do(lambda: self._files(False).open(self._octets(path)))
            return StreamedFile(self, reader, None, name)
        if mode != "wb":
            raise ValueError(f"mode {mode!r} is not possible: use rb or wb")
        return StreamedFile(self, None, await self._do(self._create, path, False), name)


def _in_caller(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """Return a blocking method, whose work stops if an exception such as KeyboardInterrupt ends the wait for it."""

    @functools.wraps(method)
    def call(fs: LighthaulFileSystem, *args: Any, **kwargs: Any) -> T:
        caller = threading.current_thread()
        tasks: list[asyncio.Task[Any] | None] = []
        left, ended = threading.Event(), threading.Event()

        async def run() -> T:
            CALLER.set(caller)
            tasks.append(asyncio.current_task())
            try:
                if left.is_set():
                    raise asyncio.CancelledError
                return await method(fs, *args, **kwargs)
            finally:
                ended.set()

        def stop() -> None:
            for task in tasks:
                if task is not None:
                    task.cancel()

        try:
            return sync(fs.loop, run)  # type: ignore[no-any-return]
        except Exception:
            raise
        except BaseException:
            left.set()
            fs.loop.call_soon_threadsafe(stop)
            ended.wait(2 * END_TIMEOUT)
            raise

    return call


def _add_blocking_methods() -> None:
    """Add a blocking method for each coroutine that fsspec would add one for."""
    for name in {*async_methods, *dir(AsyncFileSystem), "_touch"}:
        method = getattr(LighthaulFileSystem, name, None)
        if re.match("_[^_]", name) is None or not inspect.iscoroutinefunction(method):
            continue
        default = getattr(AbstractFileSystem, name[1:], None)
        if default is not None and getattr(LighthaulFileSystem, name[1:]) is default:
            setattr(LighthaulFileSystem, name[1:], _in_caller(method))


_add_blocking_methods()


class StreamedFile(AbstractAsyncStreamedFile):  # type: ignore[misc]
    """File for coroutines."""

    def __init__(
        self, fs: LighthaulFileSystem, reader: _lighthaul.Reader | None, writer: _lighthaul.Writer | None, name: str
    ) -> None:
        self.fs = fs
        self._name = name
        self.mode = "rb" if writer is None else "wb"
        self.loc = 0
        self.closed = False
        self.size = reader.size if reader is not None else 0
        self._reader = reader
        self._writer = writer
        self._interruption = Interruption()

    def readable(self) -> bool:
        return self._reader is not None and not self.closed

    def writable(self) -> bool:
        return self._writer is not None and not self.closed

    def seekable(self) -> bool:
        return self._reader is not None and not self.closed

    def seek(self, loc: int, whence: int = 0) -> int:
        self.loc = {0: 0, 1: self.loc, 2: self.size}[whence] + loc
        return self.loc

    async def read(self, length: int = -1) -> bytes:
        if self._reader is None:
            raise ValueError("the file is open for writing")
        left = max(0, self.size - self.loc)
        data = await self.fs._do(self._reader.read_at, self.loc, left if length < 0 else min(length, left))
        self.loc += len(data)
        return data

    async def write(self, data: ReadableBuffer) -> int:
        if self._writer is None:
            raise ValueError("the file is open for reading")
        octets = bytes(octets_or_copy(data))
        await self.fs._do(self._writer.write, octets, self.loc)
        self.loc += len(octets)
        return len(octets)

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            writer, self._writer = self._writer, None
            if writer is None:
                return
            raised = self._interruption.exception()
            if raised is None:
                await self.fs._do(writer.commit)
            else:
                # without a commit, nothing is left of the file
                self._interruption.report(self._name, raised)

    async def __aenter__(self) -> StreamedFile:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: object, trace: object) -> None:
        if kind is not None:
            self._writer = None
        await self.close()


_CLIENTS: weakref.WeakValueDictionary[tuple[tuple[str, Any], ...], Client] = weakref.WeakValueDictionary()
"""Clients, by settings."""


def _client(settings: dict[str, Any]) -> Client:
    """Return the client of these settings. File systems with equal settings share it, and its sessions."""
    name = tuple(sorted(settings.items()))
    # two threads may both create a client, and one of them is kept
    return _CLIENTS.get(name) or _CLIENTS.setdefault(name, Client(**settings))


def _umask() -> int:
    """Return the mask of new files. It can only be read by setting it, which would disturb other threads."""
    with open("/proc/self/status") as status:
        return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), 0o022)
