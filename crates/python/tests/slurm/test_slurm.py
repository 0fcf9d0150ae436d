"""burst_buffer.lua with Debian's Slurm: its controller, one node, and jobs of a user who is not root.

The tests have a network namespace of their own, since Slurm needs ports that are known before it starts.
"""

from __future__ import annotations

import datetime
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import PROGRAM, Far, service

TREE = Path(os.environ["LIGHTHAUL_TEST_SLURM"])
"""Packages of Slurm and MUNGE, unpacked."""
LIBRARIES = TREE / "usr/lib/x86_64-linux-gnu"
USER = pwd.getpwnam("nobody")
PATIENCE = 300.0

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=6817
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
BurstBufferType=burst_buffer/lua
DebugFlags=BurstBuffer
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1,bf_resolution=1
ReturnToService=2
MailProg=/bin/true
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=6818 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=n1 Default=YES State=UP
"""


def becomes_true(what: str, check: Callable[[], bool], context: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline, f"{what}:\n{context()}"
        time.sleep(0.1)


@dataclass(frozen=True)
class Slurm:
    """A controller with one node, and the directory of a user."""

    folder: Path
    home: Path

    def run(self, *words: object, user: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm, as root or as the user."""
        command = [str(TREE / "usr/bin" / str(words[0])), *map(str, words[1:])]
        ids = {"user": USER.pw_uid, "group": USER.pw_gid, "extra_groups": []} if user else {}
        return subprocess.run(
            command, env=environment(self.folder), cwd=self.home, capture_output=True, text=True, **ids  # type: ignore[call-overload]
        )

    def submit(self, *lines: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Submit a job script with these lines."""
        script = self.home / f"job-{time.monotonic_ns()}"
        script.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
        return self.run("sbatch", "--parsable", "--output=job-%j.log", *options, script, user=True)

    def job(self, number: str) -> str:
        return self.run("scontrol", "show", "job", number).stdout

    def log(self) -> str:
        logs = [path.read_text(errors="replace")[-6000:] for path in sorted(self.folder.glob("*.log"))]
        return "\n".join([*logs, self.run("squeue", "--long").stdout])

    def ends(self, number: str, state: str) -> None:
        becomes_true(f"job {number} is {state}", lambda: f"JobState={state}" in self.job(number), self.log)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "TZ", "LANG") if name in os.environ}
    kept["PATH"] += f":{TREE / 'usr/bin'}:/usr/sbin:/sbin"
    return kept | {
        "SLURM_CONF": str(folder / "slurm.conf"),
        "LD_LIBRARY_PATH": f"{LIBRARIES}:{LIBRARIES / 'slurm-wlm'}",
        "HWLOC_HIDE_ERRORS": "2",
    }


@pytest.fixture(scope="module")
def slurm(far: Far, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("slurm")
    home = folder / "home"
    for path in (folder / "state", folder / "spool", home):
        path.mkdir()
    # the user needs access to the user's directory and the command
    for path in (folder, folder.parent, folder.parent.parent):
        if path.owner() == "root" and path != Path("/dev/shm"):
            path.chmod(0o711)
    os.chown(home, USER.pw_uid, USER.pw_gid)
    shutil.copy(PROGRAM, folder / "lighthaul-program")
    shutil.copy(far.folder / "key", home / "key")
    os.chown(home / "key", USER.pw_uid, USER.pw_gid)
    wrapper = folder / "lighthaul"
    wrapper.write_text(
        f"#!/bin/sh\n. {folder}/settings\nexport XDG_CONFIG_HOME={home} XDG_CACHE_HOME={home} LIGHTHAUL_KEY={home}/key\n"
        f'exec {folder}/lighthaul-program "$@"\n'
    )
    wrapper.chmod(0o755)
    (folder / "settings").touch()
    trust(folder, f"127.0.0.1:{far.port}", far.pin)

    lua = (Path(__file__).parents[4] / "integrations/slurm/burst_buffer.lua").read_text()
    for name, value in {"PROGRAM": wrapper, "SQUEUE": TREE / "usr/bin/squeue"}.items():
        lua, count = re.subn(rf'^local {name} = ".*"$', f'local {name} = "{value}"', lua, flags=re.MULTILINE)
        assert count == 1
    (folder / "burst_buffer.lua").write_text(lua)
    host = socket.gethostname().partition(".")[0]
    conf = CONF.format(host=host, folder=folder, plugins=LIBRARIES / "slurm-wlm")
    (folder / "slurm.conf").write_text(conf)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    munge = [f"--{name}={folder}/munge.{name.split('-')[0]}" for name in ("key-file", "socket", "pid-file", "seed-file")]
    commands = {
        "munged": ["--foreground", "--force", *munge, f"--log-file={folder}/munge.log"],
        "slurmctld": ["-D", "-c", "-f", folder / "slurm.conf"],
        "slurmd": ["-D", "-N", "n1", "-f", folder / "slurm.conf", "-d", TREE / "usr/sbin/slurmstepd-wlm"],
    }
    started = []
    try:
        for name, words in commands.items():
            # Debian's files have a suffix, and plug-ins compare the name of the process
            files = [TREE / "usr/sbin" / f"{name}{suffix}" for suffix in ("", "-wlm")]
            program = next(path for path in files if path.exists())
            with open(folder / f"{name}.log", "w") as log:
                command = [name, *map(str, words)]
                started.append(
                    subprocess.Popen(
                        command,
                        executable=program,
                        env=environment(folder),
                        cwd=folder,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
            if name == "munged":
                socket_path = folder / "munge.socket"
                becomes_true("munged listens", socket_path.exists, (folder / "munged.log").read_text)
        slurm = Slurm(folder, home)

        def is_idle() -> bool:
            assert all(process.poll() is None for process in started), slurm.log()
            return "idle" in slurm.run("sinfo", "-h", "-o", "%t").stdout

        becomes_true("the node is idle", is_idle, slurm.log)
        yield slurm
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()
        # jobs continue when the daemons stop
        end_jobs(folder)


def end_jobs(folder: Path) -> None:
    """Kill the process groups of daemons and jobs. Daemons start their own sessions, so it is in none of them."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            group = os.getpgid(int(process.name))
            if group != os.getpgrp() and os.fsencode(folder / "slurm.conf") in (process / "environ").read_bytes():
                os.killpg(group, signal.SIGKILL)
        except OSError:
            # the process has ended meanwhile, or belongs to another user
            continue


def trust(folder: Path, host: str, key: str) -> None:
    """Trust the key of a daemon or scheduler, as the user."""
    command = [folder / "lighthaul", "trust", host, key]
    subprocess.run(command, user=USER.pw_uid, group=USER.pw_gid, extra_groups=[], cwd=folder, check=True)


def test_job_has_its_input_and_its_results_are_copied(slurm: Slurm, far: Far) -> None:
    (far.root / "set").mkdir()
    (far.root / "set/a b.txt").write_text("input\n")
    scratch = slurm.home / "scratch"
    submitted = slurm.submit(
        f"#BB_LUA lighthaul in={far.place('set')} target={scratch}/",
        f"#BB_LUA lighthaul out={scratch}/results target={far.place()}",
        "echo $LIGHTHAUL_STAGED",
        f"mkdir {scratch}/results",
        f"tr a-z A-Z <'{scratch}/set/a b.txt' >{scratch}/results/b.txt",
        # a name that looks like the owner of the job
        options=("--job-name=x UserId=root(0) GroupId=root(0)\n 0 0 N/A N/A",),
    )
    number = submitted.stdout.strip()
    assert number.isdigit(), submitted
    slurm.ends(number, "COMPLETED")
    assert (far.root / "results/b.txt").read_text() == "INPUT\n"
    assert (slurm.home / f"job-{number}.log").read_text() == f"{scratch}/\n"
    # the copies belong to the user
    assert (scratch / "set/a b.txt").stat().st_uid == USER.pw_uid


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("in=lh://far/a", "a line needs in= or out=, and target="),
        ("in=lh://far/a target=relative", "relative is not an absolute path of this cluster"),
        ("in=/scratch/a target=/scratch/b", "/scratch/a is not a place of another host"),
        ("in=--rsh=x:y target=/scratch/b", "--rsh=x:y is not a place of another host"),
        ("in=lh://far/a target=/scratch/a speed=high", "not known: speed=high"),
    ],
)
def test_wrong_lines_are_refused_at_submission(slurm: Slurm, line: str, reason: str) -> None:
    submitted = slurm.submit(f"#BB_LUA lighthaul {line}", "true")
    assert submitted.returncode != 0 and reason in submitted.stderr, submitted


def test_failed_copy_holds_the_job_and_says_why(slurm: Slurm, far: Far) -> None:
    number = slurm.submit(
        f"#BB_LUA lighthaul in={far.place('absent')} target={slurm.home}/absent'$(touch${{IFS}}{slurm.home}/injected)", "true"
    ).stdout.strip()
    becomes_true("the job is held", lambda: "no such file or directory" in slurm.job(number), slurm.log)
    assert "JobState=PENDING" in slurm.job(number)
    assert not (slurm.home / "injected").exists()
    slurm.run("scancel", number)


def test_deadline_is_the_estimated_start(slurm: Slurm, far: Far) -> None:
    (far.root / "booked.bin").write_bytes(os.urandom(100_000))
    with scheduler(slurm):
        blocker = slurm.submit("sleep 1000", options=("--time=3",)).stdout.strip()
        slurm.ends(blocker, "RUNNING")
        number = slurm.submit(
            f"#BB_LUA lighthaul in={far.place('booked.bin')} target={slurm.home}/booked.bin book=yes", "true",
            options=("--time=1",),
        ).stdout.strip()
        log = slurm.folder / "slurmctld.log"
        becomes_true("the copy has ended", lambda: f"lighthaul: job {number}: cp" in slurm.log(), slurm.log)
        line = next(line for line in log.read_text().splitlines() if f"lighthaul: job {number}: cp" in line)
        found = re.search(r"cp --book --by '([^']*)' .*status 0", line)
        assert found, slurm.log()
        deadline = datetime.datetime.fromisoformat(found[1])
        # the node is free when the time limit of the first job has passed
        end = re.search(r"EndTime=(\S+)", slurm.job(blocker))
        assert end and abs(deadline - datetime.datetime.fromisoformat(end[1])) < datetime.timedelta(seconds=90)
        assert (slurm.home / "booked.bin").stat().st_size == 100_000
        assert "JobState=PENDING" in slurm.job(number)
        slurm.run("scancel", blocker)
        slurm.ends(number, "COMPLETED")


@contextmanager
def scheduler(slurm: Slurm) -> Iterator[None]:
    """A scheduler for the copies of the user, with one link from the daemon to the cluster."""
    folder, settings = slurm.folder, slurm.folder / "settings"
    (folder / "network.toml").write_text('[[link]]\nfrom = "far"\nto = "near"\ncapacity = "1Gb/s"\nboth = true\n')
    tokens = folder / "tokens"
    command = [PROGRAM, "token", "user", "--role", "user", "--tokens", tokens]
    token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    words = ["scheduler", "--listen", "127.0.0.1:0", "--topology", folder / "network.toml"]
    words += ["--tokens", tokens, "--key", folder / "scheduler-key", "--store", folder / "books"]
    patterns = r"booking at (\S+),", r"this host's key is (sha256:\w+)"
    with service(words, folder, dict(os.environ), patterns) as (_, (url, key)):
        trust(folder, url.removeprefix("https://"), key)
        lines = {
            "LIGHTHAUL_SCHEDULER": url,
            "LIGHTHAUL_SCHEDULER_TOKEN": token,
            "LIGHTHAUL_NODE": "near",
            "LIGHTHAUL_FAR_NODE": "far",
        }
        settings.write_text("".join(f"export {name}={value}\n" for name, value in lines.items()))
        try:
            yield
        finally:
            settings.write_text("")
