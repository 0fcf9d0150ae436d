//! Decoders of gateways: handshakes of programs, targets, rules of operators, and messages of other
//! gateways.

use lighthaul_base::codec::Reader;
use lighthaul_capture::connect::Connect;
use lighthaul_capture::credentials::Credentials;
use lighthaul_capture::handshake::{Handshake, Progress};
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::socks::Socks;
use lighthaul_capture::target::Target;
use lighthaul_gateway::address::arp::Request;
use lighthaul_gateway::address::sockets;
use lighthaul_gateway::local_address;
use lighthaul_gateway::messages::{
    Greeting, Opening, decode_reached, decode_refusal, encode_reached, encode_refusal,
};
use lighthaul_gateway::target_rules::TargetRule;

/// Runs the SOCKS5 handshake, with or without a password. The split of the octets makes no
/// difference.
pub fn socks(octets: &[u8]) {
    uncut(octets, |credentials| Box::new(Socks::new(credentials)));
}

/// Runs the HTTP CONNECT handshake in the same way.
pub fn connect(octets: &[u8]) {
    uncut(octets, |credentials| Box::new(Connect::new(credentials)));
}

/// Reads a target of a peer or a program. What was read stays the same as octets and as text.
pub fn target(octets: &[u8]) {
    if let Ok(target) = Target::read(&mut Reader::new(octets)) {
        let mut out = Vec::new();
        target.put(&mut out);
        let mut reader = Reader::new(&out);
        assert_eq!(Target::read(&mut reader).as_ref(), Ok(&target));
        assert!(reader.is_empty());
        assert_eq!(target.to_string().parse().as_ref(), Ok(&target));
    }
}

/// Reads a rule of an operator. What was read stays the same when it is written and read again.
pub fn target_rules(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    if let Ok(rule) = text.parse::<TargetRule>() {
        assert_eq!(rule.to_string().parse().as_ref(), Ok(&rule));
    }
}

/// Reads a frame that may ask for an address. The reply is no request.
pub fn arp(octets: &[u8]) {
    if let Some(request) = Request::decode(octets) {
        let answer = request.answer([2; 6]);
        assert_eq!(answer[..6], request.mac);
        assert_eq!(answer[38..], request.address.octets());
        assert_eq!(Request::decode(&answer), None);
    }
}

/// Reads the kernel's answer about a route. What follows the route makes no difference.
pub fn local_address(octets: &[u8]) {
    let said = local_address::read(octets);
    if said.is_ok() {
        assert_eq!(local_address::read(&[octets, &[0xff; 8]].concat()), said);
    }
}

/// Reads a line of the kernel's list of sockets. A line that is accepted names an address and a state in hexadecimal.
pub fn sockets(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    if let Some((address, state)) = sockets::parse(&text) {
        let word = u32::from_ne_bytes(address.octets());
        let text = text.to_ascii_lowercase();
        assert!(text.contains(&format!("{word:x}")) && text.contains(&format!("{state:x}")));
    }
}

/// Reads what another gateway. What was read stays the same when it is encoded and decoded
/// again.
pub fn messages(octets: &[u8]) {
    if let Ok(greeting) = postcard::from_bytes::<Greeting>(octets) {
        let crossed = postcard::to_allocvec(&greeting).expect("a greeting has octets");
        assert_eq!(postcard::from_bytes(&crossed), Ok(greeting));
    }
    if let Ok(opening) = Opening::decode(octets) {
        assert_eq!(Opening::decode(&opening.encode()), Ok(opening));
    }
    if let Ok(from) = decode_reached(octets) {
        assert_eq!(decode_reached(&encode_reached(from)), Ok(from));
    }
    let why = decode_refusal(octets);
    assert_eq!(decode_refusal(&encode_refusal(why)), why);
}

/// Octets of the replies, and the result of the handshake.
type Outcome = (Vec<u8>, Option<Result<(Target, Vec<u8>), String>>);

/// Fails if the split of the octets changes the result. The first octet selects the password and
/// the split.
fn uncut(octets: &[u8], make: impl Fn(Option<Credentials>) -> Box<dyn Handshake>) {
    let Some((first, octets)) = octets.split_first() else {
        return;
    };
    let make = || {
        let credentials = Credentials::new("alice", "secret").expect("they are short");
        make((first & 1 == 1).then_some(credentials))
    };
    let whole = outcome(make().as_mut(), octets, octets.len().max(1));
    assert_eq!(outcome(make().as_mut(), octets, 1), whole);
    let cut = usize::from(first >> 1) + 1;
    assert_eq!(outcome(make().as_mut(), octets, cut), whole);
}

fn outcome(handshake: &mut dyn Handshake, octets: &[u8], cut: usize) -> Outcome {
    let mut said = Vec::new();
    let mut taken = 0;
    for piece in octets.chunks(cut) {
        taken += piece.len();
        match handshake.take(piece) {
            Progress::More { reply } => said.extend(reply),
            Progress::Wants { target, mut rest } => {
                assert!(
                    octets[..taken].ends_with(&rest),
                    "the octets after the handshake are unchanged"
                );
                assert_eq!(target.to_string().parse().as_ref(), Ok(&target));
                rest.extend(&octets[taken..]);
                said.extend(handshake.answer(Err(Refusal::Busy)));
                return (said, Some(Ok((target, rest))));
            }
            Progress::Refused { reply, why } => {
                said.extend(reply);
                return (said, Some(Err(why.to_string())));
            }
        }
    }
    (said, None)
}
