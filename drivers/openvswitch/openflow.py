"""OpenFlow 1.3: the messages that the driver needs, and a connection to a switch.

A connection lives for one request of the scheduler. So it is never stale, and a lost one is opened again by the next
request. Numbers and layouts are those of the OpenFlow Switch Specification 1.3.5; sections are named.
"""

import socket
import struct
import time

VERSION = 4  # in the header of OpenFlow 1.3

# types of messages (A.1)
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
FLOW_MOD, MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY, METER_MOD = 14, 18, 19, 20, 21, 29

# fields of a match (A.2.3.7)
METADATA, ETH_TYPE, IP_PROTO, IPV4_DST, TCP_DST, UDP_DST, IPV6_DST = 2, 5, 10, 12, 14, 16, 27
WIDTH = {METADATA: 8, ETH_TYPE: 2, IP_PROTO: 1, IPV4_DST: 4, TCP_DST: 2, UDP_DST: 2, IPV6_DST: 16}
BASIC = 0x8000  # class of these fields

MULTIPART_FLOW, MULTIPART_METER_CONFIG = 1, 10
ALL_TABLES, ANY, ALL_METERS, NO_BUFFER = 0xFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF
ALL_BITS = (1 << 64) - 1
NORMAL = 0xFFFFFFFA  # port: forwarding as a switch without OpenFlow
FLOW_ADD, FLOW_DELETE = 0, 3
METER_ADD, METER_MODIFY, METER_DELETE = 0, 1, 2
KBPS, BURST, STATS = 1, 4, 8  # flags of a meter
DROP = 1  # type of a band

ANSWER_MAX = 64 << 20
TIMEOUT_MAX = 0xFFFF  # of a flow, in seconds

ERRORS = {
    (0, 0): "it does not speak OpenFlow 1.3; enable that, as in `ovs-vsctl set bridge br0 protocols=OpenFlow13`",
    (1, 5): "it does not permit that",
    (4, 6): "it cannot match a field of this flow",
    (4, 8): "it cannot match a part of the ports",
    (5, 1): "its flow table is full",
    (5, 2): "it has no such table",
    (5, 4): "it does not permit that",
    (12, 1): "another client has made this meter",
    (12, 2): "it has no meter with this number; choose others with --meter-first",
    (12, 6): "it cannot limit to this rate",
    (12, 7): "it cannot use this burst",
    (12, 10): "it has no free meter",
}


class Refused(Exception):
    """The switch says no: the change can be made later at best."""


class Unreachable(Exception):
    """The switch does not answer: it is not known whether the change was made."""


class Connection:
    """Connection to a switch until a deadline of time.monotonic()."""

    def __init__(self, address, deadline):
        self.address, self.deadline = address, deadline
        self.number, self.pending, self.socket = 0, b"", None
        self.socket = self._try(lambda: connect(address, self._left()))
        bitmap = struct.pack("!HHI", 1, 8, 1 << VERSION)
        self._try(lambda: self.socket.sendall(message(HELLO, 0, bitmap)))
        kind, version, _, body = self._receive()
        if kind == ERROR:
            raise Refused(error_text(body))
        if kind != HELLO:
            raise Unreachable(f"{address} does not speak OpenFlow")
        if version < VERSION:
            raise Refused(f"{address} refused it: {ERRORS[0, 0]}")

    def close(self):
        """Close the connection."""
        self.socket.close()

    def commit(self, changes):
        """Send changes, and wait until the switch has made all of them. Raise its first refusal."""
        numbers = [self._send(kind, body) for kind, body in changes]
        barrier = self._send(BARRIER_REQUEST, b"")
        refusal = None
        while True:
            kind, number, body = self._answer()
            if kind == ERROR and (number in numbers or number == barrier):
                refusal = refusal or Refused(f"the switch refused it: {error_text(body)}")
            if number == barrier and kind in (BARRIER_REPLY, ERROR):
                break
        if refusal:
            raise refusal

    def ask(self, kind, body):
        """Return the parts of the answer to a multipart request."""
        wanted = self._send(MULTIPART_REQUEST, struct.pack("!HH4x", kind, 0) + body)
        parts, size = [], 0
        while True:
            answer, number, body = self._answer()
            if number != wanted:
                continue
            if answer == ERROR:
                raise Refused(f"the switch refused to tell: {error_text(body)}")
            if answer != MULTIPART_REPLY or len(body) < 8:
                raise Unreachable(f"{self.address} sent an answer that is none")
            size += len(body)
            if size > ANSWER_MAX:
                raise Unreachable(f"{self.address} sent an answer of more than {ANSWER_MAX} bytes")
            parts.append(body[8:])
            if not struct.unpack_from("!HH", body)[1] & 1:
                return parts

    def flows(self, table, cookie=0, mask=0, match=()):
        """Return the flows of a table with the cookie under the mask, and within the match."""
        body = struct.pack("!B3xII4xQQ", table, ANY, ANY, cookie, mask) + encode_match(match)
        parts = self.ask(MULTIPART_FLOW, body)
        return self._decode(lambda: [flow for part in parts for flow in decode_flows(part)])

    def meters(self):
        """Return the meters by their numbers."""
        parts = self.ask(MULTIPART_METER_CONFIG, struct.pack("!I4x", ALL_METERS))
        return self._decode(lambda: dict(meter for part in parts for meter in decode_meters(part)))

    def _decode(self, decode):
        try:
            return decode()
        except (struct.error, IndexError, ValueError) as why:
            raise Unreachable(f"{self.address} sent an answer that is none: {why}") from why

    def _send(self, kind, body):
        self.number += 1
        self._try(lambda: self.socket.sendall(message(kind, self.number, body)))
        return self.number

    def _answer(self):
        """Return the next message, and answer whether we are alive."""
        while True:
            kind, _, number, body = self._receive()
            if kind != ECHO_REQUEST:
                return kind, number, body
            self._try(lambda: self.socket.sendall(message(ECHO_REPLY, number, body)))

    def _receive(self):
        version, kind, length, number = struct.unpack("!BBHI", self._octets(8))
        if length < 8:
            raise Unreachable(f"{self.address} does not speak OpenFlow")
        return kind, version, number, self._octets(length - 8)

    def _octets(self, count):
        while len(self.pending) < count:
            octets = self._try(lambda: self.socket.recv(1 << 16))
            if not octets:
                raise Unreachable(f"{self.address} closed the connection")
            self.pending += octets
        octets, self.pending = self.pending[:count], self.pending[count:]
        return octets

    def _left(self):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return left

    def _try(self, call):
        try:
            if self.socket:
                self.socket.settimeout(self._left())
            return call()
        except OSError as why:
            text = why.strerror or str(why)
            raise Unreachable(f"cannot talk to {self.address}: {text}") from why


def connect(address, limit):
    """Return a socket to unix:PATH or tcp:HOST:PORT."""
    kind, _, rest = address.partition(":")
    if kind == "unix":
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(limit)
        try:
            one.connect(rest)
        except OSError:
            one.close()
            raise
        return one
    host, _, port = rest.rpartition(":")
    one = socket.create_connection((host.strip("[]"), int(port)), limit)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def message(kind, number, body):
    """Return a message with its header."""
    return struct.pack("!BBHI", VERSION, kind, 8 + len(body), number) + body


def error_text(body):
    """Return the text of an error message."""
    if len(body) < 4:
        return "without a reason"
    kind = struct.unpack_from("!HH", body)
    return ERRORS.get(kind, f"error {kind[0]}/{kind[1]} of OpenFlow")


def encode_match(match):
    """Encode fields: triples of a field, its value and its mask."""
    fields = b""
    for field, value, mask in match:
        width = WIDTH[field]
        full = (1 << 8 * width) - 1
        octets = value.to_bytes(width, "big") + (b"" if mask == full else mask.to_bytes(width, "big"))
        fields += struct.pack("!HBB", BASIC, field << 1 | (mask != full), len(octets)) + octets
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


def decode_match(octets):
    """Return the sorted fields of a match, and its length with padding. Fields of other classes keep them apart."""
    kind, length = struct.unpack_from("!HH", octets)
    if kind != 1 or length < 4 or length > len(octets):
        raise ValueError("the match is damaged")
    fields, at = [], 4
    while at < length:
        group, field, width = struct.unpack_from("!HBB", octets, at)
        at += 4
        payload = octets[at : at + width]
        if at + width > length:
            raise ValueError("the match is damaged")
        at += width
        half = width // 2 if field & 1 else width
        mask = payload[half:] if field & 1 else b"\xff" * width
        name = field >> 1 if group == BASIC else group << 8 | field >> 1
        fields.append((name, int.from_bytes(payload[:half], "big"), int.from_bytes(mask, "big")))
    return tuple(sorted(fields)), length + -length % 8


def decode_flows(octets):
    """Yield the flows of an answer: table, cookie, priority, match, instructions, timeout (seconds, 0 for none)."""
    while octets:
        length, table, priority, timeout, cookie = struct.unpack_from("!HBx8xH2xH6xQ", octets)
        if length < 56 or length > len(octets):
            raise ValueError("a flow is damaged")
        match, size = decode_match(octets[48:length])
        yield table, cookie, priority, match, octets[48 + size : length], timeout
        octets = octets[length:]


def decode_meters(octets):
    """Yield the meters of an answer: number, and the flags and bands as octets."""
    while octets:
        length, flags, number = struct.unpack_from("!HHI", octets)
        if length < 8 or length > len(octets):
            raise ValueError("a meter is damaged")
        yield number, (flags & ~STATS, octets[8:length])
        octets = octets[length:]


def flow_mod(command, table, cookie, priority=0, match=(), instructions=b"", timeout=0):
    """Return a message that adds a flow, or deletes flows by cookie. `timeout` is in seconds, 0 for none."""
    mask = ALL_BITS if command == FLOW_DELETE else 0
    head = struct.pack("!QQBBHHHIIIH2x", cookie, mask, table, command, 0, timeout, priority, NO_BUFFER, ANY, ANY, 0)
    return FLOW_MOD, head + encode_match(match) + instructions


def meter_mod(command, number, flags=KBPS | BURST, bands=b""):
    """Return a message that adds, changes or deletes a meter."""
    return METER_MOD, struct.pack("!HHI", command, flags | STATS, number) + bands


def drop_band(rate_kbps, burst_kb):
    """Return a band that drops what exceeds the rate."""
    return struct.pack("!HHII4x", DROP, 16, rate_kbps, burst_kb)


def metered(meter, next_table):
    """Return instructions: through the meter, then to a table, or to normal forwarding without one."""
    octets = struct.pack("!HHI", 6, 8, meter)
    if next_table is None:
        return octets + struct.pack("!HH4xHHIH6x", 4, 24, 0, 16, NORMAL, 0)
    return octets + struct.pack("!HHB3x", 1, 8, next_table)


def write_metadata(value):
    """Return an instruction that writes metadata."""
    return struct.pack("!HH4xQQ", 2, 24, value, ALL_BITS)
