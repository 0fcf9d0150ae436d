#!/usr/bin/env python3
"""Driver for Lighthaul that makes circuits in a switch or router with NETCONF and the OpenConfig model of QoS.

A change is made under locks: read the configuration, edit the candidate, commit with a confirmation in time, read the
configuration again, confirm. If the connection is lost before that, the device itself takes the change back:

    lock  get-config  edit-config...  commit (confirmed)  get-config  commit  unlock
                                      |-- lost: the device restores --|

Devices without a candidate are edited directly. All changes of a request are one commit; if the device refuses it, each
change is committed alone. Needs Python 3.11 and ssh of OpenSSH. Lines are described in
crates/circuit/schema/driver.v1.json.
"""

import argparse
import contextlib
import json
import re
import shlex
import sys
import time

from flow import rate
from netconf import Locked, Refused, Session, Silent, Unreachable, element, shown
from openconfig import Flow, Names, State, request_filter

VERSION = 1
LINE_MAX = 16 << 20
LOCK_PAUSE = 0.1  # seconds between two attempts to lock
TRIES = 3  # sessions of a request until one answers


class Device:
    """Device of the driver. Each call can be repeated, and a change that is in force succeeds."""

    def __init__(self, settings):
        self.settings, self.names = settings, settings.names
        self.session = self.deadline = None

    def begin(self):
        """Begin a request, with a new time limit."""
        self.deadline = time.monotonic() + self.settings.timeout

    def end(self):
        """End the session, as after a lost connection."""
        if self.session:
            self.session.close()
        self.session = None

    def list(self):
        """Return the circuits of the running configuration.

        The device may still take back the commit of an earlier session. So the configuration is read under a lock. If
        another session holds it longer than a commit may wait for its confirmation, the lock is not needed.
        """
        try:
            with self._locks(time.monotonic() + self.settings.confirm + 1):
                return self._read().circuits()
        except Refused:
            return self._read().circuits()

    def apply(self, changes):
        """Make changes, and return their results. Each is the number of a circuit, and a function of the state that
        returns its objects."""
        results, again = {}, []
        try:
            with self._locks(self.deadline - self.settings.timeout / 2):
                make = self._commit_all if self.session.has("candidate") else self._edit_running
                again = make(changes, results)
        except Refused as why:
            rest = {"fault": "refused", "reason": str(why)}
        except Unreachable as why:
            self.end()
            rest = {"fault": "unreachable", "reason": str(why)}
        for index in again:
            results[index] = self.apply([changes[index]])[0]
        return [results[index] if index in results else rest for index in range(len(changes))]

    def set(self, number, text, rate_bps):
        """Return the change of a circuit to a rate. Zero: it exists, and takes no packets."""

        def wanted(state):
            flow, most = Flow.parse(text), self.settings.rate_max
            low, unit = self.settings.rate_min, self.settings.granularity
            if rate_bps and (not low <= rate_bps <= most or rate_bps % unit):
                raise Refused(f"the driver cannot set a rate of {rate_bps} b/s")
            if number not in state.objects and len(state.objects) >= self.settings.circuits:
                raise Refused("the device has its maximum of circuits")
            if rate_bps and rate_bps + sum(state.rate(one) for one in state.objects if one != number) > most:
                raise Refused("the sum of all rates is above --rate-max")
            if rate_bps:
                state.check_bound(flow)
            return state.wanted(number, flow, rate_bps)

        return number, wanted

    def remove(self, number):
        """Return the change that removes a circuit. It succeeds if there is none."""
        return number, lambda state: {}

    def _connect(self, part):
        """Begin a session unless there is one, in a part of the time that is left."""
        if self.session and self.session.is_alive():
            return
        self.end()
        now = time.monotonic()
        self.session = Session(self.settings.command, now + (self.deadline - now) * part)

    @contextlib.contextmanager
    def _locks(self, patience):
        """Hold the locks that changes need. If one is not given until `patience`, raise the refusal of the device."""
        held = []
        try:
            for datastore in self._begin():
                self._lock(datastore, patience)
                held.append(datastore)
            yield
        finally:
            self._unlock(held)

    def _begin(self):
        """Return the datastores to lock, with a session that answers.

        A lock of the running configuration is not needed if only a commit can change it. Some devices would not take a
        commit back under it.
        """
        for tries_left in reversed(range(TRIES)):
            try:
                # a device that is silent from the start leaves time for another session
                self._connect(1 / 2 if tries_left else 1)
            except Silent:
                if not tries_left:
                    raise
                continue
            # the session of an earlier request may have ended, and some devices lose the first request of a session
            part = self.settings.timeout / 4 if tries_left else self.settings.timeout
            self.session.deadline = min(self.deadline, time.monotonic() + part)
            try:
                self._call("get-config", element("source", element("running")), element("filter", type="subtree"))
                break
            except Unreachable:
                self.end()
                if not tries_left or time.monotonic() >= self.deadline:
                    raise
        self.session.deadline = self.deadline
        if not self.session.has("candidate"):
            return ["running"]
        return ["running", "candidate"] if self.session.has("writable-running") else ["candidate"]

    def _lock(self, datastore, patience):
        while True:
            try:
                self._call("lock", element("target", element(datastore)))
                return
            except Locked:
                if time.monotonic() + LOCK_PAUSE >= min(patience, self.deadline):
                    raise
                time.sleep(LOCK_PAUSE)

    def _unlock(self, held):
        """Give locks back. They end with the session in any case."""
        try:
            for datastore in reversed(held if self.session else []):
                self._call("unlock", element("target", element(datastore)))
        except (Refused, Unreachable):
            self.end()

    def _call(self, operation, *parts):
        if self.session is None:
            raise Unreachable("the connection has ended")
        return self.session.call(element(operation, *parts))

    def _read(self):
        """Read the running configuration."""
        selected = element("filter", request_filter(self.names), type="subtree")
        reply = self._call("get-config", element("source", element("running")), selected)
        try:
            return State(self.names, reply)
        except ValueError as why:
            raise Refused(f"the configuration of the device does not follow openconfig-qos: {shown(str(why))}") from None

    def _edit(self, datastore, qos):
        parts = [element("target", element(datastore)), element("default-operation", "merge")]
        if self.session.has("rollback-on-error"):
            parts.append(element("error-option", "rollback-on-error"))
        self._call("edit-config", *parts, element("config", qos))

    def _commit_all(self, changes, results):
        """Make changes with one commit. Return the changes to make one by one, as the device refused this commit."""
        left = list(range(len(changes)))
        state, is_changed = self._stage(changes, left, results)
        try:
            if is_changed:
                self._commit(state, [changes[index][0] for index in left])
        except Refused as why:
            if len(left) > 1:
                return left
            results[left[0]] = {"fault": "refused", "reason": str(why)}
            return []
        results.update((index, None) for index in left)
        return []

    def _stage(self, changes, left, results):
        """Edit the candidate. A change that is refused leaves the list. Return the new state, and if it is another one."""
        while True:
            state, is_changed, refused = self._read(), False, None
            for index in list(left):
                number, wanted = changes[index]
                try:
                    qos = state.apply(number, wanted(state))
                    if qos is not None:
                        is_changed = True
                        self._edit("candidate", qos)
                except Refused as why:
                    left.remove(index)
                    results[index] = {"fault": "refused", "reason": str(why)}
                    refused = is_changed
                if refused:
                    break
            if not refused:
                return state, is_changed
            # the candidate may have a part of the change: the others are made again
            self._call("discard-changes")

    def _commit(self, state, numbers):
        """Commit the candidate, and confirm that after a look at the running configuration."""
        try:
            self._commit_in_time(state, numbers)
        finally:
            if self.session is not None:
                self.session.deadline = self.deadline

    def _commit_in_time(self, state, numbers):
        timeout = self.settings.confirm
        is_confirmed = timeout and self.session.has("confirmed-commit")
        parts = [element("confirmed"), element("confirm-timeout", str(timeout))] if is_confirmed else []
        if is_confirmed:
            # a confirmation after this time may find a commit that the device has taken back
            self.session.deadline = min(self.session.deadline, time.monotonic() + timeout)
        try:
            self._call("commit", *parts)
        except Refused:
            self._call("discard-changes")
            raise
        try:
            self._check(state, numbers)
            if is_confirmed:
                self._call("commit")
        except Refused as why:
            # the device takes the commit back when the session ends
            self.end()
            if is_confirmed:
                raise
            raise Unreachable(str(why)) from None

    def _edit_running(self, changes, results):
        """Make changes in the running configuration, one after the other."""
        state = self._read()
        for index, (number, wanted) in enumerate(changes):
            try:
                qos = state.apply(number, wanted(state))
                if qos is not None:
                    self._edit("running", qos)
                    self._check_change(state, number)
                results[index] = None
            except Refused as why:
                results[index] = {"fault": "refused", "reason": str(why)}
                state = self._read()
        return []

    def _check_change(self, state, number):
        """Check a change that is in force. If it is not as expected, it is not known what the device has done."""
        try:
            self._check(state, [number])
        except Refused as why:
            raise Unreachable(str(why)) from None

    def _check(self, state, numbers):
        """Refuse if the running configuration has not the expected circuits."""
        found = self._read()
        for number in numbers:
            has, wanted = found.objects.get(number, {}), state.objects.get(number, {})
            other = sorted(key for key in has.keys() | wanted.keys() if has.get(key) != wanted.get(key))
            if other:
                raise Refused(f"the device has the {other[0][0]} of circuit {number} otherwise than it was committed")


def capabilities(settings):
    """Return the capabilities of the device."""
    return {
        "rate_min_bps": settings.rate_min,
        "rate_max_bps": settings.rate_max,
        "granularity_bps": settings.granularity,
        "reconfiguration_ns": int(settings.reconfiguration * 1e9),
        "settling_ns": 0,
        "circuits_max": settings.circuits,
        "counted": {"layer": "link", "overhead_bytes": settings.overhead_bytes},
    }


def answer(device, request):
    """Return the answer to a request, without its number."""
    verb = request.get("verb")
    if verb == "hello":
        if VERSION not in request["versions"]:
            return {"error": f"this driver speaks version {VERSION} only"}
        return {"version": VERSION, "capabilities": capabilities(device.settings)}
    device.begin()
    if verb == "apply":
        changes = [device.set(one["id"], one["flow"], one["rate_bps"]) for one in request["changes"]]
        return {"results": device.apply(changes)}
    if verb == "remove":
        return {"results": device.apply([device.remove(request["id"])])}
    if verb == "inspect":
        try:
            return {"circuits": device.list()}
        except (Refused, Unreachable) as why:
            device.end()
            return {"error": str(why)}
    return {"error": f"there is no verb {verb!r}"}


def ssh(settings):
    """Return the command that connects to the device."""
    found = re.fullmatch(r"(?:([^@\s]+)@)?(\[[0-9A-Fa-f:.]+\]|[^-:@\s][^:@\s]*)(?::(\d{1,5}))?", settings.address)
    if not found:
        raise ValueError(f"{settings.address!r} is no address such as admin@router.example.org:830")
    user, host, port = found.groups()
    words = ["ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    words += ["-o", f"ConnectTimeout={max(1, int(settings.timeout / 2))}", "-p", port or "830"]
    words += ["-F", settings.ssh_config] if settings.ssh_config else []
    words += ["-l", user] if user else []
    return [*words, "-s", "--", host.strip("[]"), "netconf"]


def parser():
    """Return the parser of the command line."""
    one = argparse.ArgumentParser(description="Driver for Lighthaul with NETCONF and the OpenConfig model of QoS.")
    reach = one.add_mutually_exclusive_group(required=True)
    reach.add_argument("--address", help="Address of the device: [USER@]HOST[:PORT] [default port: 830]")
    reach.add_argument("--command", type=shlex.split, help="Program that is connected to the device, instead of ssh")
    one.add_argument("--ssh-config", help="Configuration of ssh, with keys and known hosts [default: ~/.ssh/config]")
    one.add_argument("--rate-max", required=True, type=rate, help="Rate of all circuits together, as in 10Gb/s")
    one.add_argument("--rate-min", type=rate, default=1_000_000, help="Slowest circuit [default: 1Mb/s]")
    one.add_argument("--granularity", type=rate, default=1000, help="Rates are multiples of this [default: 1kb/s]")
    one.add_argument("--circuits", type=int, default=64, help="Maximum number of circuits [default: 64]")
    one.add_argument("--scheduler-policy", default="lighthaul", help="Policy at the output interface [default: lighthaul]")
    for version in (4, 6):
        name = f"lighthaul-ipv{version}"
        one.add_argument(f"--classifier-ipv{version}", default=name, help=f"Classifier at input interfaces [default: {name}]")
    one.add_argument("--prefix", default="lighthaul", help="Begin of the names of queues and groups [default: lighthaul]")
    one.add_argument("--sequence", type=int, default=1000, help="First scheduler of the policy [default: 1000]")
    one.add_argument("--overhead-bytes", type=int, default=24, help="Bytes that count for each frame [default: 24]")
    one.add_argument("--reconfiguration", type=float, default=5, help="Longest time of a change, in seconds [default: 5]")
    one.add_argument("--confirm", type=int, default=10, help="Time to confirm a commit, in seconds; 0: none [default: 10]")
    one.add_argument("--timeout", type=float, default=25, help="Time limit of a request, in seconds [default: 25]")
    return one


def parse_settings():
    """Return the settings of the command line."""
    one = parser()
    settings = one.parse_args()
    low, unit, most = settings.rate_min, settings.granularity, settings.rate_max
    if not 1 <= low <= most <= 4_000_000_000_000 or not 1 <= unit <= most:
        one.error("--rate-min and --granularity are not from 1b/s to --rate-max, or that is above 4Tb/s")
    if not 1 <= settings.circuits <= 65_000 or not 0 <= settings.sequence <= 0xFFFFFFFF - settings.circuits:
        one.error("--circuits is not from 1 to 65000, or --sequence is no number of a scheduler")
    if not 0 <= settings.overhead_bytes <= 65_535 or not 0 <= settings.reconfiguration <= 600:
        one.error("--overhead-bytes is above 65535, or --reconfiguration above 600")
    if not 0 <= settings.confirm <= settings.timeout / 2 or settings.timeout > 600:
        one.error("--confirm is above half of --timeout, or that is above 600")
    by_version = {4: settings.classifier_ipv4, 6: settings.classifier_ipv6}
    sequences = range(settings.sequence, settings.sequence + settings.circuits)
    settings.names = Names(settings.prefix, settings.scheduler_policy, by_version, sequences)
    if len(settings.names.versions()) != 4 or not all([settings.prefix, settings.scheduler_policy, *by_version.values()]):
        one.error("the classifiers have the same name, or a name is empty")
    try:
        settings.command = settings.command or ssh(settings)
    except ValueError as why:
        one.error(str(why))
    return settings


def main():
    """Answer each line of the standard input until its end."""
    device = Device(parse_settings())
    while line := sys.stdin.buffer.readline(LINE_MAX + 1):
        if len(line) > LINE_MAX:
            sys.exit("a request is too long")
        request = json.loads(line)
        print(json.dumps({"seq": request["seq"], **answer(device, request)}), flush=True)
    device.end()


if __name__ == "__main__":
    main()
