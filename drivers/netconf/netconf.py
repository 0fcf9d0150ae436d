"""Client of NETCONF (RFC 6241) through the subsystem of OpenSSH (RFC 6242), with limits of time and memory.

A session is the standard input and output of a program, ssh by default. Messages are framed as chunks, or by the end
marker of NETCONF 1.0. An error of the device becomes one sentence.
"""

import os
import re
import selectors
import subprocess
import time
import xml.etree.ElementTree as ET

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
BASE_1_0 = "urn:ietf:params:netconf:base:1.0"
BASE_1_1 = "urn:ietf:params:netconf:base:1.1"
CAPABILITY = "urn:ietf:params:netconf:capability:"

MESSAGE_MAX = 16 << 20
END = b"]]>]]>"
COMPLAINT_MAX = 1024
SHOWN_MAX = 200


class Refused(Exception):
    """The device says no: the change can be made later at best."""


class Locked(Refused):
    """Another session holds the lock of a datastore."""


class Unreachable(Exception):
    """The device does not answer: it is not known whether the change was made."""


class Silent(Unreachable):
    """The device has not answered in time."""


def element(name, *content, namespace=BASE, **attributes):
    """Return an element with a text or with children."""
    one = ET.Element(f"{{{namespace}}}{name}", attributes)
    for part in content:
        if isinstance(part, str):
            one.text = part
        else:
            one.append(part)
    return one


def shown(text):
    """Return foreign text on one line, in a form that a message can show."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= SHOWN_MAX else line[:SHOWN_MAX] + "..."


class Session:
    """Session with a device. The owner sets `deadline`, a monotonic time, before each request."""

    def __init__(self, command, deadline):
        self.deadline = deadline
        self.received, self.complaint = bytearray(), b""
        self.is_chunked, self.number, self.asked = False, 0, "hello"
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as why:
            raise Unreachable(f"cannot run {command[0]}: {why.strerror}") from why
        self.selector = selectors.DefaultSelector()
        for pipe in (self.process.stdout, self.process.stderr):
            self.selector.register(pipe, selectors.EVENT_READ)
        os.set_blocking(self.process.stdin.fileno(), False)
        try:
            self._greet()
        except Unreachable:
            self.close()
            raise

    def _greet(self):
        versions = [element("capability", one) for one in (BASE_1_0, BASE_1_1)]
        self._send(element("hello", element("capabilities", *versions)))
        hello = self._receive()
        if hello.tag != f"{{{BASE}}}hello":
            raise Unreachable("the device did not begin with the hello of NETCONF")
        found = hello.iterfind(f"{{{BASE}}}capabilities/{{{BASE}}}capability")
        # parameters follow behind a question mark
        self.capabilities = {(one.text or "").strip().split("?")[0] for one in found}
        self.is_chunked = BASE_1_1 in self.capabilities
        if not self.is_chunked and BASE_1_0 not in self.capabilities:
            raise Unreachable("the device speaks neither version 1.0 nor 1.1 of NETCONF")

    def has(self, name):
        """Return true if the device has a capability of RFC 6241, in any version."""
        return any(one.startswith(f"{CAPABILITY}{name}:") for one in self.capabilities)

    def is_alive(self):
        """Return true unless the program has ended."""
        return self.process.poll() is None

    def close(self):
        """End the session. The device gives its locks back, and takes back a commit that was not confirmed."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        self.process.kill()
        self.process.wait()
        self.selector.close()

    def call(self, operation):
        """Make a request, and return the reply. Raise the error of the device as one sentence."""
        self.number, self.asked = self.number + 1, name_of(operation)
        request = element("rpc", operation)
        request.set("message-id", str(self.number))
        self._send(request)
        reply = self._receive()
        if reply.tag != f"{{{BASE}}}rpc-reply" or reply.get("message-id") != str(self.number):
            raise Unreachable(f"the device answered {self.asked} with something else than its reply")
        for error in reply.iterfind(f"{{{BASE}}}rpc-error"):
            if (error.findtext(f"{{{BASE}}}error-severity") or "").strip() != "warning":
                raise fault(self.asked, error)
        return reply

    def _send(self, message):
        text = ET.tostring(message, encoding="utf-8", xml_declaration=True)
        data = b"\n#%d\n%s\n##\n" % (len(text), text) if self.is_chunked else text + END
        view = memoryview(data)
        with selectors.DefaultSelector() as writing:
            writing.register(self.process.stdin, selectors.EVENT_WRITE)
            while view:
                if not writing.select(self._left()) or self._is_late():
                    raise self._late()
                try:
                    view = view[os.write(self.process.stdin.fileno(), view) :]
                except BlockingIOError:
                    continue
                except OSError:
                    raise Unreachable(self._ended()) from None

    def _receive(self):
        take = self._take_chunks if self.is_chunked else self._take_marked
        while (message := take()) is None:
            if len(self.received) > MESSAGE_MAX:
                raise Unreachable(f"the device sent a message of more than {MESSAGE_MAX >> 20} MiB")
            self._read()
        try:
            text = message.decode("utf-8")
            # RFC 6241, section 3, forbids it, and it could define entities
            if "<!DOCTYPE" in text:
                raise Unreachable("the device sent a document type declaration, which NETCONF forbids")
            return ET.fromstring(text.strip())
        except (UnicodeDecodeError, ET.ParseError) as why:
            raise Unreachable(f"the device sent a message that is no XML: {shown(str(why))}") from None

    def _read(self):
        """Wait for more octets."""
        ready = self.selector.select(self._left())
        # octets that never end, such as those of a standard error, do not extend the time
        if not ready or self._is_late():
            raise self._late()
        for key, _ in ready:
            data = os.read(key.fd, 1 << 16)
            if key.fileobj is self.process.stderr:
                self.complaint = (self.complaint + data)[-COMPLAINT_MAX:]
                if not data:
                    self.selector.unregister(key.fileobj)
            elif data:
                self.received += data
            else:
                raise Unreachable(self._ended())

    def _take_marked(self):
        end = self.received.find(END)
        if end < 0:
            return None
        message = bytes(self.received[:end])
        del self.received[: end + len(END)]
        return message

    def _take_chunks(self):
        """Return the next message, or None if it is not complete (RFC 6242, section 4.2)."""
        message, at = bytearray(), 0
        while True:
            head = CHUNK.match(self.received, at)
            if head is None:
                if len(self.received) - at >= HEAD_MAX:
                    raise Unreachable("the device sent a chunk without a valid length")
                return None
            if head[1] == b"#":
                del self.received[: head.end()]
                return bytes(message)
            at = head.end() + int(head[1])
            if len(self.received) < at:
                if int(head[1]) > MESSAGE_MAX:
                    raise Unreachable(f"the device sent a message of more than {MESSAGE_MAX >> 20} MiB")
                return None
            message += self.received[head.end() : at]

    def _left(self):
        return max(0.0, self.deadline - time.monotonic())

    def _is_late(self):
        return time.monotonic() >= self.deadline

    def _late(self):
        return Silent(f"the device did not answer {self.asked} in time")

    def _ended(self):
        """Return the reason for the end of the program: the last line of its standard error."""
        for _ in range(64):
            # the program may have ended before its complaint was read
            if self.process.stderr not in {key.fileobj for key in self.selector.get_map().values()}:
                break
            if not any(key.fileobj is self.process.stderr for key, _ in self.selector.select(min(self._left(), 0.5))):
                break
            data = os.read(self.process.stderr.fileno(), 1 << 16)
            if not data:
                break
            self.complaint = (self.complaint + data)[-COMPLAINT_MAX:]
        lines = [shown(line) for line in self.complaint.decode("utf-8", "replace").splitlines() if line.strip()]
        return f"the connection has ended: {lines[-1]}" if lines else "the device closed the connection"


CHUNK = re.compile(rb"\n#([1-9][0-9]{0,9}|#)\n")
HEAD_MAX = 13  # octets of the longest head of a chunk


def name_of(operation):
    """Return the name of an operation without its namespace."""
    return operation.tag.rpartition("}")[2]


def fault(name, error):
    """Return an error of the device (RFC 6241, section 4.3) as exception with one sentence."""
    text = {one: shown(error.findtext(f"{{{BASE}}}error-{one}") or "") for one in ("tag", "message", "path", "app-tag")}
    info = error.find(f"{{{BASE}}}error-info")
    details = {} if info is None else {name_of(one): shown(one.text or "") for one in info}
    if text["tag"] in ("lock-denied", "in-use"):
        holder = details.get("session-id", "")
        if holder not in ("", "0"):
            return Locked(f"session {holder} of the device holds the lock; wait for its end, or end it with kill-session")
        what = (text["message"] or text["tag"]).rstrip(".")
        return Locked(f"the device refused {name}: {what}; another client uses its configuration")
    why = text["message"] or text["app-tag"] or text["tag"] or "no reason given"
    where = text["path"] or details.get("bad-element", "")
    sentence = f"the device refused {name}: {why.rstrip('.')}" + (f", at {where}" if where else "")
    if text["tag"] in ("rollback-failed", "partial-operation"):
        return Unreachable(f"{sentence}; its configuration may have changed in part")
    return Refused(sentence)
