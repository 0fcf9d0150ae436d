//! Decoders of replies about circuits: JSON of driver programs, and netlink messages of the kernel.

use lighthaul_circuit::exec::Answer;
use lighthaul_circuit::linux::tc_object::{self, TcObject};

/// Reads the reply of a driver program. Its rates, changes and circuits are within bounds.
pub fn answer(octets: &[u8]) {
    let Ok(answer) = Answer::parse(octets) else {
        return;
    };
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
