"""Circuits as objects of the OpenConfig model of QoS (openconfig-qos), and their XML.

A circuit is

- a queue and a forwarding group with its name;
- terms of a classifier, which send its packets to the group;
- while it has a rate: a scheduler of a policy, which shapes the queue to this rate.

The terms of a circuit without a rate are in a classifier that belongs to no interface. So the device alone says which
circuits there are, and other packets never meet a circuit that is closed.
"""

import re
from dataclasses import dataclass

from flow import Packets
from netconf import BASE, Refused, element

QOS = "http://openconfig.net/yang/qos"
TYPES = "http://openconfig.net/yang/qos-types"
PROTOCOLS = {"tcp": 6, "udp": 17}
PROTOCOL_NAMES = {"6": 6, "17": 17, "IP_TCP": 6, "IP_UDP": 17}


class Flow(Packets):
    """Packets of a circuit, and the objects of the device that select them."""

    @classmethod
    def parse(cls, text):
        """Return the flow of a text such as `udp 10.0.0.2/32 5000-5010` or `all`."""
        try:
            return super().parse(text)
        except ValueError as why:
            raise Refused(f"a classifier cannot select {why}") from None

    def terms(self, name):
        """Return the terms of a circuit with this name: version of IP, identifier, conditions."""
        versions = [self.target.version] if self.target else [4, 6]
        protocols = [self.protocol] if self.protocol or not self.ports else list(PROTOCOLS)
        found = {}
        for version in versions:
            for protocol in protocols:
                one = f"{self.place():03}-{name}" + (f"-{protocol}" if len(protocols) > 1 else "")
                ports = f"{self.ports[0]}..{self.ports[1]}" if self.ports else None
                target = str(self.target) if self.target else None
                found[version, one] = (PROTOCOLS.get(protocol), target, ports)
        return found

    @classmethod
    def of_terms(cls, name, terms):
        """Return the flow of all terms of a circuit, or None if they are damaged."""
        protocols = {protocol for protocol, _, _ in terms.values()}
        targets = {target for _, target, _ in terms.values()}
        ports = {ports for _, _, ports in terms.values()}
        if len(targets) != 1 or len(ports) != 1:
            return None
        names = {number: protocol for protocol, number in PROTOCOLS.items()}
        words = [names[protocol] for protocol in protocols if protocol in names] if len(protocols) == 1 else []
        words += [part.replace("..", "-") for part in [*targets, *ports] if part]
        try:
            flow = cls.parse(" ".join(words) or "all")
        except Refused:
            return None
        return flow if flow.terms(name) == terms else None


class State:
    """Circuits as the device has them.

    `objects` has the values of all objects of each circuit, by its number. Keys are ("queue",), ("group",),
    ("term", classifier, identifier) and ("scheduler", sequence).
    """

    def __init__(self, names, reply):
        self.names = names
        self.objects = {}
        self.sequences = set()  # of all schedulers of the policy
        qos = reply.find(f"{{{BASE}}}data/{{{QOS}}}qos")
        qos = element("qos", namespace=QOS) if qos is None else qos
        for kind, path in (("queue", "queues/queue"), ("group", "forwarding-groups/forwarding-group")):
            for one in each(qos, path):
                number = names.number(text(one, "name"))
                if number is not None:
                    self.put(number, (kind,), text(one, "config/output-queue") or "")
        for one in each(qos, "classifiers/classifier"):
            self._read_terms(text(one, "name"), one)
        self.policies = set()
        for policy in each(qos, "scheduler-policies/scheduler-policy"):
            self.policies.add(text(policy, "name"))
            if text(policy, "name") == names.policy:
                for one in each(policy, "schedulers/scheduler"):
                    self._read_scheduler(one)
        used = each(qos, "interfaces/interface/input/classifiers/classifier/config")
        self.classifiers = {text(one, "name") for one in used}
        used = each(qos, "interfaces/interface/output/scheduler-policy/config")
        self.is_bound = names.policy in {text(one, "name") for one in used}

    def _read_terms(self, classifier, one):
        if classifier not in self.names.versions():
            return
        for term in each(one, "terms/term"):
            found = re.fullmatch(r"\d{3}-(.+?)(-tcp|-udp)?", text(term, "id") or "")
            number = self.names.number(found[1]) if found else None
            if number is not None:
                self.put(number, ("term", classifier, text(term, "id")), conditions(term))

    def _read_scheduler(self, one):
        sequence = int(text(one, "sequence") or -1)
        self.sequences.add(sequence)
        queues = [text(source, "config/queue") for source in each(one, "inputs/input")]
        number = self.names.number(queues[0]) if len(queues) == 1 else None
        if number is not None:
            shape = "one-rate-two-color/config"
            rate = text(one, f"{shape}/cir")
            kind = (text(one, "config/type") or "").rpartition(":")[2]
            value = (int(rate or 0), text(one, f"{shape}/queuing-behavior"), kind)
            self.put(number, ("scheduler", sequence), value)

    def put(self, number, key, value):
        """Record an object of a circuit."""
        self.objects.setdefault(number, {})[key] = value

    def rate(self, number):
        """Return the rate of a circuit in bits a second; zero if it is closed."""
        rates = [value[0] for key, value in self.objects.get(number, {}).items() if key[0] == "scheduler"]
        return max(rates, default=0)

    def circuits(self):
        """Return the circuits as the protocol lists them. The flow of a damaged one is null."""
        return [self._circuit(number) for number in sorted(self.objects)]

    def _circuit(self, number):
        found, name = self.objects[number], self.names.name(number)
        terms = {key: value for key, value in found.items() if key[0] == "term"}
        terms = {(self.names.version(key[1]), key[2]): value[:3] for key, value in terms.items()}
        flow, rate = Flow.of_terms(name, terms), self.rate(number)
        is_whole = flow and self.wanted(number, flow, rate) == found
        return {"id": number, "flow": str(flow) if is_whole else None, "rate_bps": rate}

    def wanted(self, number, flow, rate_bps):
        """Return the objects that a circuit needs."""
        name = self.names.name(number)
        wanted = {("queue",): "", ("group",): name}
        for (version, one), value in flow.terms(name).items():
            wanted["term", self.names.classifier(version, bool(rate_bps)), one] = (*value, name)
        if rate_bps:
            wanted["scheduler", self._sequence(number)] = (rate_bps, "SHAPE", "ONE_RATE_TWO_COLOR")
        return wanted

    def _sequence(self, number):
        """Return the sequence number of a circuit's scheduler, which keeps the one that it has."""
        mine = [key[1] for key in self.objects.get(number, {}) if key[0] == "scheduler"]
        free = (one for one in self.names.sequences if one not in self.sequences)
        sequence = next(iter(sorted(mine)), None)
        sequence = next(free, None) if sequence is None else sequence
        if sequence is None:
            raise Refused("other clients have made the schedulers of this driver; choose others with --sequence")
        return sequence

    def check_bound(self, flow):
        """Refuse to open a circuit that would enforce nothing, since its policy or classifier belongs to no interface."""
        if not self.is_bound:
            raise Refused(f"no interface of the device has the scheduler policy {self.names.policy} at its output")
        for version, _ in flow.terms(""):
            classifier = self.names.classifier(version, True)
            # a flow without target has terms of both versions, of which one is enough
            if classifier in self.classifiers or (not flow.target and self.names.open() & self.classifiers):
                continue
            raise Refused(f"no interface of the device has the classifier {classifier} at its input")

    def apply(self, number, wanted):
        """Return the <qos> that changes a circuit, and record the change. None: nothing has to change."""
        present = self.objects.get(number, {})
        qos = element("qos", namespace=QOS)
        for key in sorted(present.keys() - wanted.keys()):
            merge(qos, self._object(number, key, None))
        for key in sorted(wanted):
            if present.get(key) != wanted[key]:
                merge(qos, self._object(number, key, wanted[key]))
        self.sequences -= {key[1] for key in present if key[0] == "scheduler"}
        self.sequences |= {key[1] for key in wanted if key[0] == "scheduler"}
        self.objects[number] = wanted
        if not wanted:
            del self.objects[number]
        self._remove_unused(qos, present)
        return qos if len(qos) else None

    def _remove_unused(self, qos, before):
        """Remove a classifier of closed circuits that has no more terms."""
        used = {key[1] for found in self.objects.values() for key in found if key[0] == "term"}
        closed = {self.names.classifier(version, False) for version in (4, 6)}
        for name in sorted({key[1] for key in before if key[0] == "term"} & closed - used):
            classifiers = qos.find(f"{{{QOS}}}classifiers")
            for one in [one for one in classifiers if text(one, "name") == name]:
                classifiers.remove(one)
            classifiers.append(entry("classifier", "name", name, [], True))

    def _object(self, number, key, value):
        """Return an object as branch of <qos>. It is removed if the value is None, and replaced otherwise."""
        name, is_removed = self.names.name(number), value is None
        kind, *rest = key
        if kind == "queue":
            return node("queues", entry("queue", "name", name, [leaf("name", name)], is_removed))
        if kind == "group":
            config = [] if is_removed else [leaf("name", name), leaf("output-queue", value)]
            return node("forwarding-groups", entry("forwarding-group", "name", name, config, is_removed))
        if kind == "term":
            return node("classifiers", self._term(*rest, value))
        config = [] if is_removed else scheduler_config(rest[0], value[2])
        scheduler = entry("scheduler", "sequence", str(rest[0]), config, is_removed)
        if not is_removed:
            scheduler.extend(scheduler_parts(name, *value[:2]))
        policy = node("scheduler-policy", leaf("name", self.names.policy), node("schedulers", scheduler))
        return node("scheduler-policies", policy)

    def _term(self, classifier, one, value):
        """Return a classifier with one of its terms."""
        term = entry("term", "id", one, [leaf("id", one)], value is None)
        if value is not None:
            *found, group = value
            version = self.names.version(classifier)
            term.append(node("conditions", *condition_parts(version, *found)))
            term.append(node("actions", node("config", leaf("target-group", group))))
        config = []
        if value is not None and classifier not in self.names.open():
            config = [node("config", leaf("name", classifier), leaf("type", f"IPV{self.names.version(classifier)}"))]
        return node("classifier", leaf("name", classifier), *config, node("terms", term))


@dataclass(frozen=True)
class Names:
    """Names of the objects of a driver on its device."""

    prefix: str
    policy: str
    by_version: dict  # names of the classifiers at the interfaces
    sequences: range  # sequence numbers of schedulers

    def name(self, number):
        """Return the name of a circuit's queue and forwarding group."""
        return f"{self.prefix}-{number}"

    def number(self, name):
        """Return the number of a circuit, or None for another name."""
        found = re.fullmatch(re.escape(self.prefix) + r"-(0|[1-9]\d{0,19})", name or "")
        return int(found[1]) if found and int(found[1]) < 1 << 64 else None

    def classifier(self, version, is_open):
        """Return the classifier with the terms of open or of closed circuits."""
        return self.by_version[version] + ("" if is_open else "-closed")

    def open(self):
        """Return the classifiers of open circuits."""
        return set(self.by_version.values())

    def versions(self):
        """Return the version of IP of each classifier."""
        return {self.classifier(version, is_open): version for version in (4, 6) for is_open in (True, False)}

    def version(self, classifier):
        """Return the version of IP of a classifier."""
        return self.versions()[classifier]


def request_filter(names):
    """Return the part of the configuration that the driver reads (RFC 6241, section 6)."""
    classifiers = [node("classifier", leaf("name", one)) for one in names.versions()]
    policy = node("scheduler-policy", leaf("name", names.policy))
    parts = [node("queues"), node("forwarding-groups"), node("classifiers", *classifiers)]
    return node("qos", *parts, node("scheduler-policies", policy), node("interfaces"))


def conditions(term):
    """Return the conditions of a term that the driver sets, and its forwarding group."""
    protocol = target = None
    for family in ("ipv4", "ipv6"):
        config = f"conditions/{family}/config"
        protocol = protocol or text(term, f"{config}/protocol")
        target = target or text(term, f"{config}/destination-address")
    # the name of a protocol has a prefix
    number = PROTOCOL_NAMES.get(protocol.rpartition(":")[2], protocol) if protocol else None
    ports = text(term, "conditions/transport/config/destination-port")
    if ports and ".." not in ports:
        ports = f"{ports}..{ports}"
    return number, target, ports, text(term, "actions/config/target-group")


def condition_parts(version, protocol, target, ports):
    """Return the children of the conditions of a term."""
    network = [leaf("destination-address", target)] if target else []
    network += [leaf("protocol", str(protocol))] if protocol else []
    found = [node(f"ipv{version}", node("config", *network))] if network else []
    if ports:
        first, last = ports.split("..")
        config = leaf("destination-port", first if first == last else ports)
        found.append(node("transport", node("config", config)))
    return found


def scheduler_config(sequence, kind):
    """Return the configuration of a scheduler."""
    named = leaf("type", f"types:{kind}")
    # the prefix stands in a text, so it is declared by hand
    named.set("xmlns:types", TYPES)
    return [leaf("sequence", str(sequence)), named]


def scheduler_parts(queue, rate_bps, behavior):
    """Return the input of a scheduler and its rate."""
    config = [leaf("id", queue), leaf("input-type", "QUEUE"), leaf("queue", queue)]
    inputs = node("inputs", entry("input", "id", queue, config, None))
    shape = node("config", leaf("cir", str(rate_bps)), leaf("queuing-behavior", behavior))
    return [inputs, node("one-rate-two-color", shape)]


def node(name, *children):
    """Return an element of the model."""
    return element(name, *children, namespace=QOS)


def leaf(name, value):
    """Return a leaf of the model."""
    return element(name, value, namespace=QOS)


def entry(name, key, value, config, is_removed):
    """Return an entry of a list: removed, replaced, or part of a replaced one (None)."""
    one = node(name, leaf(key, value))
    if is_removed is not None:
        one.set(f"{{{BASE}}}operation", "remove" if is_removed else "replace")
    if not is_removed:
        one.append(node("config", *config))
    return one


def merge(parent, branch):
    """Add a branch to a tree, below the containers and list entries that are there."""
    for one in parent:
        if one.tag == branch.tag and key_of(one) == key_of(branch):
            for part in branch:
                if len(part):
                    merge(one, part)
            return
    parent.append(branch)


def key_of(one):
    """Return the key of a list entry, which is its first child."""
    return one[0].text if len(one) and not len(one[0]) else None


def text(one, path):
    """Return the text at a path of names, or None."""
    found = one.findtext("/".join(f"{{{QOS}}}{name}" for name in path.split("/")))
    return found.strip() if found else None


def each(one, path):
    """Return the elements at a path of names."""
    return one.iterfind("/".join(f"{{{QOS}}}{name}" for name in path.split("/")))
