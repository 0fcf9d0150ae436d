//! Keeps the link to the other gateway: on whatever way to it there is, and back on its own once that leads there again.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_daemon::gateways::Outgoing;
use lighthaul_gateway::entrance::Entrance;
use lighthaul_gateway::target::Target;
use lighthaul_io::interrupt;
use lighthaul_io::wait::pause;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::session::Session;
use tracing::{debug, info, warn};

use super::args::Gateway;
use crate::args::Far;
use crate::dial::dial;
use crate::passage::Through;
use crate::remote::PORT;

/// Connects again and again.
pub(super) struct Keeper {
    far: Far,
    outgoing: Arc<Outgoing>,
}

/// How the other gateway is called.
#[derive(Debug)]
struct Way {
    host: String,
    port: u16,
    /// Through a gateway beside this one.
    via: Option<Entrance>,
}

impl Keeper {
    /// Keeps the link in a thread of its own, until somebody asks to stop.
    pub(super) fn start(args: &Gateway, outgoing: Arc<Outgoing>) -> Result<JoinHandle<()>, Error> {
        let far = args.far.clone();
        let ways = ways(&args.peer, &args.via)?;
        Ok(thread::spawn(move || Self { far, outgoing }.run(&ways)))
    }

    fn run(&self, ways: &[Way]) {
        // each way has its own troubles, which are told once
        let mut told = vec![String::new(); ways.len()];
        for at in (0..ways.len()).cycle() {
            if self.is_over() {
                return;
            }
            let (way, told) = (&ways[at], &mut told[at]);
            let result = match &way.via {
                None => self.connect(way),
                Some(_) => self.detour(way, ways),
            };
            if let Err(error) = result {
                let text = format!("{}: {error}", way.name());
                if text != *told {
                    warn!("{text}");
                }
                *told = text;
            }
            pause(AGAIN);
        }
    }

    fn is_over(&self) -> bool {
        interrupt::is_requested() || interrupt::is_ending() && self.outgoing.line.is_over()
    }

    /// One connection to the other gateway, until it ends.
    fn connect(&self, way: &Way) -> Result<(), Error> {
        let session = self.dial(way)?;
        info!("connected to {}", way.name());
        self.carry(&session)
    }

    /// One connection through a gateway beside this one, until it ends or the other can be called from here again.
    fn detour(&self, way: &Way, ways: &[Way]) -> Result<(), Error> {
        let session = self.dial(way)?;
        info!("connected to {}", way.name());
        thread::scope(|scope| {
            let carried = scope.spawn(|| self.carry(&session));
            let own = ways.iter().filter(|way| way.via.is_none()).cycle();
            for own in own {
                for _ in 0..LOOKS {
                    if carried.is_finished() || self.is_over() {
                        return carried.join().unwrap_or(Ok(()));
                    }
                    pause(AGAIN);
                }
                // this takes the link from the other connection
                match self.connect(own) {
                    Err(error) if !carried.is_finished() => {
                        debug!("{} is still not reached: {error}", own.name());
                    }
                    result => return result,
                }
            }
            Ok(())
        })
    }

    fn dial(&self, way: &Way) -> Result<Session, Error> {
        let through = Through {
            gateway: way.via.clone(),
        };
        dial(&self.far, Some(&through), &way.host, way.port)
    }

    fn carry(&self, session: &Session) -> Result<(), Error> {
        let result = self.outgoing.run(session);
        if let Err(error) = &result {
            session.give_up(error);
        }
        result
    }
}

impl Way {
    fn name(&self) -> String {
        let Self { host, port, via } = self;
        match via {
            None => format!("{host}:{port}"),
            Some(via) => format!("{host}:{port} through {via}"),
        }
    }
}

/// All ways there are: those from here first.
fn ways(peers: &[String], via: &[Entrance]) -> Result<Vec<Way>, Error> {
    let from_here = std::iter::once(None);
    let through = via.iter().cloned().map(Some);
    let mut ways = Vec::new();
    for via in from_here.chain(through) {
        for peer in peers {
            let (host, port) = address(peer)?;
            let via = via.clone();
            ways.push(Way { host, port, via });
        }
    }
    Ok(ways)
}

/// Reads `HOST` or `HOST:PORT`.
fn address(text: &str) -> Result<(String, u16), Error> {
    if let Ok(target) = text.parse::<Target>() {
        let host = target.host.to_string();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        return Ok((bare.to_owned(), target.port));
    }
    if text.is_empty() {
        return Err(Error::new(Code::Usage, "--peer needs a host"));
    }
    Ok((text.to_owned(), PORT))
}

/// How long after a failure the next attempt is made.
const AGAIN: Duration = Duration::from_secs(1);
/// After how many times that the other gateway is called from here again.
const LOOKS: u32 = 10;
