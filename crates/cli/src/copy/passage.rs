//! Gateways that commands of ours go through, and what a copy may do there.

use clap::Args;
use lighthaul_gateway::entrance::Entrance;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::protocol::Protocol;
use lighthaul_transfer::watch::Sight;

use crate::grammar::cli::Cp;
use crate::grammar::secret::Secret;
use crate::output::print::Printer;

/// By which gateway the far side is reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct Through {
    /// Reach the far side through this gateway and its peer, as in 127.0.0.1:1080, where it takes SOCKS5; no datagram passes there.
    /// Where it asks for a password: NAME:PASSWORD@HOST:PORT, better by the variable, which nobody else sees
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LIGHTHAUL_GATEWAY",
        value_parser = Secret::<Entrance>::new(),
        hide_env_values = true
    )]
    pub(crate) gateway: Option<Entrance>,
}

impl Through {
    /// Whether there is one.
    pub(crate) const fn is_any(&self) -> bool {
        self.gateway.is_some()
    }
}

/// Refuses a copy through a gateway that insists on datagrams.
pub(crate) fn check(args: &Cp) -> Result<(), Error> {
    protocol(args).map(drop)
}

/// What carries a copy through its gateway, if there is one: a stream, or many if somebody says so. Loss is the
/// gateways' business, so that one is as fast as many.
pub(crate) fn protocol(args: &Cp) -> Result<Option<Protocol>, Error> {
    if !args.via.through.is_any() {
        return Ok(None);
    }
    let refuse = |text: String| Err(Error::new(Code::Usage, text));
    if args.trc.is_some() || args.booked.book {
        let text = "a circuit is for datagrams, and none passes a gateway: leave out --book and --trc, or --gateway";
        return refuse(text.to_owned());
    }
    let asked = args.protocol.as_deref().and_then(Protocol::named);
    match asked {
        Some(asked) if asked.is_datagrams() => refuse(format!(
            "--protocol {asked} needs datagrams, and none passes a gateway: say tcp, ptcp or auto"
        )),
        Some(asked) => Ok(Some(asked)),
        None if args.streams.is_some() => Ok(Some(Protocol::Ptcp)),
        None => Ok(Some(Protocol::Tcp)),
    }
}

/// Says what carries a copy through its gateway, if there is one.
pub(crate) fn tell(args: &Cp, printer: &mut Printer) -> Result<(), Error> {
    if let (Some(protocol), Some(gateway)) = (protocol(args)?, &args.via.through.gateway) {
        let why = format!("{protocol} carries the data, through the gateway at {gateway}");
        printer.watch(Sight::Chosen(protocol.to_string(), why));
    }
    Ok(())
}
