//! Faults of the library in terms of the command line, which has options instead of request fields.

use lighthaul::Fault;
use lighthaul_session::error::Error;

use crate::error::{self, usage};

/// Returns the error with the names of options.
pub(super) fn in_options(error: Error) -> Error {
    let Some(fault) = error.fault() else {
        return error;
    };
    let text = match fault {
        Fault::ExactTarget => {
            "-T gives one source a new name; omit it to copy several into a directory"
        }
        Fault::ListBase => {
            "--files-from needs exactly one source, a directory; its paths are relative to it"
        }
        Fault::GatewayBetween => {
            "--gateway needs a source or target on this host: between two remote hosts no data crosses it"
        }
        Fault::PinForTwo => {
            "--pin names one key, but this copy has two daemons: use `lighthaul trust`"
        }
        Fault::CircuitThroughGateway => {
            "circuits need datagrams, which do not pass a gateway: omit --book and --trc, or omit --gateway"
        }
        Fault::DatagramsThroughGateway(protocol) => {
            return usage(format!(
                "--protocol {protocol} needs datagrams, which do not pass a gateway: use tcp, ptcp or auto"
            ));
        }
        Fault::ListSize => {
            "the size of a list on standard input is unknown: give it with --book-size"
        }
        Fault::PathSize => {
            "the size of files on another host is unknown before the path starts: give it with --book-size"
        }
        Fault::NoName => "this host has no name: give its name in the topology with --node",
        Fault::StopTime => return error::Fault::StopTime.into(),
        Fault::LateEnd {
            refused,
            epilogue,
            deadline,
        } => {
            return error::Fault::LateEnd {
                refused: refused.clone(),
                epilogue: *epilogue,
                deadline: deadline.clone(),
            }
            .into();
        }
        Fault::NoSource
        | Fault::SeveralHosts
        | Fault::ListTaken
        | Fault::ManyPlaces
        | Fault::TokenForTwo
        | Fault::NoScheduler
        | Fault::Packets(_)
        | Fault::Wait(_)
        | Fault::Thread(_)
        | Fault::NoAddress(_)
        | Fault::NoRoute { .. }
        | Fault::Reservation { .. }
        | _ => return error,
    };
    usage(text)
}
