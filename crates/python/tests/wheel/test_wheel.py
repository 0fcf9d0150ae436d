"""The wheel, as a user installs it: without the sources beside it."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

import fsspec

import lighthaul
from conftest import Far

SOURCES = Path("python/lighthaul").resolve()


def test_wheel_has_all_files_of_the_package() -> None:
    package = Path(lighthaul.__file__).parent
    assert package.is_relative_to(sys.prefix) and package != SOURCES
    expected = {path.name for path in SOURCES.iterdir() if path.is_file()}
    found = {path.name for path in package.iterdir() if path.is_file()}
    assert found - expected == {"_lighthaul.abi3.so"} and expected <= found
    assert {"py.typed", "_lighthaul.pyi"} <= found


def test_wheel_names_its_version_and_extras() -> None:
    found = importlib.metadata.metadata("lighthaul")
    assert found["Version"] == os.environ["LIGHTHAUL_TEST_VERSION"]
    assert set(found.get_all("Provides-Extra") or []) == {"fsspec", "numpy", "plot"}


def test_installed_package_copies_and_opens_urls(far: Far, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("bytes")
    assert far.client().copy(tmp_path / "source", far.place("copied")).bytes == 5
    assert (far.root / "copied").read_text() == "bytes"
    # the class is found by the entry point of the package
    with fsspec.open(far.place("copied"), "rb", **far.settings) as file:
        assert file.read() == b"bytes"
