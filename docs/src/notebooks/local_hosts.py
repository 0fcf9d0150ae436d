"""A daemon and a scheduler on this host, for the notebooks. They end with the notebook.

The command `lighthaul` must be in PATH. Keys, tokens and files are in a temporary directory.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lighthaul


@dataclass
class Daemon:
    """A daemon, with the directory that it serves."""

    folder: Path
    port: int
    key: str

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a client that the daemon allows."""
        return {"key": self.folder / "key", "pin": self.key, "known_paths": self.folder / "paths"}

    def client(self) -> lighthaul.Client:
        """Return a client that the daemon allows."""
        return lighthaul.Client(**self.settings)

    def place(self, path: str = "") -> str:
        """Return a place in the directory of the daemon."""
        return f"lh://127.0.0.1:{self.port}/{path}"


def start_daemon() -> Daemon:
    """Start a daemon."""
    folder, environment = _folder()
    key = _run(environment, "key", "--key", folder / "key")
    _run(environment, "allow", key, "reader", "--allowed", folder / "allowed")
    (folder / "root").mkdir()
    files = ["--key", folder / "host-key", "--allowed", folder / "allowed", "--root", folder / "root"]
    patterns = (r"listening on \S*:(\d+)", r"this host's key is (sha256:\w+)")
    port, shown = _start(environment, patterns, "serve", "--listen", "127.0.0.1:0", *files)
    return Daemon(folder, int(port), shown)


def start_scheduler(network: str) -> lighthaul.Scheduler:
    """Start a scheduler of a network in TOML, and return the client of a user."""
    folder, environment = _folder()
    (folder / "network.toml").write_text(network)
    token = _run(environment, "token", "ada", "--role", "user", "--tokens", folder / "tokens")
    (folder / "token").write_text(token)
    files = ["--topology", folder / "network.toml", "--store", folder / "books", "--tokens", folder / "tokens"]
    patterns = (r"booking at (\S+),",)
    (url,) = _start(environment, patterns, "scheduler", "--no-tls", "--listen", "127.0.0.1:0", *files)
    return lighthaul.Scheduler(url, folder / "token")


def _folder() -> tuple[Path, dict[str, str]]:
    folder = Path(tempfile.mkdtemp(prefix="lighthaul-notebook-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # nothing of the user is used
    return folder, os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}


def _run(environment: dict[str, str], *words: object) -> str:
    command = ["lighthaul", *map(str, words)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def _start(environment: dict[str, str], patterns: tuple[str, ...], *words: object) -> list[str]:
    """Start a service that ends with this process, and return what it says of itself."""
    command = ["setpriv", "--pdeathsig", "KILL", "lighthaul", *map(str, words)]
    log = environment["XDG_CONFIG_HOME"] + ".log"
    with open(log, "w") as file:
        service = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    atexit.register(service.kill)
    while True:
        text = Path(log).read_text()
        found = [re.search(pattern, text) for pattern in patterns]
        if all(found):
            return [one[1] for one in found if one]
        try:
            service.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"the service has ended:\n{text}")
