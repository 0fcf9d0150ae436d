"""Compares streams of NumPy arrays of 1 MiB with those of a program in Rust, in the lab:

    cargo build --release -p lighthaul --example stream_rate
    lighthaul lab run --kind veth -- python3 crates/python/examples/stream_arrays.py target/release/examples/stream_rate

It needs the packages lighthaul and numpy. The command lighthaul must be in PATH. Objects are sent to a pipe, and received
from a file in memory. Times are from the request of a stream to its end. Both programs take turns.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import lighthaul

OBJECT = 1 << 20
PORT = 4810
DELAY = 0.05


@contextmanager
def daemon(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a daemon on the host b. Yield the settings of a client."""
    program = shutil.which("lighthaul")
    assert program is not None, "the command lighthaul is not in PATH"

    def run(*words: object) -> str:
        return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout.strip()

    key = run(program, "key", "--key", folder / "key")
    run(program, "allow", key, "tester", "--allowed", folder / "allowed")
    serve = ["serve", "--key", folder / "host-key", "--allowed", folder / "allowed", "--root", folder / "root"]
    with open(folder / "log", "w") as log:
        started = subprocess.Popen([program, "lab", "on", "b", "--", program, *map(str, serve)], stderr=log)
    try:
        while (found := re.search(r"this host's key is (sha256:\w+)", (folder / "log").read_text())) is None:
            assert started.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield {"key": str(folder / "key"), "pin": found[1], "known_paths": str(folder / "paths")}
    finally:
        started.terminate()
        started.wait()


def send(client: lighthaul.Client, place: str, count: int, options: lighthaul.StreamOptions) -> float:
    array = np.full(OBJECT // 8, 7.0)
    begin = time.monotonic()
    with client.send_stream(place, **options) as stream:
        for _ in range(count):
            stream.send(array)
    return time.monotonic() - begin


def receive(client: lighthaul.Client, place: str, count: int, options: lighthaul.StreamOptions) -> float:
    array = np.empty(OBJECT // 8)
    begin = time.monotonic()
    with client.receive_stream(place, **options) as stream:
        received = 0
        while stream.recv_into(array) is not None:
            received += 1
        assert received == count
        stream.finish()
    return time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="the built example stream_rate")
    parser.add_argument("--count", type=int, default=1000, help="objects of a run")
    parser.add_argument("--per-second", type=float, default=300, help="objects a second that are planned, for udp")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--carrier", choices=("udp", "tcp"), default="tcp", help="tcp sends as fast as it can")
    given = parser.parse_args()
    options: lighthaul.StreamOptions = {
        "object_size": OBJECT,
        "objects_per_second": given.per_second,
        "delay": DELAY,
        "no_udp": given.carrier == "tcp",
    }
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        root = folder / "root"
        root.mkdir()
        os.mkfifo(root / "pipe")
        with open(root / "file", "wb") as file:
            for _ in range(given.count):
                file.write(OBJECT.to_bytes(4, "big") + bytes(OBJECT))
        with daemon(folder) as settings:
            client = lighthaul.Client(**settings)
            print(f"{'objects of 1 MiB, ' + given.carrier:24} {'Python':>9} {'Rust':>9} {'ratio':>7}")
            for direction, work, path in (("to", send, "pipe"), ("from", receive, "file")):
                place = f"lh://b:{PORT}/{path}"
                words = [given.program, direction, place, given.count, given.per_second]
                words += [settings["key"], settings["pin"], given.carrier]
                ours, theirs = [], []
                for _ in range(given.runs):
                    with reader(root / path, direction):
                        ours.append(work(client, place, given.count, options))
                    with reader(root / path, direction):
                        done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
                        theirs.append(float(done.stdout))
                rates = [given.count * OBJECT * 8 / statistics.median(times) / 1e9 for times in (ours, theirs)]
                print(f"{direction:24} {rates[0]:4.2f} Gb/s {rates[1]:4.2f} Gb/s {rates[0] / rates[1]:7.2f}", flush=True)


@contextmanager
def reader(path: Path, direction: str) -> Iterator[None]:
    """Run a program that reads the pipe of a stream that is sent."""
    if direction == "from":
        yield
        return
    with open(os.devnull, "w") as nothing, subprocess.Popen(["cat", str(path)], stdout=nothing) as started:
        yield
        started.wait(60)


if __name__ == "__main__":
    main()
