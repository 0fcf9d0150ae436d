#!/usr/bin/env python3
"""Driver for Lighthaul with a device in memory. The protocol is complete: edit the class Device, and CAPABILITIES.

Usage: driver.py [FILE]

FILE keeps the device, so that it outlives this program. The conformance suite looks at it, and puts faults there.
Lines are described in crates/circuit/schema/driver.v1.json. Needs Python 3.11 and nothing else.
"""

import json
import os
import sys
import time

VERSION = 1

CAPABILITIES = {
    "rate_min_bps": 1_000_000,  # slowest circuit
    "rate_max_bps": 10_000_000_000,  # fastest circuit, and all circuits together
    "granularity_bps": 1_000_000,  # rates are multiples of this
    "reconfiguration_ns": 10_000_000,  # longest time of a change
    "settling_ns": 0,  # time after that until packets pass reliably
    "circuits_max": 96,
    "counted": {"layer": "link", "overhead_bytes": 24},  # "payload", "ip" or "link", and more for each packet
    "timer_max_ms": 3_600_000,  # longest timer with which the device closes a circuit; leave it out if it has none
}

LINE_MAX = 16 << 20


class Refused(Exception):
    """The device says no: the change can be made later at best."""


class Unreachable(Exception):
    """The device does not answer: it is not known whether the change was made."""


class Device:
    """Replace this class by one for your device. Every call can be repeated, and a change that is in force succeeds."""

    def __init__(self, path):
        self.path = path
        self.state = {"circuits": {}, "others": {}, "faults": []}

    def set(self, circuit, rate_bps, timer_ms):
        """Set the rate of a circuit, which is created if it does not exist. Zero: it exists, and takes no packets.

        After timer_ms milliseconds without another change, the device itself sets the rate to zero. None: never.
        """
        fault = self._begin()
        circuits = self.state["circuits"]
        key = str(circuit["id"])
        check_rate(rate_bps)
        if key not in circuits and len(circuits) >= CAPABILITIES["circuits_max"]:
            raise Refused("it has its maximum of circuits")
        rest = sum(one["rate_bps"] for other, one in circuits.items() if other != key)
        if rest + rate_bps > CAPABILITIES["rate_max_bps"]:
            raise Refused("the sum of all rates is too high")
        closes_at = None if timer_ms is None else time.time() + timer_ms / 1000
        circuits[key] = {"flow": circuit["flow"], "rate_bps": rate_bps, "closes_at": closes_at}
        self._end(fault)

    def remove(self, number):
        """Remove a circuit. It succeeds if there is none."""
        fault = self._begin()
        self.state["circuits"].pop(str(number), None)
        self._end(fault)

    def list(self):
        """Return the circuits that a driver of Lighthaul made, and not those of others, as the device has them."""
        self._load()
        self._store()
        return [
            {"id": int(key), "flow": one["flow"], "rate_bps": one["rate_bps"]}
            for key, one in self.state["circuits"].items()
        ]

    def _begin(self):
        """Read the device, and take the next fault."""
        self._load()
        faults = self.state["faults"]
        fault = faults.pop(0) if faults else ""
        self._store()
        if fault == "refuse":
            raise Refused("simulated fault")
        if fault == "unreachable":
            raise Unreachable("simulated fault")
        if fault == "silent":
            time.sleep(3600)
        if fault == "die":
            sys.exit("simulated fault: it ends before the change")
        return fault

    def _end(self, fault):
        self._store()
        if fault == "lost":
            sys.exit("simulated fault: it ends after the change")

    def _load(self):
        if self.path and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.state = json.load(file)
        # a real device closes the circuit by itself
        for one in self.state["circuits"].values():
            if one.get("closes_at") is not None and one["closes_at"] <= time.time():
                one.update(rate_bps=0, closes_at=None)

    def _store(self):
        if self.path:
            with open(self.path + ".new", "w", encoding="utf-8") as file:
                json.dump(self.state, file)
            os.replace(self.path + ".new", self.path)


def check_rate(rate_bps):
    """Refuse a rate that the device cannot set. The scheduler asks for none if the capabilities are right."""
    low, high = CAPABILITIES["rate_min_bps"], CAPABILITIES["rate_max_bps"]
    if rate_bps and (not low <= rate_bps <= high or rate_bps % CAPABILITIES["granularity_bps"]):
        raise Refused(f"it cannot set a rate of {rate_bps} b/s")


def result(call, *arguments):
    """Return the result of one change: None, or a fault with its reason."""
    try:
        call(*arguments)
    except Refused as why:
        return {"fault": "refused", "reason": str(why)}
    except Unreachable as why:
        return {"fault": "unreachable", "reason": str(why)}
    return None


def answer(device, request):
    """Return the answer to a request, without its number."""
    verb = request.get("verb")
    if verb == "hello":
        if VERSION not in request["versions"]:
            return {"error": f"this driver speaks version {VERSION} only"}
        return {"version": VERSION, "capabilities": CAPABILITIES}
    if verb == "apply":
        return {"results": [result(device.set, one, one["rate_bps"], one.get("timer_ms")) for one in request["changes"]]}
    if verb == "remove":
        return {"results": [result(device.remove, request["id"])]}
    if verb == "inspect":
        try:
            return {"circuits": device.list()}
        except (Refused, Unreachable) as why:
            return {"error": str(why)}
    return {"error": f"there is no verb {verb!r}"}


def main():
    """Answer each line of the standard input until its end."""
    device = Device(sys.argv[1] if len(sys.argv) > 1 else None)
    while line := sys.stdin.buffer.readline(LINE_MAX + 1):
        if len(line) > LINE_MAX:
            sys.exit("a request is too long")
        request = json.loads(line)
        print(json.dumps({"seq": request["seq"], **answer(device, request)}), flush=True)


if __name__ == "__main__":
    main()
