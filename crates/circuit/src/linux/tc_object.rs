//! Traffic-control objects in messages of the kernel, as far as the shaper creates or reads them.

use lighthaul_base::Rate;
use lighthaul_kernel::htb::{self, Class, TCA_KIND, TCA_OPTIONS};
use lighthaul_kernel::tc_message::Reply;

use crate::circuit::CircuitId;
use crate::flow::Flow;
use crate::linux::filter::{Found, Label};

/// Traffic-control object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcObject {
    /// Queueing discipline.
    Discipline {
        /// Index of the interface.
        interface: u32,
        /// Handle.
        handle: u32,
        /// Parent.
        parent: u32,
        /// Kind.
        kind: String,
        /// Default class of an HTB discipline.
        rest: Option<u32>,
    },
    /// HTB class.
    Class {
        /// Minor number.
        minor: u16,
        /// Rate.
        rate: Rate,
    },
    /// Filter of a circuit.
    Filter {
        /// Minor number.
        minor: u16,
        /// Priority; filters with lower numbers are tried first.
        priority: u16,
        /// Number of the circuit.
        circuit: CircuitId,
        /// Flow; none if another program changed the filter.
        flow: Option<Flow>,
        /// True if the filter takes packets.
        is_open: bool,
    },
}

/// Decodes messages of the kernel; other messages are skipped.
pub fn read(octets: &[u8]) -> Vec<TcObject> {
    Reply::all(octets)
        .filter_map(|reply| TcObject::of(&reply))
        .collect()
}

impl TcObject {
    /// Decodes one message.
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
