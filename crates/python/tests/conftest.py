"""A daemon, and clients with keys of their own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lighthaul

PROGRAM = os.environ["LIGHTHAUL_TEST_PROGRAM"]


@dataclass(frozen=True)
class Far:
    """A daemon on this host, with the directory that it serves."""

    folder: Path
    root: Path
    port: int
    pin: str
    daemon: subprocess.Popen[bytes]

    def place(self, path: str = "") -> str:
        """Return a place in the directory of the daemon."""
        return f"lh://127.0.0.1:{self.port}/{path}"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a client that the daemon allows."""
        return {"key": str(self.folder / "key"), "pin": self.pin, "known_paths": str(self.folder / "paths")}

    def client(self) -> lighthaul.Client:
        """Return a client that the daemon allows."""
        return lighthaul.Client(**self.settings)


@contextmanager
def service(
    words: Iterable[object], folder: Path, environment: dict[str, str], patterns: Iterable[str]
) -> Iterator[tuple[subprocess.Popen[bytes], list[str]]]:
    """Run a service, and kill it at the end. Return it with the first groups of patterns that it prints at its start.

    It prints to a file: a service would wait once nobody reads its pipe, and the pipe is full.
    """
    log = folder / "log"
    with log.open("wb") as output:
        program = subprocess.Popen(
            [PROGRAM, *map(str, words)], env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=output
        )
    try:
        yield program, [_printed(program, log, pattern) for pattern in patterns]
    finally:
        program.kill()
        program.wait()


def _printed(program: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """Wait for a line in which a pattern is, and return the first group."""
    until = time.monotonic() + 60
    while not (found := re.search(pattern + r".*\n", log.read_text())):
        assert program.poll() is None, f"the service has ended: {log.read_text()}"
        assert time.monotonic() < until, f"the service does not print {pattern}: {log.read_text()}"
        time.sleep(0.01)
    return found[1]


@contextmanager
def running(folder: Path, port: int = 0) -> Iterator[Far]:
    """Run a daemon with its files in a directory, at a free port, or again at the port that it had before."""
    root = folder / "root"
    root.mkdir(exist_ok=port != 0)
    # nothing of the user is used
    environment = os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(*words: object) -> str:
        command = [PROGRAM, *map(str, words)]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    key = run("key", "--key", folder / "key")
    if port == 0:
        run("allow", key, "tester", "--allowed", folder / "allowed")
    words = ["--key", folder / "host-key", "--allowed", folder / "allowed", "--root", root]
    patterns = r"listening on \S*:(\d+)", r"this host's key is (sha256:\w+)"
    with service(["serve", "--listen", f"127.0.0.1:{port}", *words], folder, environment, patterns) as (daemon, found):
        yield Far(folder, root, int(found[0]), found[1], daemon)


@pytest.fixture(scope="session")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    with running(tmp_path_factory.mktemp("far")) as found:
        yield found


@pytest.fixture
def client(far: Far) -> lighthaul.Client:
    return far.client()


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of which a copy at SLOW takes some seconds."""
    path = tmp_path_factory.mktemp("large") / "large"
    path.write_bytes(os.urandom(1 << 20) * 24)
    return path


SLOW = "40Mb/s"
