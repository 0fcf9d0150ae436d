//! Documents that are wrong in one place each. They are written by hand from the schema.

use lighthaul_nsi::message::{Envelope, ErrorId, Message, Operation, ServiceException};
use lighthaul_nsi::xml::DecodeError;

const HEADER: &str = "<protocolVersion>application/vnd.ogf.nsi.cs.v2.provider+soap</protocolVersion>\
    <correlationId>urn:uuid:1f0e7c6e-0000-4000-8000-000000000001</correlationId>\
    <requesterNSA>urn:r</requesterNSA><providerNSA>urn:p</providerNSA>";

fn document(header: &str, body: &str) -> String {
    format!(
        "<Envelope xmlns='http://schemas.xmlsoap.org/soap/envelope/'><Header>\
         <n:nsiHeader xmlns:n='http://schemas.ogf.org/nsi/2013/12/framework/headers' xmlns=''>{header}\
         </n:nsiHeader></Header><Body>{body}</Body></Envelope>"
    )
}

fn read(header: &str, body: &str) -> Result<Envelope, DecodeError> {
    Envelope::decode(document(header, body).as_bytes(), 1 << 16)
}

const TERMINATE: &str = "<c:terminate xmlns:c='http://schemas.ogf.org/nsi/2013/12/connection/types' \
    xmlns=''><connectionId> 7 </connectionId></c:terminate>";

#[test]
fn prefixes_do_not_matter_and_unknown_header_elements_are_skipped() {
    let header = format!("{HEADER}<x:trace xmlns:x='urn:x'><x:hop/></x:trace>");
    let envelope = read(&header, TERMINATE).unwrap();
    let expected = Message::Request(Operation::Terminate, "7".to_owned());
    assert_eq!(envelope.message, expected);
    assert!(envelope.header.unwrap().has_correlation());
}

#[test]
fn faulty_documents_are_refused_with_the_name_of_the_element() {
    let other = TERMINATE.replace("2013/12/connection", "2011/10/connection");
    let twice = format!("{TERMINATE}{TERMINATE}");
    let header = HEADER.replace("<requesterNSA>urn:r</requesterNSA>", "");
    for (header, body, says) in [
        (HEADER, other.as_str(), "terminate is not expected"),
        (HEADER, "", "Body is missing"),
        (HEADER, &twice, "Body occurs more often"),
        (HEADER, "<x xmlns=''/>", "x is not expected"),
        (&header, TERMINATE, "requesterNSA is missing"),
        (
            HEADER,
            &TERMINATE.replace("connectionId", "id"),
            "connectionId is missing",
        ),
        (
            HEADER,
            &TERMINATE.replace(" 7 ", "<b/>"),
            "content of connectionId",
        ),
    ] {
        let why = read(header, body).unwrap_err().to_string();
        assert!(why.contains(says), "{says}: {why}");
    }
    let bare = document(HEADER, TERMINATE).replace("framework/headers", "framework/other");
    let bare = Envelope::decode(bare.as_bytes(), 1 << 16);
    assert_eq!(bare, Err(DecodeError::Missing("nsiHeader")));
}

#[test]
fn values_of_a_reservation_have_their_types() {
    let reserve = |criteria: &str| {
        let body = format!(
            "<c:reserve xmlns:c='http://schemas.ogf.org/nsi/2013/12/connection/types' xmlns=''>\
             {criteria}</c:reserve>"
        );
        read(HEADER, &body)
    };
    let p2p = "<q:p2ps xmlns:q='http://schemas.ogf.org/nsi/2013/12/services/point2point'>\
        <capacity>100</capacity><directionality>Bidirectional</directionality>\
        <sourceSTP>a</sourceSTP><destSTP>b</destSTP></q:p2ps>";
    let whole = format!("<criteria version='1'><schedule/>{p2p}</criteria>");
    assert!(reserve(&whole).is_ok());
    for (from, to, says) in [
        ("100", "fast", "capacity is wrong"),
        ("100", "-1", "capacity is wrong"),
        ("Bidirectional", "Both", "directionality is wrong"),
        ("'1'", "'one'", "version is wrong"),
        (
            "<schedule/>",
            "<schedule><startTime>noon</startTime></schedule>",
            "startTime is wrong",
        ),
        ("<sourceSTP>a</sourceSTP>", "", "sourceSTP is missing"),
    ] {
        let why = reserve(&whole.replace(from, to)).unwrap_err().to_string();
        assert!(why.contains(says), "{says}: {why}");
    }
    assert_eq!(reserve(""), Err(DecodeError::Missing("criteria")));
    let route = |count: usize| -> String {
        let points =
            (0..count).map(|nth| format!("<orderedSTP order='{nth}'><stp>x</stp></orderedSTP>"));
        let ero = format!("<ero>{}</ero></q:p2ps>", points.collect::<String>());
        whole.replace("</q:p2ps>", &ero)
    };
    assert!(reserve(&route(64)).is_ok());
    let why = reserve(&route(65)).unwrap_err().to_string();
    assert!(why.contains("ero is wrong"), "{why}");
}

#[test]
fn texts_of_a_peer_have_limits() {
    let reserve = |name: &str, length: usize| {
        let body = format!(
            "<c:reserve xmlns:c='http://schemas.ogf.org/nsi/2013/12/connection/types' xmlns=''>\
             <{name}>{}</{name}><criteria><schedule/></criteria></c:reserve>",
            "x".repeat(length)
        );
        read(HEADER, &body)
    };
    for name in ["globalReservationId", "description"] {
        assert!(reserve(name, 4096).is_ok());
        let why = reserve(name, 4097).unwrap_err().to_string();
        assert!(why.contains("at most 4096 bytes"), "{why}");
    }
    let error = |count: usize, length: usize| {
        let kind = "x".repeat(length);
        let variable = format!("<variable type='{kind}'><value>y</value></variable>");
        let body = format!(
            "<c:error xmlns:c='http://schemas.ogf.org/nsi/2013/12/connection/types' xmlns=''>\
             <serviceException><nsaId>urn:p</nsaId><errorId>00500</errorId><text>no</text><variables>{}\
             </variables></serviceException></c:error>",
            variable.repeat(count)
        );
        read(HEADER, &body)
    };
    assert!(error(1, 4096).is_ok() && error(64, 1).is_ok());
    for (count, length) in [(1, 4097), (65, 1)] {
        let why = error(count, length).unwrap_err().to_string();
        assert!(why.contains("at most 64 variables"), "{why}");
    }
}

#[test]
fn error_of_any_length_can_be_read_after_it_was_written() {
    let text = "\u{e4}".repeat(4096);
    let exception = ServiceException::new("urn:p", ErrorId::Internal, text);
    let message = Message::Fault(Box::new(exception));
    let document = Envelope {
        header: None,
        message,
    };
    let read = Envelope::decode(document.encode().as_bytes(), 1 << 20).unwrap();
    assert_eq!(read, document);
}
