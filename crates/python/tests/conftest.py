"""A daemon, and clients with keys of their own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
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
    daemon: subprocess.Popen[str]

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
    daemon = subprocess.Popen(
        [PROGRAM, "serve", "--listen", f"127.0.0.1:{port}", *map(str, words)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert daemon.stderr is not None
        found_port = pin = None
        while found_port is None or pin is None:
            line = daemon.stderr.readline()
            assert line, "the daemon has ended"
            if found := re.search(r"listening on \S*:(\d+)", line):
                found_port = int(found[1])
            if found := re.search(r"this host's key is (sha256:\w+)", line):
                pin = found[1]
        yield Far(folder, root, found_port, pin, daemon)
    finally:
        daemon.kill()
        daemon.wait()


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
