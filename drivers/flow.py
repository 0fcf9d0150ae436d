"""Packets and rates of circuits, as texts of the protocol and of options. Each driver has this file beside its own."""

import argparse
import ipaddress
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Packets:
    """Protocol, target and destination ports; None matches everything."""

    protocol: str | None
    target: ipaddress.IPv4Network | ipaddress.IPv6Network | None
    ports: tuple[int, int] | None

    @classmethod
    def parse(cls, text):
        """Return the packets of a text such as `udp 10.0.0.2/32 5000-5010` or `all`. Raise ValueError for another text."""
        words = text.split()
        if words == ["all"]:
            return cls(None, None, None)
        protocol = words.pop(0) if words and words[0] in ("tcp", "udp") else None
        target = ports = None
        try:
            if words and re.search("[.:]", words[0]):
                target = ipaddress.ip_network(words.pop(0), strict=False)
            if words:
                first, _, last = words.pop(0).partition("-")
                ports = (int(first), int(last or first))
        except ValueError:
            words = [text]
        if words or not text.split() or (ports and not 1 <= ports[0] <= ports[1] <= 65535):
            raise ValueError(f"the packets of {text!r}: it needs a protocol, a target or ports")
        return cls(protocol, target, ports)

    def __str__(self):
        ports = f"{self.ports[0]}-{self.ports[1]}" if self.ports else None
        parts = [str(part) for part in (self.protocol, self.target, ports) if part is not None]
        return " ".join(parts) or "all"

    def place(self):
        """Return the place in the order of flows: if a packet belongs to two flows, that with the lower place carries it."""
        above = 0 if self.ports else 1 if self.protocol else 2
        bits = self.target.prefixlen + (97 if self.target.version == 4 else 1) if self.target else 0
        return 3 * (129 - bits) + above


def rate(text):
    """Return a rate in bits a second, as in 10Gb/s or 10000000000."""
    found = re.fullmatch(r"(\d+)([kMGT]?)(b/s)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate such as 10Gb/s")
    return int(found[1]) * 1000 ** ("kMGT".find(found[2] or "-") + 1)
