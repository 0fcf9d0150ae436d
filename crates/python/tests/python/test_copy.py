"""Copies and operations on files."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import lighthaul
from conftest import SLOW, Far


def tree(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 100)
    return folder


def test_tree_is_copied_there_and_back(far: Far, client: lighthaul.Client, tmp_path: Path) -> None:
    source = tree(tmp_path / "source", "a", "b/c", "b/d")
    seen: list[lighthaul.Progress] = []
    summary = client.copy(f"{source}/", far.place("tree"), on_progress=seen.append)
    assert summary.bytes == sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    assert summary.failures == () and summary.elapsed > 0
    assert seen[-1].done == seen[-1].total
    client.copy([far.place("tree/a"), far.place("tree/b")], tmp_path / "back")
    assert (tmp_path / "back/b/c").read_bytes() == (source / "b/c").read_bytes()


def test_plan_counts_and_changes_nothing(far: Far, client: lighthaul.Client, tmp_path: Path) -> None:
    source = tree(tmp_path / "source", "kept", "new")
    (far.root / "planned").mkdir()
    tree(far.root / "planned", "gone")
    plan = client.plan(f"{source}/", far.place("planned"), delete=True)
    assert plan.deletions == 1 and plan.bytes == 300 + 400
    assert [path.name for path in (far.root / "planned").iterdir()] == ["gone"]


def test_options_are_those_of_the_command(far: Far, client: lighthaul.Client, tmp_path: Path) -> None:
    source = tree(tmp_path / "source", "x.h5", "x.tmp", "sub/y.tmp")
    tree(far.root / "options", "old")
    client.copy(f"{source}/", far.place("options"), exclude=["*.tmp"], delete=True, rate=10**9, verify="disk")
    found = client.ls(far.place("options"), recursive=True)
    assert [info.path for info in found] == ["sub", "x.h5"]
    client.copy(source, far.place("listed"), files=["sub/y.tmp", Path("x.h5")])
    assert client.du(far.place("listed")) == lighthaul.Usage(bytes=900 + 400, files=2, directories=1)
    wrongs: tuple[dict[str, Any], ...] = ({"exclude": "*.tmp"}, {"exlude": ["*"]})
    for wrong in wrongs:
        with pytest.raises(TypeError):
            client.copy(source, far.place("x"), **wrong)
    with pytest.raises(ValueError, match="verify"):
        client.copy(source, far.place("x"), verify="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unit"):
        client.copy(source, far.place("x"), rate="900")


def test_files_are_made_described_and_removed(far: Far, client: lighthaul.Client) -> None:
    place = far.place("made/below")
    with pytest.raises(lighthaul.NotFound):
        client.mkdir(place)
    client.mkdir(place, parents=True)
    (far.root / "made/below/\udcff ä").write_bytes(b"123")
    info = client.ls(place)[0]
    assert (info.path, info.size, info.kind, info.is_dir) == ("\udcff ä", 3, "file", False)
    assert client.stat(place).is_dir
    assert abs(info.mtime - (far.root / "made/below/\udcff ä").stat().st_mtime) < 1
    with pytest.raises(lighthaul.Error):
        client.rm(far.place("made"))
    client.rm(far.place("made"), recursive=True)
    assert not client.exists(place)


def test_path_object_is_always_local(far: Far, client: lighthaul.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = tree(tmp_path, "host:x") / "host:x"
    client.copy(Path("host:x"), far.place("odd"))
    assert (far.root / "odd").read_bytes() == odd.read_bytes()


def test_errors_are_those_of_python_and_of_the_command(far: Far, client: lighthaul.Client, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent") as absent:
        client.copy(tmp_path / "absent", far.place("x"))
    assert isinstance(absent.value, lighthaul.NotFound)
    assert (absent.value.code, absent.value.kind, absent.value.errno) == (3, "open", 2)
    with pytest.raises(lighthaul.NotFound, match="/absent"):
        client.copy(far.place("absent"), tmp_path / "x")
    with pytest.raises(lighthaul.NotFound, match=far.place("absent")):
        client.stat(far.place("absent"))
    with pytest.raises(FileExistsError):
        (far.root / "there").mkdir()
        client.mkdir(far.place("there"))
    stranger = lighthaul.Client(key=tmp_path / "key", pin=far.pin)
    with pytest.raises(PermissionError, match="lighthaul allow") as denied:
        stranger.ls(far.place())
    assert denied.value.code == 13  # type: ignore[attr-defined]
    with pytest.raises(lighthaul.UsageError):
        client.copy("here", "there")
    closed = f"lh://127.0.0.1:{far.port}/".replace(str(far.port), "9")
    with pytest.raises(ConnectionError):
        client.ls(closed)


KINDS = [kind for kind in map(vars(lighthaul).get, lighthaul.__all__) if isinstance(kind, type) and issubclass(kind, lighthaul.Error)]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling(kind: type[lighthaul.Error]) -> None:
    error = kind("cannot do it")
    error.code = 42
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is kind
    assert (str(copied), copied.code, copied.kind) == ("cannot do it", 42, error.kind)
    assert copied.remedy == error.remedy != ""


def test_errors_say_what_to_do(far: Far, client: lighthaul.Client) -> None:
    assert lighthaul.NotFound("it is closed; open it").remedy == "open it"
    with pytest.raises(lighthaul.NotFound) as absent:
        client.copy("absent", far.place())
    assert absent.value.remedy == lighthaul.OpenError("no").remedy


def test_failed_entries_raise_at_the_end(far: Far, client: lighthaul.Client, tmp_path: Path) -> None:
    source = tree(tmp_path / "source", "bad", "good")
    tree(far.root / "partial", "bad/in its place")
    with pytest.raises(lighthaul.PartialError, match="bad") as partial:
        client.copy(f"{source}/", far.place("partial"))
    error = pickle.loads(pickle.dumps(partial.value))
    assert error.code == 23 and error.summary.entries >= 1
    assert len(error.failures) == 1 and error.failures[0].path.endswith("bad")
    assert (far.root / "partial/good").exists()


def test_clients_are_pickled_and_hide_their_token(far: Far, client: lighthaul.Client) -> None:
    assert pickle.loads(pickle.dumps(client)).ls(far.place()) is not None
    assert "secret" not in repr(lighthaul.Client(token="secret"))


def test_token_is_for_the_daemon(far: Far, tmp_path: Path) -> None:
    client = lighthaul.Client(key=tmp_path / "key", pin=far.pin, token="not.a.token")
    with pytest.raises(lighthaul.Error, match="token"):
        client.ls(far.place())


def test_threads_share_a_client(far: Far, client: lighthaul.Client, tmp_path: Path) -> None:
    source = tree(tmp_path / "source", "a")
    failures: list[BaseException] = []

    def work(nth: int) -> None:
        try:
            client.copy(source / "a", far.place(f"thread-{nth}"))
            assert client.stat(far.place(f"thread-{nth}")).size == 100
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(nth,)) for nth in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_notes_go_to_the_logger(far: Far, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = lighthaul.Client(key=far.folder / "key", known_hosts=tmp_path / "known")
    with caplog.at_level(logging.INFO, "lighthaul"):
        client.ls(far.place())
        client.copy(tree(tmp_path, "x") / "x", far.place("noted"))
    assert any(far.pin in record.getMessage() for record in caplog.records), caplog.text


async def test_copies_are_awaited_side_by_side(far: Far, client: lighthaul.Client, tmp_path: Path) -> None:
    source = tree(tmp_path / "source", "a")
    transfers = [client.start(source / "a", far.place(f"awaited-{nth}")) for nth in range(2)]
    summaries = await asyncio.gather(*transfers)
    assert [summary.entries for summary in summaries] == [1, 1]
    # an ended copy can be awaited again
    assert await transfers[0] == summaries[0]
    with pytest.raises(lighthaul.NotFound):
        await client.start(tmp_path / "absent", far.place("x"))


async def test_cancelled_task_cancels_its_copy(far: Far, client: lighthaul.Client, large: Path) -> None:
    transfer = client.start(large, far.place("task"), rate=SLOW)

    async def copy() -> lighthaul.Summary:
        return await transfer

    task = asyncio.create_task(copy())
    while transfer.progress.done == 0:
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(lighthaul.Cancelled):
        transfer.wait(5)
    assert not (far.root / "task").exists()


def test_transfer_shows_progress_and_ends_with_its_block(far: Far, client: lighthaul.Client, large: Path) -> None:
    with client.start(large, far.place("block")) as transfer:
        assert "lighthaul.Transfer" in repr(transfer)
    assert transfer.is_finished and transfer.progress.done == large.stat().st_size
    with pytest.raises(ZeroDivisionError):
        with client.start(large, far.place("left"), rate=SLOW) as transfer:
            raise ZeroDivisionError
    assert transfer.is_finished and not (far.root / "left").exists()
    waiting = client.start(large, far.place("late"), rate=SLOW)
    with pytest.raises(TimeoutError):
        waiting.wait(0.1)
    waiting.cancel()


def test_tqdm_shows_the_progress(far: Far, client: lighthaul.Client, large: Path) -> None:
    tqdm = pytest.importorskip("tqdm")
    with tqdm.tqdm(unit="B", unit_scale=True) as bar:

        def show(progress: lighthaul.Progress) -> None:
            bar.total = progress.total
            bar.update(progress.done - bar.n)

        client.copy(large, far.place("tqdm"), on_progress=show)
    assert bar.n == bar.total == large.stat().st_size
