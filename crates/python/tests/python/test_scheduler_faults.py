"""Schedulers that lie, repeated requests, and clients that could reach the wrong scheduler."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import lighthaul
from test_scheduler import Office, office, soon

__all__ = ["office"]


@contextmanager
def answering(answer: Callable[[str], object]) -> Iterator[str]:
    """Run a server that answers each path with this, and return its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()


def test_lists_and_logs_that_repeat_themselves_are_protocol_errors() -> None:
    piece = {"attempt": 1, "seq": 5, "text": "x"}
    with answering(lambda path: [piece] if "log" in path else {"items": [], "next": 5}) as url:
        with pytest.raises(lighthaul.ProtocolError, match="repeats itself"):
            list(lighthaul.Scheduler(url).reservations())
        queue = lighthaul.Queue(url)
        with pytest.raises(lighthaul.ProtocolError, match="repeats itself"):
            list(queue.jobs())
        with pytest.raises(lighthaul.ProtocolError, match="repeats itself"):
            queue.log(1)


def test_key_is_refused_for_a_scheduler_without_tls(office: Office) -> None:
    url = office.url.replace("https://", "http://")
    for kind in (lighthaul.Scheduler, lighthaul.AsyncScheduler, lighthaul.Queue):
        with pytest.raises(lighthaul.UsageError, match="no TLS"):
            kind(url, office.folder / "ada", pin=office.pin)


def test_token_is_not_sent_in_clear_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("secret")
    url = "http://scheduler.example.org:4811"
    for kind in (lighthaul.Scheduler, lighthaul.AsyncScheduler, lighthaul.Queue):
        with pytest.raises(lighthaul.UsageError, match="clear text"):
            kind(url, tmp_path / "token")
        # nothing is sent without a token, and nothing leaves this host
        kind(url)
        kind("http://127.0.0.1:4811", tmp_path / "token")
        with monkeypatch.context() as patch:
            patch.setenv("LIGHTHAUL_SCHEDULER_TOKEN", "secret")
            with pytest.raises(lighthaul.UsageError, match="clear text"):
                kind(url)


async def test_repeated_request_with_its_key_reserves_once(office: Office) -> None:
    client = office.client("bob")
    coroutines = lighthaul.AsyncScheduler(office.url, office.folder / "bob", pin=office.pin)
    start = soon(90)
    one = client.reserve("near", "far", size="1GB", start=start, key="transfer-7")
    assert client.reserve("near", "far", size="1GB", start=start, key="transfer-7").id == one.id
    assert (await coroutines.reserve("near", "far", size="1GB", start=start, key="transfer-7")).id == one.id
    other = client.reserve("near", "far", size="1GB", start=start)
    assert other.id != one.id
    with pytest.raises(lighthaul.Error, match="another request"):
        client.reserve("near", "far", size="2GB", start=start, key="transfer-7")
    for which in (one, other):
        client.cancel(which)


def test_integers_can_be_those_of_numpy(office: Office) -> None:
    client = office.client()
    rate = np.int64(5 * 10**8)
    options: dict[str, Any] = {"size": np.int64(10**9), "rate_max": rate, "priority": np.int64(2)}
    one = client.reserve("near", "far", start=soon(95), **options)
    assert (one.size, one.request["priority"]) == (10**9, 2)
    assert client.calendar("near-far", one.steps.starts[0], one.steps.ends[-1]).free.at(one.steps[0].start) == rate
    assert client.modify(np.int64(one.id), size=np.int64(2 * 10**9)).size == 2 * 10**9  # type: ignore[arg-type]
    client.cancel(one)


def test_wait_refuses_a_timeout_that_is_no_number(office: Office) -> None:
    with pytest.raises(ValueError, match="no number"):
        office.client().wait(1, timeout=math.nan)


def test_child_process_never_uses_the_connection_of_its_parent(office: Office, tmp_path: Path) -> None:
    token = tmp_path / "token"
    shutil.copy(office.folder / "ada", token)
    client = lighthaul.Scheduler(office.url, token, pin=office.pin)
    assert client.topology()
    child = os.fork()
    if child == 0:
        # it cannot make a client of its own
        refused = 0
        try:
            token.unlink()
            for _ in range(3):
                try:
                    client.topology()
                except lighthaul.Error:
                    refused += 1
        finally:
            os._exit(refused)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3
