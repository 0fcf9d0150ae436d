//! Copies through a gateway.

use lighthaul_grammar::copy::Cp;
use lighthaul_session::error::Error;
use lighthaul_session::protocol::Protocol;

use crate::copy::printer::Printer;
use crate::error::usage;

/// Refuses options that need datagrams for a copy through a gateway.
pub(crate) fn check(args: &Cp) -> Result<(), Error> {
    protocol(args).map(drop)
}

/// Returns the protocol of a copy through a gateway: one TCP connection, or several with `--streams`. The gateways
/// repair loss, so that one is as fast as several.
pub(crate) fn protocol(args: &Cp) -> Result<Option<Protocol>, Error> {
    if !args.via.through.is_any() {
        return Ok(None);
    }
    let refuse = |text: String| Err(usage(text));
    if args.trc.is_some() || args.booked.book {
        let text = "circuits need datagrams, which do not pass a gateway: omit --book and --trc, or omit --gateway";
        return refuse(text.to_owned());
    }
    let asked = args.protocol.as_deref().and_then(Protocol::named);
    match asked {
        Some(asked) if asked.is_datagrams() => refuse(format!(
            "--protocol {asked} needs datagrams, which do not pass a gateway: use tcp, ptcp or auto"
        )),
        Some(asked) => Ok(Some(asked)),
        None if args.streams.is_some() => Ok(Some(Protocol::Ptcp)),
        None => Ok(Some(Protocol::Tcp)),
    }
}

/// Reports the protocol of a copy through a gateway.
pub(crate) fn tell(args: &Cp, printer: &mut Printer) -> Result<(), Error> {
    if let (Some(protocol), Some(gateway)) = (protocol(args)?, &args.via.through.gateway) {
        let why = format!("{protocol} carries the data, through the gateway at {gateway}");
        printer.show_route(protocol.name(), &why);
    }
    Ok(())
}
