//! What the kernel says of traffic control, as far as it is of kinds that the shaper makes or has to respect.

use lighthaul_base::Rate;

use crate::circuit::CircuitId;
use crate::flow::Flow;
use crate::linux::filter::{Found, Label};
use crate::linux::htb::{self, Class, TCA_KIND, TCA_OPTIONS};
use crate::linux::message::Reply;

/// What one message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcObject {
    /// A discipline hangs somewhere.
    Discipline {
        /// The interface's number.
        interface: u32,
        /// Its number.
        handle: u32,
        /// What it hangs on.
        parent: u32,
        /// What it is.
        kind: String,
        /// The class that gets the rest, if it is HTB.
        rest: Option<u32>,
    },
    /// HTB has a class.
    Class {
        /// The lower half of its number.
        minor: u16,
        /// Its rate.
        rate: Rate,
    },
    /// A filter carries our mark.
    Filter {
        /// The lower half of its number.
        minor: u16,
        /// The how manieth it is asked.
        priority: u16,
        /// Whose circuit it leads to.
        circuit: CircuitId,
        /// What it takes; nothing if it is not as we made it.
        flow: Option<Flow>,
        /// Whether it takes any packets now.
        is_open: bool,
    },
}

/// What messages from the kernel say, those left out that say nothing of this.
pub fn read(octets: &[u8]) -> Vec<TcObject> {
    Reply::all(octets)
        .filter_map(|reply| TcObject::of(&reply))
        .collect()
}

impl TcObject {
    /// What one message says.
    pub(crate) fn of(reply: &Reply<'_>) -> Option<Self> {
        let (subject, attributes) = (reply.subject()?, reply.attributes());
        let minor = subject.handle as u16;
        match reply.kind {
            RTM_NEWQDISC => Some(Self::Discipline {
                interface: subject.index,
                handle: subject.handle,
                parent: subject.parent,
                kind: attributes.text(TCA_KIND).unwrap_or("something").to_owned(),
                rest: htb::read_default(attributes),
            }),
            RTM_NEWTCLASS => Some(Self::Class {
                minor,
                rate: Class::read_rate(attributes)?,
            }),
            RTM_NEWTFILTER => {
                let program = attributes.nest(TCA_OPTIONS)?.find(TCA_BPF_OPS)?;
                let (circuit, flow, is_open) = match Label::read(program)? {
                    Found::Whole(label) => (label.id, Some(label.flow), label.is_open),
                    Found::Broken(id) => (id, None, false),
                };
                Some(Self::Filter {
                    minor,
                    priority: (subject.info >> 16) as u16,
                    circuit,
                    flow,
                    is_open,
                })
            }
            _ => None,
        }
    }
}

pub(crate) const RTM_NEWQDISC: u16 = 36;
pub(crate) const RTM_NEWTCLASS: u16 = 40;
pub(crate) const RTM_NEWTFILTER: u16 = 44;
pub(crate) const TCA_BPF_OPS: u16 = 5;
