"""A requester written from the schemas, with nothing of the provider's own code.

It prints its port, reads the URL of the provider, and ends with status 0 if all answers are right.
"""

import collections
import http.server
import json
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta, timezone

SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
HEAD = "http://schemas.ogf.org/nsi/2013/12/framework/headers"
TYPES = "http://schemas.ogf.org/nsi/2013/12/connection/types"
P2P = "http://schemas.ogf.org/nsi/2013/12/services/point2point"
SERVICE = "http://services.ogf.org/nsi/2013/12/descriptions/EVTS.A-GOLE"
NSA = "urn:ogf:network:example.org:2026:nsa:requester"
PROVIDER = "urn:ogf:network:example.net:2026:nsa:provider"
NET = "urn:ogf:network:example.net:2026:topology"
PATIENCE = 20

# order of the children of each type, as in the schemas
STATES = ["reservationState", "provisionState", "lifecycleState", "dataPlaneStatus"]
NOTE = ["connectionId", "notificationId", "timeStamp"]
CRITERIA = ["schedule", "serviceType", "children", "{%s}p2ps" % P2P]
EXCEPTION = ["nsaId", "connectionId", "serviceType", "errorId", "text", "variables"]
CONFIRMED = ["connectionId", "globalReservationId", "description", "criteria"]
FAILED = ["connectionId", "connectionStates", "serviceException"]
ORDER = {
    "nsiHeader": ["protocolVersion", "correlationId", "requesterNSA", "providerNSA", "replyTo"],
    "reserveResponse": ["connectionId"],
    "acknowledgment": [],
    "reserveConfirmed": CONFIRMED,
    "criteria": CRITERIA,
    "schedule": ["startTime", "endTime"],
    "p2ps": ["capacity", "directionality", "symmetricPath", "sourceSTP", "destSTP", "ero"],
    "reserveFailed": FAILED,
    "reserveCommitFailed": FAILED,
    "connectionStates": STATES,
    "dataPlaneStatus": ["active", "version", "versionConsistent"],
    "serviceException": EXCEPTION,
    "reservation": CONFIRMED + ["requesterNSA", "connectionStates", "notificationId", "resultId"],
    "errorEvent": NOTE + ["event", "originatingConnectionId", "originatingNSA", "additionalInfo", "serviceException"],
    "reserveTimeout": NOTE + ["timeoutValue", "originatingConnectionId", "originatingNSA"],
    "dataPlaneStateChange": NOTE + ["dataPlaneStatus"],
}
for verb in ["reserveCommit", "reserveAbort", "provision", "release", "terminate"]:
    ORDER[verb + "Confirmed"] = ["connectionId"]

received = collections.deque()
arrived = threading.Condition()
failures = {"left": 1}


def local(element):
    return element.tag.rsplit("}", 1)[-1]


def check_order(element):
    """Fails if an element has children in another order than the schema."""
    known = ORDER.get(local(element))
    if known is not None:
        names = [child.tag for child in element]
        places = [known.index(name) for name in names if name in known]
        assert len(places) == len(names), (element.tag, names)
        assert places == sorted(places), (element.tag, names)
    for child in element:
        check_order(child)


class Callback(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if failures["left"] > 0:
            failures["left"] -= 1
            self.send_error(503)
            return
        root = ET.fromstring(body)
        check_order(root)
        message = root.find("{%s}Body" % SOAP)[0]
        header = root.find("{%s}Header/{%s}nsiHeader" % (SOAP, HEAD))
        assert header.findtext("protocolVersion").endswith("v2.requester+soap"), body
        assert header.findtext("requesterNSA") == NSA
        assert header.findtext("providerNSA") == PROVIDER
        wanted = '"http://schemas.ogf.org/nsi/2013/12/connection/service/%s"' % local(message)
        assert self.headers["SOAPAction"] == wanted, self.headers
        answer = b'<e:Envelope xmlns:e="%s"><e:Body/></e:Envelope>' % SOAP.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        with arrived:
            received.append((header.findtext("correlationId"), message))
            arrived.notify_all()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Callback)
threading.Thread(target=server.serve_forever, daemon=True).start()
REPLY = "http://127.0.0.1:%d/nsi/" % server.server_port
print("port", server.server_port, flush=True)
url = sys.stdin.readline().strip()


def correlation():
    return "urn:uuid:" + str(uuid.uuid4())


def envelope(body, cid, reply=REPLY, nsa=NSA, provider=PROVIDER):
    reply = "<replyTo>%s</replyTo>" % reply if reply else ""
    return (
        '<?xml version="1.0"?><env:Envelope xmlns:env="%s"><env:Header><hd:nsiHeader xmlns:hd="%s">'
        "<protocolVersion>application/vnd.ogf.nsi.cs.v2.provider+soap</protocolVersion>"
        "<correlationId>%s</correlationId><requesterNSA>%s</requesterNSA><providerNSA>%s</providerNSA>%s"
        '</hd:nsiHeader></env:Header><env:Body xmlns:ct="%s">%s</env:Body></env:Envelope>'
        % (SOAP, HEAD, cid, nsa, provider, reply, TYPES, body)
    )


def post(text, token="agg"):
    data = text if isinstance(text, bytes) else text.encode()
    headers = {"Content-Type": "text/xml; charset=utf-8", "Authorization": "Bearer " + token}
    request = urllib.request.Request(url + "/nsi/v2/provider", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def ask(body, cid=None, **header):
    """Sends a request, and returns its correlation and the message of the response."""
    cid = cid or correlation()
    status, answer = post(envelope(body, cid, **header))
    assert status == 200, (status, answer)
    root = ET.fromstring(answer)
    check_order(root)
    assert root.find("{%s}Header/{%s}nsiHeader/correlationId" % (SOAP, HEAD)).text == cid
    return cid, root.find("{%s}Body" % SOAP)[0]


def refused(text, code, token="agg"):
    """Sends a wrong request, and checks the code of the fault."""
    status, answer = post(text, token)
    assert status == 500, (status, answer)
    fault = ET.fromstring(answer).find("{%s}Body/{%s}Fault" % (SOAP, SOAP))
    exception = fault.find("detail/{%s}serviceException" % TYPES)
    check_order(exception)
    assert exception.findtext("errorId") == code, (code, answer)
    assert exception.findtext("nsaId") == PROVIDER


def wait(cid, name):
    """Returns the message with this correlation, or with this name if there is none."""
    end = time.monotonic() + PATIENCE
    with arrived:
        while True:
            for item in received:
                if (cid is None or item[0] == cid) and local(item[1]) == name:
                    received.remove(item)
                    return item[1]
            left = end - time.monotonic()
            assert left > 0, "no %s, only %s" % (name, [local(m) for _, m in received])
            arrived.wait(left)


def stamp(seconds):
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def reserve_body(capacity=300, source="a?vlan=100", dest="c", start=None, end=3600, extra="", symmetric="true"):
    start = "<startTime>%s</startTime>" % stamp(start) if start is not None else ""
    return (
        "<ct:reserve><globalReservationId>urn:uuid:g1</globalReservationId><description>night &amp; day</description>"
        '<criteria version="1"><schedule>%s<endTime>%s</endTime></schedule><serviceType>%s</serviceType>'
        '<pp:p2ps xmlns:pp="%s"><capacity>%s</capacity><directionality>Bidirectional</directionality>'
        "<symmetricPath>%s</symmetricPath><sourceSTP>%s:%s</sourceSTP><destSTP>%s:%s</destSTP>%s</pp:p2ps>"
        "</criteria></ct:reserve>" % (start, stamp(end), SERVICE, P2P, capacity, symmetric, NET, source, NET, dest, extra)
    )


def on(verb, connection):
    return "<ct:%s><connectionId>%s</connectionId></ct:%s>" % (verb, connection, verb)


def reserve(**how):
    cid, answer = ask(reserve_body(**how))
    assert local(answer) == "reserveResponse"
    return cid, answer.findtext("connectionId")


def held(**how):
    cid, connection = reserve(**how)
    confirmed = wait(cid, "reserveConfirmed")
    assert confirmed.findtext("connectionId") == connection
    return connection, confirmed


def act(verb, connection):
    cid, answer = ask(on(verb, connection))
    assert local(answer) == "acknowledgment"
    confirmed = wait(cid, verb + "Confirmed")
    assert confirmed.findtext("connectionId") == connection


def data_plane(active):
    change = wait(None, "dataPlaneStateChange")
    assert change.findtext("dataPlaneStatus/active") == active, ET.tostring(change)


def states(connection):
    _, answer = ask(on("querySummarySync", connection), reply=None)
    assert local(answer) == "querySummarySyncConfirmed"
    found = answer.find("reservation")
    return found, tuple(found.find("connectionStates")[nth].text for nth in range(3))


def life():
    connection, confirmed = held()
    criteria = confirmed.find("criteria")
    assert criteria.get("version") == "1"
    assert criteria.findtext("{%s}p2ps/sourceSTP" % P2P) == NET + ":a?vlan=100"
    assert confirmed.findtext("description") == "night & day"
    refused(envelope(on("provision", connection), correlation()), "00201")
    act("reserveCommit", connection)
    act("provision", connection)
    data_plane("true")
    before = states(connection)[1]
    assert before == ("ReserveStart", "Provisioned", "Created"), before
    restart()
    found, after = states(connection)
    assert after == before
    assert found.findtext("connectionStates/dataPlaneStatus/active") == "true"
    assert found.findtext("criteria/{%s}p2ps/capacity" % P2P) == "300"
    act("release", connection)
    data_plane("false")
    act("provision", connection)
    data_plane("true")
    queries(connection)
    act("terminate", connection)
    data_plane("false")
    assert states(connection)[1][2] == "Terminated"
    refused(envelope(on("provision", connection), correlation()), "00204")


def queries(connection):
    listed = on("queryNotificationSync", connection)
    _, answer = ask(listed)
    assert [local(one) for one in answer] == ["dataPlaneStateChange"] * 3, ET.tostring(answer)
    ranged = listed.replace("</connectionId>", "</connectionId><startNotificationId>2</startNotificationId>")
    assert len(ask(ranged)[1]) == 2
    _, answer = ask(on("queryResultSync", connection))
    names = [local(one[3]) for one in answer]
    assert names == [
        "reserveConfirmed", "reserveCommitConfirmed", "provisionConfirmed", "releaseConfirmed", "provisionConfirmed",
    ], names
    for verb in ["querySummary", "queryRecursive", "queryNotification", "queryResult"]:
        cid, answer = ask(on(verb, connection))
        assert local(answer) == "acknowledgment"
        assert len(wait(cid, verb + "Confirmed")) > 0
    named = "<ct:querySummarySync><globalReservationId>urn:uuid:g1</globalReservationId></ct:querySummarySync>"
    assert len(ask(named)[1]) >= 1
    later = "<ct:querySummarySync><ifModifiedSince>%s</ifModifiedSince></ct:querySummarySync>" % stamp(60)
    assert len(ask(later)[1]) == 0


def repeated():
    cid = correlation()
    body = reserve_body(capacity=10, source="a?vlan=100-110", start=7200, end=7300)
    first = post(envelope(body, cid))
    wait(cid, "reserveConfirmed")
    again = post(envelope(body, cid))
    assert first == again, again
    connection = wait(cid, "reserveConfirmed").findtext("connectionId")
    refused(envelope(body.replace("night", "noon"), cid), "00100")
    act("reserveAbort", connection)
    assert states(connection)[1][0] == "ReserveStart"
    act("terminate", connection)


def contended():
    """The links carry 1000 Mb/s."""
    times = {"start": 8000, "end": 9000}
    first, _ = held(capacity=600, **times)
    act("reserveCommit", first)
    cid, second = reserve(capacity=600, source="a?vlan=101-102", **times)
    failed = wait(cid, "reserveFailed")
    assert failed.findtext("serviceException/errorId") == "00705", ET.tostring(failed)
    assert failed.findtext("connectionStates/reservationState") == "ReserveFailed"
    act("terminate", second)
    refused(envelope(reserve_body(capacity=1, **times), correlation()), "00704")
    after, _ = held(capacity=1000, start=9000.5, end=9500)
    act("terminate", after)
    act("terminate", first)


def expired():
    for after in ["reserveCommit", "reserveAbort"]:
        connection, _ = held(capacity=5, start=10000, end=10100)
        timeout = wait(None, "reserveTimeout")
        assert timeout.findtext("originatingConnectionId") == connection
        assert int(timeout.findtext("timeoutValue")) >= 1
        assert states(connection)[1][0] == "ReserveTimeout"
        if after == "reserveAbort":
            act(after, connection)
        else:
            cid, _ = ask(on(after, connection))
            failed = wait(cid, "reserveCommitFailed")
            assert failed.findtext("connectionStates/reservationState") == "ReserveStart"
        act("terminate", connection)


def forced():
    """An operator ends the reservation of a connection."""
    connection, _ = held(capacity=7, start=11000, end=11100)
    act("reserveCommit", connection)
    headers = {"Authorization": "Bearer olga"}
    listed = urllib.request.Request(url + "/v1/reservations?state=committed", headers=headers)
    with urllib.request.urlopen(listed, timeout=PATIENCE) as answer:
        numbers = [one["id"] for one in json.load(answer)["items"]]
    assert len(numbers) == 2, numbers
    cancel = urllib.request.Request(url + "/v1/reservations/%d" % numbers[0], headers=headers, method="DELETE")
    urllib.request.urlopen(cancel, timeout=PATIENCE).close()
    event = wait(None, "errorEvent")
    assert (event.findtext("event"), event.findtext("connectionId")) == ("forcedEnd", connection)
    assert states(connection)[1][2] == "Failed"
    act("terminate", connection)


def ended():
    connection, _ = held(capacity=8, end=13)
    act("reserveCommit", connection)
    act("provision", connection)
    data_plane("true")
    data_plane("false")
    limit = time.monotonic() + PATIENCE
    while states(connection)[1][2] != "PassedEndTime":
        assert time.monotonic() < limit
        time.sleep(0.05)
    act("terminate", connection)


def wrong():
    def fault(code, text, token="agg"):
        refused(text, code, token)

    good = reserve_body(start=20000, end=20100)
    new = correlation
    fault("00100", envelope(good.replace("ct:reserve>", "ct:reserved>"), new()))
    fault("00100", envelope(good, new()).replace(TYPES, TYPES + "/other"))
    fault("00101", envelope(good, new()).replace("hd:nsiHeader", "hd:other"))
    fault("00101", envelope(good, new()).replace("<requesterNSA>" + NSA + "</requesterNSA>", ""))
    fault("00101", envelope(good, new(), reply=None))
    fault("00104", envelope(good, new()).replace("cs.v2.provider", "cs.v1.provider"))
    fault("00100", envelope(good, "1"))
    fault("00102", envelope(good, new(), provider="urn:other"))
    fault("00302", envelope(good, new(), nsa="urn:other"))
    fault("00302", envelope(good, new()), token="ada")
    for reply in ["http://127.0.0.1:1/nsi/", "http://169.254.169.254/", "file:///etc/passwd", REPLY + "../x"]:
        fault("00302", envelope(good, new(), reply=reply))
        query = on("querySummary", "x")
        fault("00302", envelope(query, new(), reply=reply))
    fault("00701", envelope(reserve_body(source="z"), new()))
    fault("00702", envelope(reserve_body(source="a?vlan=4000"), new()))
    fault("00702", envelope(reserve_body(source="a?vlan=x"), new()))
    fault("00702", envelope(reserve_body(dest="c?vlan=5"), new()))
    fault("00705", envelope(reserve_body(capacity=0), new()))
    fault("00705", envelope(reserve_body(capacity=2**62), new()))
    fault("00100", envelope(reserve_body(capacity="2e3"), new()))
    fault("00100", envelope(reserve_body(start=-3600), new()))
    fault("00100", envelope(reserve_body(start=200, end=100), new()))
    fault("00100", envelope(reserve_body(source="c", dest="c"), new()))
    fault("00102", envelope(good.replace(SERVICE, "urn:other"), new()))
    fault("00701", envelope(reserve_body(extra='<ero><orderedSTP order="0"><stp>x</stp></orderedSTP></ero>'), new()))
    fault("00102", envelope(reserve_body(extra='<parameter type="x">y</parameter>'), new()))
    fault("00203", envelope(on("reserveCommit", "none"), new()))
    fault("00100", envelope(on("provisionConfirmed", "none"), new()))
    bomb = '<!DOCTYPE b [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>' + envelope("<x>&b;</x>", new()).split("?>")[1]
    fault("00100", bomb)
    fault("00100", "not xml")
    fault("00100", b"\xff\xfe")
    status, _ = post(b"<" * (10 << 20))
    assert status == 413, status
    status, _ = post(envelope(good, new()), "nobody")
    assert status == 401, status
    cid, connection = reserve(capacity=1001, start=20000, end=20100)
    failed = wait(cid, "reserveFailed")
    assert failed.findtext("serviceException/errorId") == "00705"
    act("terminate", connection)


def documents():
    headers = {"Authorization": "Bearer agg"}

    def read(path, kind):
        request = urllib.request.Request(url + path, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.headers["Content-Type"] == kind
            return ET.fromstring(answer.read())

    nml = "{http://schemas.ogf.org/nml/2013/05/base#}"
    topology = read("/nsi/v2/topology", "application/vnd.ogf.nsi.topology.v2+xml")
    assert (topology.tag, topology.get("id")) == (nml + "Topology", NET)
    ports = [port.get("id") for port in topology.findall(nml + "BidirectionalPort")]
    assert ports == [NET + ":a", NET + ":c"], ports
    inside = {group.get("id") for group in topology.findall("%sRelation/%sPortGroup" % (nml, nml))}
    for port in topology.findall(nml + "BidirectionalPort"):
        ends = [end.get("id") for end in port.findall(nml + "PortGroup")]
        assert len(ends) == 2 and inside.issuperset(ends), ends
    labels = topology.find("%sRelation/%sPortGroup/%sLabelGroup" % (nml, nml, nml))
    assert labels.text == "100-110"
    assert len(topology.findall(nml + "Node")) == 5
    agent = read("/nsi/v2/nsa", "application/vnd.ogf.nsi.nsa.v1+xml")
    assert agent.get("id") == PROVIDER
    assert agent.findtext("networkId") == NET
    order = [local(child) for child in agent]
    assert order == ["name", "softwareVersion", "startTime", "networkId", "interface", "interface", "feature", "peersWith"]


def restart():
    global url
    print("restart", flush=True)
    url = sys.stdin.readline().strip()


for part in [life, repeated, contended, expired, forced, ended, wrong, documents]:
    part()
    with arrived:
        left = [local(message) for _, message in received]
    assert not left, (part.__name__, left)
    print("done", part.__name__, flush=True)
