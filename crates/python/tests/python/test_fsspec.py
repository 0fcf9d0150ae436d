"""The file system for fsspec, by its own abstract tests and by its users."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import fsspec.tests.abstract as abstract
import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem

import lighthaul
from conftest import Far
from lighthaul.fsspec import LighthaulFileSystem


@pytest.fixture(scope="session")
def options(far: Far) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": far.port, **far.settings}


@pytest.fixture
def lh(options: dict[str, Any]) -> LighthaulFileSystem:
    return LighthaulFileSystem(**options)


class Fixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls, options: dict[str, Any]) -> LighthaulFileSystem:
        return LighthaulFileSystem(**options)

    @pytest.fixture
    def fs_path(self, fs: LighthaulFileSystem) -> Iterator[str]:
        path = f"/abstract-{uuid4()}"
        fs.mkdir(path)
        yield path
        fs.rm(path, recursive=True)

    @pytest.fixture(scope="class")
    @classmethod
    def fs_join(cls) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)

    @pytest.fixture(scope="class")
    @classmethod
    def supports_empty_directories(cls) -> bool:
        return True

    @pytest.fixture
    def local_fs(self) -> LocalFileSystem:
        return LocalFileSystem(auto_mkdir=True)


class TestCopy(abstract.AbstractCopyTests, Fixtures):  # type: ignore[misc]
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):  # type: ignore[misc]
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):  # type: ignore[misc]
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):  # type: ignore[misc]
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):  # type: ignore[misc]
    pass


def test_urls_name_host_and_port() -> None:
    for url, host, port, path in [
        ("lh://far/a/b", "far", None, "/a/b"),
        ("lh://far:99/", "far", 99, "/"),
        ("lh://[::1]:99/a", "::1", 99, "/a"),
        ("lh://[::1]/a", "::1", None, "/a"),
    ]:
        found = LighthaulFileSystem._get_kwargs_from_urls(url)
        assert (found["host"], found.get("port")) == (host, port)
        assert LighthaulFileSystem._strip_protocol(url) == path
        assert LighthaulFileSystem(**found).unstrip_protocol(path) == url.rstrip("/") or path == "/"


def test_ranges_of_all_kinds(lh: LighthaulFileSystem) -> None:
    lh.pipe({"/ranges/a": b"0123456789", "/ranges/b": b"abc"})
    assert lh.cat_file("/ranges/a", start=2, end=4) == b"23"
    assert lh.cat_file("/ranges/a", start=-3) == b"789"
    assert lh.cat_file("/ranges/a", end=-8) == b"01"
    assert lh.cat_file("/ranges/a", start=8, end=20) == b"89"
    paths = ["/ranges/a", "/ranges/absent", "/ranges/b", "/ranges/a"]
    found = lh.cat_ranges(paths, [0, 0, -2, 5], [2, 1, None, None], on_error="return")
    assert found[0] == b"01" and isinstance(found[1], FileNotFoundError) and found[2:] == [b"bc", b"56789"]
    with pytest.raises(FileNotFoundError):
        lh.cat_ranges(paths, 0, 1, on_error="raise")
    with pytest.raises(FileNotFoundError):
        lh.info("/ranges/absent")


def test_ranges_of_one_call_share_a_round_trip(lh: LighthaulFileSystem) -> None:
    calls = []
    lh.pipe("/many", bytes(range(256)) * 100)
    files = lh._files(False)

    class Counting:
        def cat_ranges(self, ranges: list[tuple[bytes, int, int]]) -> list[bytes | Exception]:
            calls.append(len(ranges))
            return files.cat_ranges(ranges)

    lh._client._connected = {(lh._host, True): Counting()}  # type: ignore[dict-item]
    try:
        starts = list(range(0, 25_000, 25))
        found = lh.cat_ranges(["/many"] * 1000, starts, [start + 5 for start in starts])
    finally:
        lh._client._connected = {(lh._host, True): files}
    assert calls == [1000] and all(len(data) == 5 for data in found)


async def test_reads_of_coroutines_leave_together(options: dict[str, Any]) -> None:
    fs = LighthaulFileSystem(asynchronous=True, skip_instance_cache=True, **options)
    large = bytes(range(256)) * 12_000
    await asyncio.gather(*(fs._pipe_file(f"/together/{nth}", bytes([nth])) for nth in range(200)))
    await fs._pipe_file("/together/large", large)
    batches = []
    files = fs._files(False)

    class Counting:
        def cat_each(
            self, ranges: list[tuple[bytes, int, int | None]], take: Callable[[int, bytes | Exception], object]
        ) -> None:
            batches.append(len(ranges))
            files.cat_each(ranges, take)

    fs._files = lambda changes: Counting()  # type: ignore[method-assign,assignment,return-value]
    small = [fs._cat_file(f"/together/{nth}") for nth in range(200)]
    others = [
        fs._cat_file("/together/large"),
        fs._cat_file("/together/large", 5),
        fs._cat_file("/together/large", 5, 9),
        fs._cat_file("/together/absent"),
        fs._cat_file("/together"),
    ]
    found = await asyncio.gather(*small, *others, return_exceptions=True)
    assert batches == [205]
    assert found[:200] == [bytes([nth]) for nth in range(200)]
    assert found[200] == large and found[201] == large[5:] and found[202] == large[5:9]
    assert isinstance(found[203], FileNotFoundError) and isinstance(found[204], IsADirectoryError)


async def test_cancelled_read_does_not_disturb_others(options: dict[str, Any]) -> None:
    fs = LighthaulFileSystem(asynchronous=True, skip_instance_cache=True, **options)
    await fs._pipe_file("/cancelled", b"abc")
    tasks = [asyncio.ensure_future(fs._cat_file("/cancelled")) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    assert await tasks[0] == await tasks[2] == b"abc"


def test_file_systems_with_the_same_settings_share_a_session(
    lh: LighthaulFileSystem, options: dict[str, Any]
) -> None:
    other = LighthaulFileSystem(skip_instance_cache=True, **options)
    assert other is not lh and other._files(False) is lh._files(False)
    assert LighthaulFileSystem(**options | {"strict": True})._client is not lh._client


def test_touch_creates_empties_or_sets_the_time(lh: LighthaulFileSystem) -> None:
    lh.touch("/touched/a", truncate=False)
    assert lh.cat("/touched/a") == b""
    lh.pipe("/touched/a", b"abc")
    before = lh.modified("/touched/a")
    lh.touch("/touched/a", truncate=False)
    assert lh.cat("/touched/a") == b"abc" and lh.modified("/touched/a") > before
    lh.touch("/touched/a")
    assert lh.cat("/touched/a") == b""


def test_blocks_of_files_end_at_delimiters(lh: LighthaulFileSystem) -> None:
    lh.pipe("/blocks", b"one\ntwo\nthree\n")
    assert lh.read_block("/blocks", 2, 4, delimiter=b"\n") == b"two\n"


def test_url_opens_with_the_entry_point_class(options: dict[str, Any], far: Far) -> None:
    fsspec.register_implementation("lh", LighthaulFileSystem, clobber=True)
    settings = {name: value for name, value in options.items() if name not in ("host", "port")}
    url = far.place("opened/x.txt")
    with fsspec.open(url, "w", **settings) as file:
        file.write("text\n")
    with fsspec.open(url, "r", **settings) as file:
        assert file.read() == "text\n"
    fs, path = fsspec.url_to_fs(url, **settings)
    key = fs.ukey(path)
    fs.pipe(path, b"other")
    assert fs.ukey(path) != key
    assert pickle.loads(pickle.dumps(fs)).cat(path) == b"other"


async def test_coroutines_use_it_without_its_thread(options: dict[str, Any]) -> None:
    fs = LighthaulFileSystem(asynchronous=True, skip_instance_cache=True, **options)
    await asyncio.gather(*(fs._pipe_file(f"/async/{nth}", b"x" * nth) for nth in range(20)))
    assert len(await fs._ls("/async", detail=False)) == 20
    assert await fs._cat_file("/async/7") == b"x" * 7
    async with await fs.open_async("/async/streamed", "wb") as file:
        await file.write(b"abc")
        await file.write(b"def")
    async with await fs.open_async("/async/streamed", "rb") as file:
        assert (await file.read(4), await file.read()) == (b"abcd", b"ef")
    with pytest.raises(ZeroDivisionError):
        async with await fs.open_async("/async/left", "wb") as file:
            await file.write(b"abc")
            raise ZeroDivisionError
    assert not await fs._exists("/async/left")
    await fs._rm("/async", recursive=True)


def test_files_are_moved_and_removed(lh: LighthaulFileSystem) -> None:
    lh.pipe({"/moved/a/b": b"1", "/moved/a/c": b"2"})
    lh.mv("/moved/a", "/moved/d", recursive=True)
    lh.mv("/moved/d/b", "/moved/e")
    assert sorted(lh.find("/moved")) == ["/moved/d/c", "/moved/e"]
    lh.rm("/moved", recursive=True)
    assert not lh.exists("/moved")


def test_directories_of_one_depth_are_listed_together(lh: LighthaulFileSystem) -> None:
    lh.pipe({f"/level/{one}/file": b"x" for one in range(5)})
    files = lh._files(False)
    together = threading.Barrier(5)

    class Waiting:
        def stat(self, path: bytes, follow: bool) -> Any:
            return files.stat(path, follow)

        def ls(self, path: bytes) -> Any:
            if path != b"/level":
                together.wait(60)
            return files.ls(path)

    lh._client._connected = {(lh._host, True): Waiting()}  # type: ignore[dict-item]
    try:
        assert lh.find("/level") == [f"/level/{one}/file" for one in range(5)]
    finally:
        lh._client._connected = {(lh._host, True): files}


def test_trees_are_listed_by_depth_and_removed_at_once(lh: LighthaulFileSystem) -> None:
    lh.pipe({f"/deep/{one}/{two}/file": b"x" for one in range(5) for two in range(5)})
    lh.makedirs("/deep/empty")
    found = lh.find("/deep")
    assert found == [f"/deep/{one}/{two}/file" for one in range(5) for two in range(5)]
    directories = {"/deep", "/deep/empty", *(f"/deep/{one}" for one in range(5))}
    assert set(lh.find("/deep", maxdepth=1, withdirs=True)) == directories
    assert set(lh.find("/deep", withdirs=True)) - directories == {
        *found, *(f"/deep/{one}/{two}" for one in range(5) for two in range(5))
    }
    assert lh.find("/deep", detail=True)["/deep/0/0/file"]["size"] == 1
    assert lh.find("/deep/0/0/file") == ["/deep/0/0/file"] and lh.find("/deep/absent") == []
    with pytest.raises(OSError):
        lh.rm("/deep", recursive=True, maxdepth=1)
    lh.pipe_file("/deep-file", b"x")
    lh.rm(["/deep", "/deep-file"], recursive=True)
    assert not lh.exists("/deep") and not lh.exists("/deep-file")
    with pytest.raises(FileNotFoundError):
        lh.rm("/deep", recursive=True)


def test_rm_removes_links_and_not_their_targets(far: Far, lh: LighthaulFileSystem) -> None:
    tree = far.root / "with-links"
    (tree / "below").mkdir(parents=True)
    kept = far.root / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    for place, target in {"link": "../kept", "below/link": "../../kept", "dangling": "absent", "to-file": "../kept/file"}.items():
        (tree / place).symlink_to(target)
    lh.rm("/with-links/link", recursive=True)
    assert not (tree / "link").is_symlink()
    lh.rm("/with-links", recursive=True)
    assert not tree.exists() and (kept / "file").read_text() == "kept"


def test_file_object_reads_seeks_and_writes(far: Far, client: lighthaul.Client, large: Path) -> None:
    data = large.read_bytes()
    (far.root / "read").write_bytes(data)
    with client.open(far.place("read"), "rb") as file:
        assert file.read(10) == data[:10]
        file.seek(-10, 2)
        assert file.read() == data[-10:]
        file.seek(5_000_000)
        buffer = bytearray(3_000_000)
        assert file.readinto(buffer) == len(buffer) and buffer == data[5_000_000:8_000_000]  # type: ignore[attr-defined]
        file.seek(0)
        assert file.read() == data
    with client.open(far.place("written"), "wb") as file:
        for at in range(0, len(data), 999_999):
            file.write(data[at : at + 999_999])
        assert not (far.root / "written").exists()
    assert (far.root / "written").read_bytes() == data
    with client.open(far.place("written"), "ab") as file:
        file.write(b"end")
    assert (far.root / "written").stat().st_size == len(data) + 3
    with pytest.raises(FileExistsError):
        client.open(far.place("written"), "xb")
    with client.open(far.place("text"), "w", encoding="utf-8") as text:
        text.write("ä\nb\n")
    with client.open(far.place("text"), encoding="utf-8") as text:
        assert list(text) == ["ä\n", "b\n"]
    with pytest.raises(FileNotFoundError, match="lh://"):
        client.open(far.place("absent"))
    with pytest.raises(ValueError):
        client.open(far.place("text"), "r+")


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_file_of_a_failed_block_is_discarded(far: Far, client: lighthaul.Client, mode: str) -> None:
    with pytest.raises(ZeroDivisionError):
        with client.open(far.place("discarded"), mode) as file:
            file.write("abc" if mode == "w" else b"abc")
            raise ZeroDivisionError
    forgotten = client.open(far.place("discarded"), mode)
    forgotten.write("abc" if mode == "w" else b"abc")
    del forgotten
    assert not (far.root / "discarded").exists()


def test_collected_file_is_not_published(far: Far, client: lighthaul.Client) -> None:
    (far.root / "collected").write_bytes(b"before")
    file = client.open(far.place("collected"), "wb")
    file.write(bytes(3 << 20))
    file.write(b"tail")
    circle: list[Any] = [file]
    circle.append(circle)
    del file, circle
    gc.collect()
    assert (far.root / "collected").read_bytes() == b"before"


def test_transaction_publishes_an_open_file_whole(lh: LighthaulFileSystem) -> None:
    with lh.transaction:
        file = lh.open("/transaction", "wb")
        file.write(b"x" * 10)
    assert lh.cat("/transaction") == b"x" * 10
    file.write(b"more")
    with pytest.raises(OSError, match="committed"):
        file.close()
    assert lh.cat("/transaction") == b"x" * 10


@pytest.mark.parametrize("strided", [False, True])
def test_typed_buffers_are_written_whole(lh: LighthaulFileSystem, strided: bool) -> None:
    data = np.arange(1000, dtype=np.uint32)[:: 2 if strided else 1]
    lh.pipe_file("/typed", data)
    assert lh.cat("/typed") == data.tobytes()
    lh.pipe_file("/empty", np.empty((0, 3), np.uint32))
    assert lh.cat("/empty") == b""
    with pytest.raises(TypeError):
        lh.pipe_file("/typed", [1, 2, 3])
    assert lh.cat("/typed") == data.tobytes()


def test_append_does_not_replace_a_file_that_appeared(lh: LighthaulFileSystem) -> None:
    file = lh.open("/appeared", "ab")
    lh.pipe_file("/other", b"other")
    lh.mv("/other", "/appeared")
    file.write(b"mine")
    with pytest.raises(FileExistsError):
        file.close()
    assert lh.cat("/appeared") == b"other"


def test_open_file_of_the_parent_is_refused_in_a_child(far: Far, client: lighthaul.Client) -> None:
    import os

    (far.root / "forked-file").write_bytes(b"0123456789" * 1000)
    file: Any = client.open(far.place("forked-file"), "rb")
    inlet, outlet = os.pipe()
    if os.fork() == 0:
        try:
            file.raw._native.read_at(0, 1)
            text = b"it was read"
        except RuntimeError as error:
            text = str(error).encode()
        # the child has connections of its own
        with client.open(far.place("forked-file"), "rb") as own:
            text += own.read(10)
        del file
        os.write(outlet, text)
        os._exit(0)
    os.wait()
    answer = os.read(inlet, 1000)
    assert b"open the file again here" in answer and answer.endswith(b"0123456789")
    # the child has sent nothing on the connections of the parent
    assert len(file.read()) == 10_000
    os.close(inlet)
    os.close(outlet)
