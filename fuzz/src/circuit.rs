//! Decoders of replies about circuits: JSON of driver programs, netlink messages of the kernel, and TL1 of switches.

use lighthaul_circuit::exec::Answer;
use lighthaul_circuit::linux::tc_object::{self, TcObject};
use lighthaul_circuit::tl1::dialect::Dialect;
use lighthaul_circuit::tl1::message::{Decoder, Malformed, Message};

/// Reads the reply of a driver program. Its rates, changes and circuits are within bounds.
pub fn answer(octets: &[u8]) {
    let Ok(answer) = Answer::parse(octets) else {
        return;
    };
    assert!(answer.refusal().is_none_or(|why| why.len() <= 1000));
    let checked = answer.capabilities().map(|able| able.check());
    if let Some(Err(why)) = checked {
        assert!(!why.to_string().is_empty());
    }
    for count in 0..3 {
        let results = answer.results(count);
        assert!(results.is_none_or(|results| results.len() == count));
        let circuits = answer.circuits(count);
        assert!(circuits.is_none_or(|circuits| circuits.len() <= count));
    }
    for circuit in answer.circuits(usize::MAX).unwrap_or_default() {
        if let Some(flow) = circuit.flow {
            assert_eq!(flow.to_string().parse(), Ok(flow));
        }
    }
}

/// Reads the kernel's messages about an interface. The number of results is bounded by the octets.
pub fn netlink(octets: &[u8]) {
    let said = tc_object::read(octets);
    // a message has a header of 16 octets
    assert!(said.len() <= octets.len() / 16);
    for one in said {
        match one {
            TcObject::Discipline { kind, .. } => assert!(kind.len() < octets.len()),
            TcObject::Class { rate, .. } => assert!(rate.as_bps() > 0),
            TcObject::Filter { flow, .. } => {
                if let Some(flow) = flow {
                    assert_eq!(flow.to_string().parse(), Ok(flow));
                }
            }
        }
    }
}

/// Reads the octets of a switch, in pieces whose length is the first octet. The messages do not depend on it, and their
/// lines are read in each dialect.
pub fn tl1(octets: &[u8]) {
    let Some((piece, octets)) = octets.split_first() else {
        return;
    };
    let messages = tl1_messages(octets, usize::from(*piece).max(1));
    assert_eq!(messages, tl1_messages(octets, octets.len().max(1)));
    let dialects = [
        Dialect::Calient,
        Dialect::Glimmerglass,
        Dialect::Cisco {
            signal: "STS1".to_owned(),
        },
    ];
    for message in messages.0 {
        let Message::Response(response) = message else {
            continue;
        };
        let (_, reason) = response.reason();
        assert!(reason.len() < 1000);
        for line in &response.lines {
            for dialect in &dialects {
                for entry in dialect.parse_line(line).unwrap_or_default() {
                    assert!(entry.power_dbm.is_none_or(f64::is_finite));
                    let text = dialect.disconnect(&entry.cross_connect).text("1");
                    assert_eq!(text.matches(';').count(), 1);
                }
            }
        }
    }
}

fn tl1_messages(octets: &[u8], piece: usize) -> (Vec<Message>, Option<Malformed>) {
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    for piece in octets.chunks(piece) {
        let taken = decoder.push(piece);
        messages.extend(std::iter::from_fn(|| decoder.pop()));
        if let Err(why) = taken {
            return (messages, Some(why));
        }
    }
    (messages, decoder.end().err())
}
