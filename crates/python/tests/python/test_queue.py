"""Jobs at a scheduler of this host, and a worker that runs them."""

from __future__ import annotations

import datetime
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import lighthaul
from conftest import PROGRAM, Far, service


@dataclass(frozen=True)
class Desk:
    """A scheduler with a queue."""

    folder: Path
    url: str

    def queue(self, name: str) -> lighthaul.Queue:
        """Return the queue for the user of this name."""
        return lighthaul.Queue(self.url, self.folder / name)

    def work(self, far: Far) -> None:
        """Run all jobs."""
        variables = {
            "LIGHTHAUL_QUEUE": str(self.folder / "jobs.db"),
            "LIGHTHAUL_KEY": str(far.folder / "key"),
            "LIGHTHAUL_PIN": far.pin,
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        words = [PROGRAM, "jobs", "work", "--until-empty"]
        subprocess.run(words, env=os.environ | variables, check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def desk(far: Far, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    environment = os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}
    for name, role in (("ada", "user"), ("olga", "operator")):
        words = [PROGRAM, "token", name, "--role", role, "--tokens", str(folder / "tokens")]
        token = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
        (folder / name).write_text(token)
    (folder / "network.toml").write_text('[[link]]\nfrom = "a"\nto = "b"\ncapacity = "1Gb/s"\n')
    rules = f'[identity.ada]\njob_sources = ["{far.place("shared/")}"]\njob_targets = ["{far.place("home/{user}/")}"]\n'
    (folder / "policy.toml").write_text(rules)
    files = {"topology": "network.toml", "policy": "policy.toml", "jobs": "jobs.db", "store": "books"}
    files |= {"tokens": "tokens", "key": "host-key"}
    options = [word for name, file in files.items() for word in (f"--{name}", str(folder / file))]
    words = ["scheduler", "--no-tls", "--listen", "127.0.0.1:0", *options]
    with service(words, folder, environment, [r"booking at (\S+),"]) as (_, (url,)):
        yield Desk(folder, url)


def test_job_is_submitted_run_and_awaited(far: Far, desk: Desk) -> None:
    (far.root / "shared/data").mkdir(parents=True)
    (far.root / "shared/data/x").write_bytes(b"content")
    (far.root / "home/ada").mkdir(parents=True)
    queue = desk.queue("ada")
    job = queue.submit(far.place("shared/data"), far.place("home/ada/"), name="nightly", exclude=["*.tmp"])
    assert (job.state, job.owner, job.name) == ("queued", "ada", "nightly")
    assert job.submitted.tzinfo is not None and not job.has_ended
    second = queue.submit([far.place("shared/data/x")], far.place("home/ada/y"), after=[job])
    assert second.state == "waiting"
    with pytest.raises(lighthaul.TimedOut):
        job.wait(0.1, interval=0.05)
    following = second.follow()
    assert next(following).state == "waiting"
    desk.work(far)
    done = job.wait(60)
    assert (done.state, done.exit, done.bytes) == ("done", 0, 7)
    assert second.wait(60).state == "done"
    assert (far.root / "home/ada/data/x").read_bytes() == b"content"
    assert [event.state for event in job.events()] == ["queued", "running", "done"]
    assert '"type":"summary"' in job.log()
    # the iterator has waited meanwhile, and ends with the job
    assert [event.state for event in following] == ["queued", "running", "done"]
    assert [event.seq for event in queue.follow(job.id, after=1)] == [2, 3]


def test_job_is_canceled_retried_and_listed(far: Far, desk: Desk) -> None:
    queue = desk.queue("ada")
    late = datetime.datetime.now() + datetime.timedelta(days=1)
    job = queue.submit(far.place("shared/data"), far.place("home/ada/"), at=late, every="1d", key="k")
    assert job.state == "waiting" and abs(job.at - late.astimezone(datetime.timezone.utc)) < datetime.timedelta(seconds=1)
    again = queue.submit(far.place("shared/data"), far.place("home/ada/"), at=late, every="1d", key="k")
    assert again.id == job.id
    assert job.cancel().state == "canceled"
    assert job.id in [one.id for one in queue.jobs(states=["canceled"])]
    assert job.retry().state == "queued"
    queue.cancel(job.id)
    assert all(one.owner == "ada" for one in queue.jobs())
    assert job.id in [one.id for one in desk.queue("olga").jobs(owner="ada")]


def test_job_books_by_a_time(far: Far, desk: Desk) -> None:
    queue = desk.queue("ada")
    places = (far.place("shared/data"), far.place("home/ada/"))
    by = datetime.datetime(2031, 5, 1, 6, tzinfo=datetime.timezone.utc)
    job = queue.submit(*places, book=True, by=by)
    assert job.command[2:4] == ("--book", "--by=2031-05-01T06:00:00Z")
    job.cancel()
    with pytest.raises(lighthaul.UsageError, match="by needs book"):
        queue.submit(*places, by=by)
    with pytest.raises(lighthaul.UsageError, match="every has no by"):
        queue.submit(*places, book=True, by=by, every="1d")


def test_refusals_are_exceptions(far: Far, desk: Desk) -> None:
    queue = desk.queue("ada")
    with pytest.raises(lighthaul.UsageError, match="local paths"):
        queue.submit("/etc/hostname", far.place("home/ada/"))
    with pytest.raises(lighthaul.PermissionDenied, match="policy"):
        queue.submit(far.place("shared/data"), far.place("home/bob/"))
    with pytest.raises(lighthaul.UsageError, match="not yours"):
        queue.job(99999)
    with pytest.raises(ValueError, match="no state"):
        list(queue.jobs(states=["lost"]))
    with pytest.raises(TypeError):
        queue.submit(far.place("shared/data"), far.place("home/ada/"), exclude="*.tmp")
    with pytest.raises(lighthaul.NetworkError):
        lighthaul.Queue("http://127.0.0.1:1", desk.folder / "ada").job(1)
