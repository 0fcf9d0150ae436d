#!/usr/bin/env python3
"""Driver for Lighthaul that makes circuits in Open vSwitch, with flows and meters of OpenFlow 1.3.

A circuit is

- a flow in the table of records, which no packet reaches: its match has the circuit's number as metadata and the target,
  and its instruction, which writes metadata, has the protocol and the ports;
- while it has a rate: a meter that drops what exceeds it, and flows that send the circuit's packets there. The timer of
  a circuit is the hard timeout of these flows, which the switch removes by itself.

All flows have a cookie of the driver, with the number of the meter. So the switch alone says which circuits there are.
Needs Python 3.11 and nothing else. Lines are described in crates/circuit/schema/driver.v1.json.
"""

import argparse
import ipaddress
import json
import re
import sys
import time

import openflow as of
from flow import Packets, rate
from openflow import Refused, Unreachable

VERSION = 1
LINE_MAX = 16 << 20

OWNER = 0x4C48 << 48  # cookies of the driver; the other bits are the number of a meter
OWNER_MASK = 0xFFFF << 48
PRIORITY = 40_000  # of a flow to one address and port; wider flows have less, down to 39,611
PROTOCOLS = {"tcp": (6, of.TCP_DST), "udp": (17, of.UDP_DST)}
ETH_TYPES = {4: (0x0800, of.IPV4_DST), 6: (0x86DD, of.IPV6_DST)}


class Flow(Packets):
    """Packets of a circuit, and the objects of the device that select them."""

    @classmethod
    def parse(cls, text):
        """Return the flow of a text such as `udp 10.0.0.2/32 5000-5010` or `all`."""
        try:
            return super().parse(text)
        except ValueError as why:
            raise Refused(f"an OpenFlow switch cannot select {why}") from None

    def priority(self):
        """Return the priority: if a packet belongs to two flows, the narrower one carries it."""
        return PRIORITY - self.place()

    def matches(self):
        """Return the matches that select these packets: one for each family, protocol and masked part of the ports."""
        if self == Flow(None, None, None):
            return [()]
        versions = [self.target.version] if self.target else [4, 6]
        protocols = [self.protocol] if self.protocol or not self.ports else list(PROTOCOLS)
        found = []
        for version in versions:
            family = target_match(version, self.target)
            for protocol in protocols:
                transport = [(of.IP_PROTO, PROTOCOLS[protocol][0], 0xFF)] if protocol else []
                for value, mask in masked(*self.ports) if self.ports else [(None, None)]:
                    port = [(PROTOCOLS[protocol][1], value, mask)] if self.ports else []
                    found.append(tuple(sorted(family + transport + port)))
        return found

    def record(self, number):
        """Return the match and the metadata of the record of a circuit."""
        target = target_match(self.target.version, self.target) if self.target else []
        protocol = PROTOCOLS[self.protocol][0] if self.protocol else 0
        first, last = self.ports or (0, 0)
        match = tuple(sorted([(of.METADATA, number, of.ALL_BITS)] + target))
        return match, protocol << 32 | first << 16 | last

    @classmethod
    def of_record(cls, match, instructions):
        """Return the flow of a record, or None if the record was changed."""
        target = None
        for field, value, mask in match:
            for version, (_, name) in ETH_TYPES.items():
                if field == name:
                    network = ipaddress.IPv4Network if version == 4 else ipaddress.IPv6Network
                    target = network((value, mask.bit_count()), strict=False)
            # a prefix of no bits has no field
            if field == of.ETH_TYPE and target is None:
                target = {0x0800: ipaddress.ip_network("0.0.0.0/0"), 0x86DD: ipaddress.ip_network("::/0")}.get(value)
        if len(instructions) != 24:
            return None
        word = int.from_bytes(instructions[8:16], "big")
        protocols = {number: name for name, (number, _) in PROTOCOLS.items()}
        first, last = word >> 16 & 0xFFFF, word & 0xFFFF
        flow = cls(protocols.get(word >> 32), target, (first, last) if last else None)
        number = record_number(match)
        is_whole = number is not None and (match, word) == flow.record(number)
        return flow if is_whole and instructions == of.write_metadata(word) else None


def target_match(version, target):
    """Return the fields for packets of a version of IP to a target."""
    kind, field = ETH_TYPES[version]
    fields = [(of.ETH_TYPE, kind, 0xFFFF)]
    if target and target.prefixlen:
        fields.append((field, int(target.network_address), int(target.netmask)))
    return fields


def masked(first, last):
    """Return the values and masks that cover the ports from the first to the last, and no other."""
    found = []
    while first <= last:
        size = first & -first or 1 << 16
        while first + size - 1 > last:
            size >>= 1
        found.append((first, 0x10000 - size))
        first += size
    return found


def record_number(match):
    """Return the number of the circuit of a record, or None for any other flow."""
    numbers = [value for field, value, mask in match if field == of.METADATA and mask == of.ALL_BITS]
    return numbers[0] if numbers else None


class State:
    """Circuits as the switch has them."""

    def __init__(self, connection, settings):
        self.records = {}  # by the number of a circuit: slot (the number of its meter), flow
        self.active = {}  # by slot: priority, match and instructions of its flows
        self.timed = set()  # slots with flows that end by themselves
        for table, cookie, priority, match, instructions, timeout in connection.flows(of.ALL_TABLES, OWNER, OWNER_MASK):
            slot, number = cookie & ~OWNER_MASK, record_number(match)
            if table == settings.record_table and number is not None:
                flow = Flow.of_record(match, instructions)
                # a second record of a circuit makes it a damaged one
                self.records[number] = (slot, None if number in self.records else flow)
            elif table == settings.table:
                self.active.setdefault(slot, set()).add((priority, match, instructions))
                self.timed |= {slot} if timeout else set()
        self.meters = connection.meters()
        self.settings = settings

    def wanted(self, slot, flow):
        """Return the flows that send the packets of a circuit to its meter."""
        instructions = of.metered(slot, self.settings.next_table)
        return {(flow.priority(), match, instructions) for match in flow.matches()}

    def is_open(self, slot, flow):
        """Return true if the flows of a circuit are those that it needs."""
        return self.active.get(slot) == self.wanted(slot, flow)

    def strays(self):
        """Return the slots whose flows belong to no circuit."""
        return set(self.active) - {slot for slot, _ in self.records.values()}

    def circuits(self):
        """Return the circuits as the protocol lists them. The flow of a damaged one is null."""
        return [self._circuit(number, slot, flow) for number, (slot, flow) in sorted(self.records.items())]

    def _circuit(self, number, slot, flow):
        if flow and not self.active.get(slot):
            return {"id": number, "flow": str(flow), "rate_bps": 0}
        rate = rate_of(self.meters.get(slot))
        is_whole = flow and rate and self.is_open(slot, flow)
        return {"id": number, "flow": str(flow) if is_whole else None, "rate_bps": rate or 0}

    def free_slot(self):
        """Return the number of a meter for a new circuit."""
        if len(self.records) >= self.settings.circuits:
            raise Refused("it has its maximum of circuits")
        used = {slot for slot, _ in self.records.values()} | set(self.meters)
        for slot in range(self.settings.meter_first, self.settings.meter_first + self.settings.circuits):
            if slot not in used:
                return slot
        raise Refused("other clients have made the meters of this driver; choose others with --meter-first")


def rate_of(meter):
    """Return the rate of a meter in bits a second, or None if it is not one of the driver."""
    if meter is None:
        return None
    flags, bands = meter
    rate, burst = (int.from_bytes(bands[at : at + 4], "big") for at in (4, 8))
    is_ours = flags == of.KBPS | of.BURST and bands == of.drop_band(rate, burst)
    return 1000 * rate if is_ours else None


class Switch:
    """Device of the driver. Each call can be repeated, and a change that is in force succeeds."""

    def __init__(self, settings):
        self.settings = settings
        self.connection = self.state = self.deadline = None

    def begin(self):
        """Begin a request, with a new time limit."""
        self.deadline = time.monotonic() + self.settings.timeout

    def end(self):
        """End a request, or a connection that was lost within it."""
        if self.connection:
            self.connection.close()
        self.connection = self.state = None

    def list(self):
        """Return the circuits. First remove the meters of circuits whose timers have ended."""
        self._read()
        for slot, _ in list(self.state.records.values()):
            if slot in self.state.meters and not self.state.active.get(slot):
                self._commit([of.meter_mod(of.METER_DELETE, slot)])
                del self.state.meters[slot]
        return self.state.circuits()

    def set(self, number, text, rate_bps, timer_ms=None):
        """Set the rate of a circuit, which is created if it does not exist. Zero: it exists, and takes no packets."""
        flow, meter = Flow.parse(text), self._meter(rate_bps)
        timeout = min(-(-timer_ms // 1000), of.TIMEOUT_MAX) if timer_ms else 0
        self._clean()
        state = self.state
        if number in state.records and state.records[number][1] != flow:
            self._remove(number)
        changes = []
        is_new = number not in state.records
        slot = state.free_slot() if is_new else state.records[number][0]
        if is_new:
            match, word = flow.record(number)
            table, cookie = self.settings.record_table, OWNER | slot
            changes.append(of.flow_mod(of.FLOW_ADD, table, cookie, 0, match, of.write_metadata(word)))
        was_open = state.is_open(slot, flow)
        if meter is None:
            changes += self._close(slot) if state.active.get(slot) or slot in state.meters else []
        elif was_open:
            changes += [self._set_meter(slot, meter)] if state.meters.get(slot) != meter else []
            # adding a flow again replaces it, and restarts its timeout
            changes += self._add_flows(slot, flow, timeout) if timeout or slot in state.timed else []
        else:
            changes += self._open(slot, flow, meter, timeout)
        try:
            self._commit(changes)
        except Refused:
            if was_open and meter is None and self._is_closed(number):
                return
            if not was_open:
                self._commit(self._close(slot) + (self._delete_record(slot) if is_new else []))
            raise
        state.records[number] = (slot, flow)
        if meter is None:
            state.active.pop(slot, None), state.meters.pop(slot, None)
        else:
            state.active[slot], state.meters[slot] = state.wanted(slot, flow), meter
            state.timed = state.timed | {slot} if timeout else state.timed - {slot}

    def _is_closed(self, number):
        """Return true if the switch has the circuit, which takes no packets, although it refused a part of the change."""
        self.state = None
        self._read()
        return number in self.state.records and not self.state.active.get(self.state.records[number][0])

    def remove(self, number):
        """Remove a circuit. It succeeds if there is none."""
        self._clean()
        if number in self.state.records:
            self._remove(number)

    def _meter(self, rate_bps):
        """Return the meter for a rate, or None for zero."""
        if not rate_bps:
            return None
        if not RATE_MIN <= rate_bps <= self.settings.rate_max or rate_bps % 1000:
            raise Refused(f"it cannot set a rate of {rate_bps} b/s")
        burst_kb = max(BURST_KB_MIN, rate_bps * self.settings.burst_ms // 1_000_000)
        return of.KBPS | of.BURST, of.drop_band(rate_bps // 1000, burst_kb)

    def _read(self):
        if self.connection is None:
            self.connection = of.Connection(self.settings.switch, self.deadline)
        if self.state is None:
            self.state = State(self.connection, self.settings)

    def _clean(self):
        """Read the switch, and remove flows with our cookie whose record is gone."""
        self._read()
        for slot in self.state.strays():
            self._commit(self._close(slot))
            del self.state.active[slot]
            self.state.meters.pop(slot, None)

    def _remove(self, number):
        slot, _ = self.state.records[number]
        self._commit(self._close(slot) + self._delete_record(slot))
        del self.state.records[number]
        self.state.active.pop(slot, None), self.state.meters.pop(slot, None)

    def _open(self, slot, flow, meter, timeout):
        """Return the changes that give a circuit its meter and its flows."""
        wanted = self.state.wanted(slot, flow)
        for priority, match, _ in wanted:
            for _, cookie, other, fields, _, _ in self.connection.flows(self.settings.table, match=match):
                if (other, fields) == (priority, match) and cookie != OWNER | slot:
                    raise Refused("another flow of the switch has the same match and priority")
        changes = [self._delete_flows(slot)] if self.state.active.get(slot) else []
        changes.append(self._set_meter(slot, meter))
        return changes + self._add_flows(slot, flow, timeout)

    def _add_flows(self, slot, flow, timeout):
        """Return the changes that add the flows of a circuit. With a timeout, the switch removes them by itself."""
        flows = sorted(self.state.wanted(slot, flow))
        table, cookie = self.settings.table, OWNER | slot
        return [of.flow_mod(of.FLOW_ADD, table, cookie, *one, timeout=timeout) for one in flows]

    def _set_meter(self, slot, meter):
        command = of.METER_MODIFY if slot in self.state.meters else of.METER_ADD
        return of.meter_mod(command, slot, *meter)

    def _close(self, slot):
        """Return the changes after which a circuit takes no packets."""
        return [self._delete_flows(slot), of.meter_mod(of.METER_DELETE, slot)]

    def _delete_flows(self, slot):
        return of.flow_mod(of.FLOW_DELETE, self.settings.table, OWNER | slot)

    def _delete_record(self, slot):
        return [of.flow_mod(of.FLOW_DELETE, self.settings.record_table, OWNER | slot)]

    def _commit(self, changes):
        if changes:
            self.connection.commit(changes)


RATE_MIN = 1_000_000
BURST_KB_MIN = 525  # 64 KiB, which a sender may send at once


def capabilities(settings):
    """Return the capabilities of the switch."""
    return {
        "rate_min_bps": RATE_MIN,
        "rate_max_bps": settings.rate_max,
        "granularity_bps": 1000,
        "reconfiguration_ns": 50_000_000,
        "settling_ns": 10_000_000,
        "circuits_max": settings.circuits,
        "counted": {"layer": "link", "overhead_bytes": 0},
        "timer_max_ms": of.TIMEOUT_MAX * 1000,
    }


def result(switch, call, *arguments):
    """Return the result of one change: None, or a fault with its reason."""
    try:
        call(*arguments)
    except Refused as why:
        switch.state = None
        return {"fault": "refused", "reason": str(why)}
    except Unreachable as why:
        # the next change tries a new connection, in the time that is left
        switch.end()
        return {"fault": "unreachable", "reason": str(why)}
    return None


def answer(switch, request):
    """Return the answer to a request, without its number."""
    verb = request.get("verb")
    if verb == "hello":
        if VERSION not in request["versions"]:
            return {"error": f"this driver speaks version {VERSION} only"}
        return {"version": VERSION, "capabilities": capabilities(switch.settings)}
    switch.begin()
    try:
        if verb == "apply":
            keys = ("id", "flow", "rate_bps", "timer_ms")
            changes = [[one.get(key) for key in keys] for one in request["changes"]]
            return {"results": [result(switch, switch.set, *change) for change in changes]}
        if verb == "remove":
            return {"results": [result(switch, switch.remove, request["id"])]}
        if verb == "inspect":
            return {"circuits": switch.list()}
        return {"error": f"there is no verb {verb!r}"}
    except (Refused, Unreachable) as why:
        return {"error": str(why)}
    finally:
        switch.end()


def switch_address(text):
    """Return the address of a switch, after a look at it."""
    if not re.fullmatch(r"unix:.+|tcp:.+:\d{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as unix:/run/openvswitch/br0.mgmt or tcp:HOST:6653")
    return text


def parse_settings():
    """Return the settings of the command line."""
    parser = argparse.ArgumentParser(description="Driver for Lighthaul that makes circuits in Open vSwitch.")
    parser.add_argument("--switch", required=True, type=switch_address, help="Address of the bridge: unix:PATH or tcp:HOST:PORT")
    parser.add_argument("--rate-max", required=True, type=rate, help="Rate of all circuits together, as in 10Gb/s")
    parser.add_argument("--table", type=int, default=0, help="Table of the flows [default: 0]")
    parser.add_argument("--next-table", type=int, help="Table for packets after the meter [default: normal forwarding]")
    parser.add_argument("--record-table", type=int, default=253, help="Table that no packet reaches [default: 253]")
    parser.add_argument("--circuits", type=int, default=128, help="Maximum number of circuits [default: 128]")
    parser.add_argument("--meter-first", type=int, default=0x4C48, help="First meter, one for each circuit [default: 19528]")
    parser.add_argument("--burst-ms", type=int, default=100, help="Burst, in milliseconds of the rate [default: 100]")
    parser.add_argument("--timeout", type=float, default=5, help="Time limit of a request, in seconds [default: 5]")
    settings = parser.parse_args()
    if not RATE_MIN <= settings.rate_max <= 4_000_000_000_000:
        parser.error("--rate-max is not from 1Mb/s to 4Tb/s")
    settings.rate_max -= settings.rate_max % 1000
    if not 1 <= settings.circuits <= 65_000 or not 1 <= settings.meter_first <= 0xFFFF0000 - settings.circuits:
        parser.error("--circuits is not from 1 to 65000, or --meter-first is no number of a meter")
    tables = [settings.table, settings.record_table, settings.next_table]
    if any(one is not None and not 0 <= one <= 254 for one in tables) or tables[0] in tables[1:] or tables[1] == tables[2]:
        parser.error("the tables are not three different numbers up to 254")
    if settings.next_table is not None and settings.next_table < settings.table:
        parser.error("--next-table is not behind --table")
    return settings


def main():
    """Answer each line of the standard input until its end."""
    switch = Switch(parse_settings())
    while line := sys.stdin.buffer.readline(LINE_MAX + 1):
        if len(line) > LINE_MAX:
            sys.exit("a request is too long")
        request = json.loads(line)
        print(json.dumps({"seq": request["seq"], **answer(switch, request)}), flush=True)


if __name__ == "__main__":
    main()
