"""The Airflow provider, with Airflow's paths and its search for providers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import get_fs, has_fs
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from conftest import Far
from lighthaul.fsspec import LighthaulFileSystem


@pytest.fixture(autouse=True)
def _connection(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "lighthaul", "host": "127.0.0.1", "port": far.port, "extra": far.settings}
    monkeypatch.setenv("AIRFLOW_CONN_FAR", json.dumps(fields))


def test_airflow_finds_the_provider() -> None:
    assert "airflow_provider_lighthaul.fs" in ProvidersManagerTaskRuntime().filesystem_module_names
    assert has_fs("lh")


def test_paths_of_a_connection_read_and_write(far: Far, tmp_path: Path) -> None:
    base = ObjectStoragePath(f"lh://far@127.0.0.1:{far.port}/airflow")
    path = base / "day" / "a.txt"
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        file.write("text\n")
    assert (far.root / "airflow/day/a.txt").read_text() == "text\n"
    assert path.read_text() == "text\n" and path.size() == 5 and path.stat().st_size == 5
    assert path.exists() and not (base / "absent").exists()
    assert [found.name for found in (base / "day").iterdir()] == ["a.txt"]
    assert [found.name for found in base.glob("**/*.txt")] == ["a.txt"]
    path.copy(ObjectStoragePath(f"file://{tmp_path}/copied.txt"))
    assert (tmp_path / "copied.txt").read_text() == "text\n"
    ObjectStoragePath(f"file://{tmp_path}/copied.txt").copy(base / "back.txt")
    (base / "back.txt").copy(base / "third.txt")
    assert (base / "third.txt").read_block(1, 2) == b"ex"
    (base / "third.txt").unlink()
    assert not (base / "third.txt").exists()
    key = path.ukey()
    path.write_text("other")
    assert path.ukey() != key


def test_host_is_that_of_the_connection(far: Far) -> None:
    fs = get_fs("lh", "far")
    assert isinstance(fs, LighthaulFileSystem) and fs.fsid == f"lh://127.0.0.1:{far.port}/"
    assert isinstance(get_fs("lh", None, {"host": "other"}), LighthaulFileSystem)
    with pytest.raises(ValueError, match="lh://CONNECTION@HOST/PATH"):
        get_fs("lh", None)
