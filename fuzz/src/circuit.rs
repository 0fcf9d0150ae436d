//! What devices say of their circuits: programs in JSON, the kernel over netlink.

use lighthaul_circuit::exec::Answer;
use lighthaul_circuit::linux::dump::{self, Said};

/// Reads what a program answers; what it says of rates, changes and circuits is within bounds.
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
        let standing = answer.standing(count);
        assert!(standing.is_none_or(|standing| standing.len() <= count));
    }
    for standing in answer.standing(usize::MAX).unwrap_or_default() {
        if let Some(flow) = standing.flow {
            assert_eq!(flow.to_string().parse(), Ok(flow));
        }
    }
}

/// Reads what the kernel says of an interface; a message says no more than there is in it.
pub fn netlink(octets: &[u8]) {
    let said = dump::read(octets);
    // a message has a head of its own
    assert!(said.len() <= octets.len() / 16);
    for one in said {
        match one {
            Said::Discipline { kind, .. } => assert!(kind.len() < octets.len()),
            Said::Class { rate, .. } => assert!(rate.as_bps() > 0),
            Said::Filter { flow, .. } => {
                if let Some(flow) = flow {
                    assert_eq!(flow.to_string().parse(), Ok(flow));
                }
            }
        }
    }
}
