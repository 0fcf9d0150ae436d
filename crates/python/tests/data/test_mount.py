"""Libraries that know nothing of Lighthaul and read a mount: HDF5, and archives whose directory is at the end."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import PROGRAM, Far

SEED = 7


@pytest.fixture(scope="module")
def mounted(far: Far, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Directory on which the directory of the daemon is mounted."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("mounting needs root and /dev/fuse")
    folder = tmp_path_factory.mktemp("mount")
    words = [PROGRAM, "mount", far.place(), str(folder), "--read-only", "--key", str(far.folder / "key"), "--pin", far.pin]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        try:
            line = program.stderr.readline()
            if "built without mounts" in line:
                pytest.skip("the program was built without mounts")
            assert line.startswith("mounted "), line
            yield folder
        finally:
            program.terminate()
            program.wait()


def test_hdf5_reads_parts_of_arrays(far: Far, mounted: Path) -> None:
    rng = np.random.default_rng(SEED)
    waves = rng.integers(0, 1000, (500, 400), dtype="i4")
    with h5py.File(far.root / "run.h5", "w") as file:
        file.create_dataset("waves", data=waves, chunks=(50, 100), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("plain", data=waves.astype("f8"))
        file.create_group("meta").attrs["site"] = "far"
    # several readers have the file open, and none reads all of it
    with h5py.File(mounted / "run.h5", "r") as one, h5py.File(mounted / "run.h5", "r") as two:
        assert one["meta"].attrs["site"] == "far" and list(one) == ["meta", "plain", "waves"]
        assert (one["waves"][123:321:7, 390:] == waves[123:321:7, 390:]).all()
        assert (two["plain"][:, 5] == waves[:, 5]).all()
        assert (one["waves"][:] == two["waves"][:]).all()


def test_program_that_seeks_reads_an_archive_from_its_end(far: Far, mounted: Path) -> None:
    rng = np.random.default_rng(SEED)
    parts = {f"part-{nth}": rng.bytes(200_000) for nth in range(20)}
    with zipfile.ZipFile(far.root / "parts.zip", "w", zipfile.ZIP_STORED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with zipfile.ZipFile(mounted / "parts.zip") as archive:
        for name in reversed(archive.namelist()):
            with archive.open(name) as part:
                part.seek(150_000)
                assert part.read(1000) == parts[name][150_000:151_000]
        assert archive.testzip() is None
