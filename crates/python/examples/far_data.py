"""Compares reads of remote data over lh:// and sftp://, in the lab:

    lighthaul lab run --rate 1Gb/s --rtt 100ms -- python3 crates/python/examples/far_data.py

It needs the packages xarray, zarr, pandas, pyarrow and paramiko, and sshd. The command lighthaul must be in PATH. Files
for both are small, since sftp:// needs minutes for them. --large is the size of the file that is scanned and copied.
"""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import xarray as xr

import lighthaul

RANGES, RANGE = 1000, 64 << 10
CHUNK = 1 << 20
PORT = 4810
SSH_PORT = 2222


@contextmanager
def servers(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a daemon and sshd on the host b. Yield the settings of a client."""
    program = shutil.which("lighthaul")
    assert program is not None, "the command lighthaul is not in PATH"
    root = folder / "root"

    def run(*words: object) -> str:
        return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout.strip()

    key = run(program, "key", "--key", folder / "key")
    run(program, "allow", key, "tester", "--allowed", folder / "allowed")
    for name in ("ssh-host", "ssh-user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    shutil.copy(folder / "ssh-user.pub", folder / "authorized")
    sshd = ["-D", "-e", "-f", "/dev/null", "-h", folder / "ssh-host", "-p", SSH_PORT]
    sshd += ["-o", f"AuthorizedKeysFile={folder}/authorized", "-o", "StrictModes=no", "-o", "UsePAM=no"]
    sshd += ["-o", "Subsystem=sftp internal-sftp", "-o", "PidFile=none"]
    Path("/run/sshd").mkdir(exist_ok=True)
    serve = ["serve", "--key", folder / "host-key", "--allowed", folder / "allowed", "--root", root]
    on_b = [program, "lab", "on", "b", "--"]
    commands = [[*on_b, program, *serve], [*on_b, "/usr/sbin/sshd", *sshd]]
    started = []
    try:
        with open(folder / "log", "w") as log:
            for command in commands:
                started.append(subprocess.Popen(list(map(str, command)), stderr=log))
        pin = None
        while pin is None or "Server listening" not in (folder / "log").read_text():
            assert all(process.poll() is None for process in started), (folder / "log").read_text()
            found = re.search(r"this host's key is (sha256:\w+)", (folder / "log").read_text())
            pin = found and found[1]
            time.sleep(0.1)
        yield {"key": str(folder / "key"), "pin": pin, "known_paths": str(folder / "paths")}
    finally:
        for process in started:
            process.terminate()
            process.wait()


def timed(work: Callable[[], object]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def fresh(url: str) -> tuple[Any, str]:
    """Return a file system with its own connections, and the path."""
    fsspec.get_filesystem_class("lh").clear_instance_cache()
    fsspec.get_filesystem_class("sftp").clear_instance_cache()
    found: tuple[Any, str] = fsspec.url_to_fs(url)
    return found


def read_field(url: str) -> None:
    fresh(url)
    xr.open_zarr(url, chunks=None).load()


def read_table(url: str) -> None:
    fresh(url)
    pd.read_parquet(url)


def read_ranges(url: str, count: int) -> None:
    fs, path = fresh(url)
    read_some(fs, path, fs.size(path), count)


def read_some(fs: Any, path: str, size: int, count: int) -> None:
    apart = (size - RANGE) // count
    # not in the order of the file
    starts = [nth * 7 % count * apart for nth in range(count)]
    found = fs.cat_ranges([path] * count, starts, [start + RANGE for start in starts])
    assert all(len(data) == RANGE for data in found)


def scan(url: str) -> None:
    fs, path = fresh(url)
    with fs.open(path, "rb") as file:
        while file.read(CHUNK):
            pass


def write_data(root: Path, small: int, large: int) -> None:
    rng = np.random.default_rng(1)
    for name, size in (("small", small), ("large", large)):
        values = rng.random((size // CHUNK, CHUNK // 8))
        field = xr.Dataset({"t": (("time", "cell"), values)})
        field.chunk({"time": 1}).to_zarr(root / f"{name}.zarr", encoding={"t": {"compressors": None}})
        table = pd.DataFrame({f"c{nth}": values.reshape(-1, 8)[:, nth] for nth in range(8)})
        table.to_parquet(root / f"{name}.parquet", compression=None, row_group_size=1 << 20)
        (root / f"{name}.bin").write_bytes(values.tobytes())


def mebibytes(text: str) -> int:
    return int(text) << 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", type=mebibytes, default=mebibytes("16"), help="MiB that sftp:// reads, too")
    parser.add_argument("--large", type=mebibytes, default=mebibytes("512"), help="MiB that lh:// reads and copies")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        root = folder / "root"
        root.mkdir()
        write_data(root, options.small, options.large)
        with servers(folder) as settings:
            fsspec.config.conf["lh"] = settings
            fsspec.config.conf["sftp"] = {
                "username": getpass.getuser(),
                "key_filename": str(folder / "ssh-user"),
                "port": SSH_PORT,
                "look_for_keys": False,
            }
            measure(options, root, folder, settings)


def measure(options: argparse.Namespace, root: Path, folder: Path, settings: dict[str, Any]) -> None:
    client = lighthaul.Client(**settings)
    lh, sftp = f"lh://b:{PORT}/", f"sftp://b{root}/"
    print(f"{'ranges of 64 KiB, cat_ranges':42} {'lh://':>9} {'sftp://':>9} {'ratio':>7}")
    few = RANGES // 50
    print_row(f"{few} ranges, new session", lambda: read_ranges(f"{lh}small.bin", few), lambda: read_ranges(f"{sftp}small.bin", few))
    print_row(f"{RANGES} ranges, new session", lambda: read_ranges(f"{lh}large.bin", RANGES))
    fs, path = fresh(f"{lh}large.bin")
    fs.size(path)
    for nth in ("first", "second", "third"):
        print_row(f"{RANGES} ranges, {nth} in a session", lambda: read_some(fs, path, options.large, RANGES))
    small = f"{options.small >> 20} MiB"
    # zarr cannot open sftp://, since that file system is not asynchronous
    print_row(f"{small} in chunks of 1 MiB, xarray + zarr", lambda: read_field(f"{lh}small.zarr"))
    print_row(f"{small}, pandas + pyarrow", lambda: read_table(f"{lh}small.parquet"), lambda: read_table(f"{sftp}small.parquet"))
    print_row(f"{small}, read from beginning to end", lambda: scan(f"{lh}small.bin"), lambda: scan(f"{sftp}small.bin"))

    large = f"{options.large >> 20} MiB"
    print(f"\n{large + ' from beginning to end':42} {'lh://':>9} {'copy':>9} {'ratio':>7} {'local':>9}")
    works: dict[str, tuple[Callable[[str], None], str]] = {
        "file object": (scan, "large.bin"),
        "pandas + pyarrow": (read_table, "large.parquet"),
        "xarray + zarr, chunks of 1 MiB": (read_field, "large.zarr"),
    }
    for name, (work, path) in works.items():
        target = folder / "copy"
        copied = timed(lambda: client.copy(f"{lh}{path}", str(target), exact=True))
        shutil.rmtree(target) if target.is_dir() else os.unlink(target)
        read = timed(lambda: work(lh + path))
        local = timed(lambda: work(f"file://{root / path}"))
        print(f"{name:42} {read:7.2f} s {copied:7.2f} s {read / copied:7.2f} {local:7.2f} s", flush=True)


def print_row(name: str, ours: Callable[[], object], theirs: Callable[[], object] | None = None) -> None:
    one = timed(ours)
    other = ""
    if theirs is not None:
        two = timed(theirs)
        other = f" {two:7.2f} s {two / one:7.1f}"
    print(f"{name:42} {one:7.2f} s{other}", flush=True)


if __name__ == "__main__":
    main()
