"""Data libraries that read and write lh:// as any other URL."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator

import dask.bag
import dask.dataframe
import fsspec
import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest
import xarray as xr
import zarr

from conftest import Far

SEED = 5


@pytest.fixture(autouse=True, scope="module")
def _settings(far: Far) -> Iterator[None]:
    """Use the test's key for all URLs, also in child processes."""
    fsspec.config.conf["lh"] = far.settings
    os.environ["FSSPEC_LH"] = json.dumps(far.settings)
    yield
    del fsspec.config.conf["lh"], os.environ["FSSPEC_LH"]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(SEED)
    return pd.DataFrame(
        {"x": rng.random(50_000), "y": rng.integers(0, 9, 50_000), "name": [f"row {nth}" for nth in range(50_000)]}
    )


def test_xarray_and_zarr(far: Far) -> None:
    rng = np.random.default_rng(SEED)
    data = xr.Dataset(
        {"t": (("time", "cell"), rng.random((60, 5_000))), "mask": (("cell",), rng.integers(0, 2, 5_000))},
        coords={"time": np.arange(60)},
    )
    url = far.place("field.zarr")
    data.chunk({"time": 1, "cell": 2_500}).to_zarr(url)
    xr.testing.assert_identical(xr.open_zarr(url).load(), data)
    xr.testing.assert_identical(xr.open_dataset(url, engine="zarr", chunks={}).isel(time=7).compute(), data.isel(time=7))
    later = data.assign_coords(time=np.arange(60, 120))
    later.to_zarr(url, append_dim="time")
    assert xr.open_zarr(url).sizes["time"] == 120


def test_zarr_reads_shards_and_deletes(far: Far) -> None:
    url = far.place("shards.zarr")
    values = np.random.default_rng(SEED).integers(0, 1 << 30, (400, 100))
    array = zarr.create_array(url, shape=values.shape, chunks=(10, 100), shards=(100, 100), dtype=values.dtype)
    array[:] = values
    # chunks of a shard are ranges of its file, and the index is at the end
    assert (zarr.open_array(url, mode="r")[95:205:3] == values[95:205:3]).all()
    array.resize((100, 100))
    assert (zarr.open_array(url, mode="r")[:] == values[:100]).all()
    with pytest.raises(FileNotFoundError):
        zarr.open_array(far.place("absent.zarr"), mode="r")


def test_pandas_and_pyarrow(far: Far, table: pd.DataFrame) -> None:
    parquet, text = far.place("table.parquet"), far.place("table.csv.gz")
    table.to_parquet(parquet, row_group_size=10_000)
    pd.testing.assert_frame_equal(pd.read_parquet(parquet), table)
    few = pd.read_parquet(parquet, columns=["x"], filters=[("x", "<", 0.01)])
    assert list(few.columns) == ["x"] and 0 < len(few) < 1_000
    table.to_csv(text, index=False)
    pd.testing.assert_frame_equal(pd.read_csv(text), table)
    fs, path = fsspec.url_to_fs(parquet)
    found = pyarrow.dataset.dataset(path, filesystem=fs).to_table(columns=["y"])
    assert found.to_pandas()["y"].equals(table["y"])


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask(far: Far, table: pd.DataFrame, scheduler: str) -> None:
    folder = far.place(f"dask-{scheduler}")
    frame = dask.dataframe.from_pandas(table, npartitions=4)
    with dask.config.set(scheduler=scheduler, num_workers=2):
        frame.to_parquet(f"{folder}/table")
        assert dask.dataframe.read_parquet(f"{folder}/table")["y"].sum().compute() == table["y"].sum()
        frame.to_csv(f"{folder}/part-*.csv", index=False)
        # blocks begin in the middle of files
        read = dask.dataframe.read_csv(f"{folder}/part-*.csv", blocksize=100_000)
        assert read.npartitions > 4 and read["x"].max().compute() == table["x"].max()
        assert dask.bag.read_text(f"{folder}/part-*.csv").count().compute() == len(table) + 4


def test_many_readers_share_requests(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that zarr reads at the same time are sent in few requests."""
    values = np.arange(3_000)
    zarr.create_array(far.place("small.zarr"), data=values, chunks=(10,), compressors=None)
    fs, path = fsspec.url_to_fs(far.place("small.zarr"))
    batches: list[int] = []
    files = fs._files(False)

    class Counting:
        def cat_each(self, ranges: list[object], take: object) -> None:
            batches.append(len(ranges))
            files.cat_each(ranges, take)

    monkeypatch.setattr(fs, "_files", lambda _: Counting())

    async def read() -> list[bytes]:
        return await asyncio.gather(*(fs._cat_file(f"{path}/c/{nth}") for nth in range(300)))

    found = fsspec.asyn.sync(fs.loop, read)
    assert b"".join(found) == values.tobytes()
    assert batches == [300]


class Broken:
    """Value that cannot be written."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def test_failed_table_of_pandas_keeps_the_old_file(far: Far, table: pd.DataFrame) -> None:
    url = far.place("table-old.csv")
    table.to_csv(url)
    old = (far.root / "table-old.csv").read_bytes()
    broken = pd.DataFrame({"x": [*range(200_000), Broken()]}, dtype=object)
    with pytest.raises(ZeroDivisionError):
        broken.to_csv(url)
    assert (far.root / "table-old.csv").read_bytes() == old
