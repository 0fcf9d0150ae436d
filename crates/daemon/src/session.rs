//! One session of a daemon, from the greeting to the verdict.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};

use lighthaul_files::execute::Scope;
use lighthaul_files::list::{ListReceiver, PathList};
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_files::remote;
use lighthaul_files::walk::Walk;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::message::{Message, VERSION};
use lighthaul_session::role::Role;
use lighthaul_session::secrets::Join;
use lighthaul_session::session::Session;
use lighthaul_session::{checkup, probe, protocol};
use lighthaul_transfer::budget::Budget;
use lighthaul_transfer::receive::target_folder::TargetFolder;
use lighthaul_transfer::relay::copy_request;
use lighthaul_transfer::watch::{CopyEvent, Summary};
use lighthaul_transfer::{receive, send};

use crate::admission::{FAREWELL, Guest, Ticket};
use crate::asked::Asked;
use crate::carry::carry;
use crate::cost::Cost;
use crate::hall::Seat;
use crate::link_message::Greeting;
use crate::metrics::{Meter, Refusal};
use crate::relay;
use crate::request::Request;
use crate::rights::Rights;
use crate::sending::sending;
use crate::service::Service;
use crate::settings::Settings;
use crate::warden::guard;

/// Probes that wait for a session to look at them.
const PROBES_MAX: usize = 64;

/// What came of a caller.
#[derive(Debug)]
pub(crate) enum Attended {
    /// Its session is over.
    Ended(Result<Summary, Error>),
    /// It is a further connection of a session, if that has it.
    Joined(Result<(), Error>),
}

/// What a caller says first.
enum First {
    Asked(Box<Asked>),
    Join(Join),
}

/// Serves an admitted caller, which is told of a failure, too.
pub(crate) fn attend(guest: Guest, mut seat: Seat, service: &Service) -> Attended {
    let mut weight = Cost::default();
    let first = match &guest.ticket {
        Ticket::Join(join) => Ok(First::Join(*join)),
        Ticket::Own(_) | Ticket::Invited(_) => understand(&guest.session, |len| {
            weight = Cost::of_message(len);
            seat.exchange(Cost::CALLER.plus(weight))
        }),
    };
    let first = match first {
        Ok(first) => first,
        Err(error) => {
            guest.session.give_up(&error);
            return Attended::Ended(Err(error));
        }
    };
    let cost = match first {
        First::Asked(_) => Cost::SESSION.plus(weight),
        First::Join(_) => Cost::CONNECTION,
    };
    if let Err(error) = seat.exchange(cost) {
        service.metrics.refuse(Refusal::Busy, 1);
        guest.session.give_up_within(&error, FAREWELL);
        return Attended::Ended(Err(error));
    }
    match first {
        First::Join(join) => {
            // held until the connection ends
            guest.session.control.attach(seat);
            Attended::Joined(service.joins.hand_over(guest.session, &join))
        }
        First::Asked(asked) => Attended::Ended(converse((&guest, seat), &asked, service)),
    }
}

/// Does what is asked for, for as long as the caller may have that done.
fn converse(
    (guest, mut seat): (&Guest, Seat),
    asked: &Asked,
    service: &Service,
) -> Result<Summary, Error> {
    let (session, ticket) = (&guest.session, &guest.ticket);
    let judge = || match ticket {
        Ticket::Own(credential) => {
            let rights = service.rights(session.peer, credential.as_ref())?;
            check(asked, &rights, ticket, &service.settings)?;
            let narrowed = rights.narrowed(&guest.rights);
            narrowed.map_or(Ok(()), |why| Err(Error::new(Code::Permission, why)))
        }
        // the host is looked at, and takes its guest along
        Ticket::Invited(_) | Ticket::Join(_) => Ok(()),
    };
    guard(session, judge, || {
        let result = judge().and_then(|()| {
            check(asked, &guest.rights, ticket, &service.settings)?;
            let part = direction(&asked.request);
            let _under_way = match ticket {
                Ticket::Own(_) => service
                    .tries
                    .enter(session, asked.request.options(), part)?,
                // its host's is the one that counts
                Ticket::Invited(_) | Ticket::Join(_) => None,
            };
            let wanted = Cost::of(&asked.request);
            let budget = seat.extend(wanted)?.budget(wanted.0);
            session.control.limit_queues(Cost::queues(&asked.request));
            let mut meter = service.metrics.meter(part);
            let result = fulfil((guest, budget), asked.clone(), service, &mut meter);
            meter.end(result.as_ref().map_err(|error| error.code));
            result
        });
        let result = result.map_err(|error| service.ended(error));
        if let Err(error) = &result {
            session.give_up(error);
        }
        result
    })
}

/// What the caller wants. `weigh` refuses messages that are too long to be decoded here, by their lengths.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else a peer says is out of turn"
)]
fn understand(
    session: &Session,
    mut weigh: impl FnMut(usize) -> Result<(), Error>,
) -> Result<First, Error> {
    let mut message = session.hear_if(&mut weigh)?;
    if let Message::Credential(_) = message {
        // the key alone let it in
        message = session.hear_if(&mut weigh)?;
    }
    match message {
        Message::Hello(hello) if hello.version == VERSION => {
            Ok(First::Asked(Box::new(Asked::of(hello)?)))
        }
        Message::Join(join) => Ok(First::Join(join)),
        Message::Hello(hello) => {
            let text = format!("they speak version {VERSION} there, not {}", hello.version);
            Err(Error::new(Code::Protocol, text))
        }
        _ => Err(Error::new(
            Code::Protocol,
            "the client did not say what it wants",
        )),
    }
}

/// Refuses what the caller may not ask for.
fn check(
    asked: &Asked,
    rights: &Rights,
    ticket: &Ticket,
    settings: &Settings,
) -> Result<(), Error> {
    let refuse = |text: &str| Err(Error::new(Code::Permission, text));
    let Asked { hello, request } = asked;
    if let Ticket::Invited(invitation) = ticket
        && invitation.asked != *asked
    {
        return refuse("you are expected there for something else");
    }
    match (request, &settings.gateway) {
        (Request::Gateway(_), None) => {
            return refuse(
                "no gateway is there, but a daemon for files: start `lighthaul gateway`",
            );
        }
        (Request::Gateway(_), Some(_)) if !rights.gateway => {
            return refuse(
                "your key may not use the gateway there; its operator can change that with `lighthaul allow \
                 --gateway KEY NAME`",
            );
        }
        (Request::Gateway(_) | Request::Probe(_) | Request::Checkup, _) | (_, None) => {}
        (_, Some(_)) => return refuse("a gateway is there, which has no files"),
    }
    if let Request::Relay { .. } = request
        && !settings.relay
    {
        return refuse("files are not sent on from there to other daemons (serve --no-relay)");
    }
    // what a measurement sends says nothing
    let measures = matches!(request, Request::Probe(_));
    if hello.plain && !settings.plain && !measures {
        return refuse("plain packets are refused there; leave out --plain, or serve with --plain");
    }
    if let Some(options) = request.options() {
        protocol::asked(&options.protocol)?;
    }
    if rights.read_only && writes(request) {
        return refuse(
            "your key may only read there; its operator can change that with `lighthaul allow`",
        );
    }
    Ok(())
}

/// Whether a request changes files here.
const fn writes(request: &Request) -> bool {
    match request {
        Request::Receive { .. } | Request::Expect { .. } => true,
        Request::Files(verb) => verb.changes(),
        Request::Stream(wanted) => wanted.to,
        Request::Send { .. }
        | Request::Relay { .. }
        | Request::Probe(_)
        | Request::Checkup
        | Request::Gateway(_) => false,
    }
}

/// Where files go, as seen from here.
const fn direction(request: &Request) -> &'static str {
    match request {
        Request::Receive { .. } => "in",
        Request::Send { .. } | Request::Relay { .. } => "out",
        Request::Expect { .. } => "expect",
        Request::Probe(_) | Request::Checkup => "probe",
        Request::Files(_) => "files",
        Request::Stream(_) => "stream",
        Request::Gateway(_) => "gateway",
    }
}

fn fulfil(
    (guest, budget): (&Guest, Budget),
    asked: Asked,
    service: &Service,
    meter: &mut Meter<'_>,
) -> Result<Summary, Error> {
    let (session, rights) = (&guest.session, &guest.rights);
    if let Request::Expect {
        key,
        target,
        options,
    } = asked.request
    {
        let key = Fingerprint::from_octets(key);
        let asked = Asked::of(copy_request(&asked.hello, target, options))?;
        let host = (rights, guest.identity);
        return service.invitations.host(session, key, asked, host);
    }
    let number = session.secrets.probe_connection();
    let (probes, arrivals) = sync_channel(PROBES_MAX);
    let lock = || {
        service
            .sessions
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    lock().insert(number, probes);
    let (_open, joins) = service.joins.open(session, guest.identity);
    let door = Role::Server(&arrivals, &joins);
    let result = caught("session", || {
        if let Request::Gateway(greeting) = &asked.request {
            return link(guest, &door, greeting, asked.hello.plain, service);
        }
        work(session, &door, asked, (rights, budget), meter)
    });
    lock().remove(&number);
    result
}

fn work(
    session: &Session,
    door: &Role<'_>,
    Asked { hello, request }: Asked,
    (rights, budget): (&Rights, Budget),
    meter: &mut Meter<'_>,
) -> Result<Summary, Error> {
    let mut watcher = |sight: CopyEvent| meter.see(&sight);
    let agree = || {
        session.say(&Message::Welcome {
            protocols: protocol::names(),
        })
    };
    match request {
        Request::Receive { target, options } => {
            let landing = TargetFolder::open(
                &target,
                &Arc::new(rights.ground()?),
                options.dry_run.is_some(),
            )?;
            agree()?;
            let settings = receive::Settings {
                plain: hello.plain,
                options,
                names: None,
                permit: rights.permit(),
                budget,
            };
            receive::receive(session, door, landing, settings, &mut watcher)
        }
        Request::Probe(ask) => {
            agree()?;
            let measured = probe::answer(session, door, ask)?;
            Ok(Summary {
                bytes: measured.bytes,
                ..Summary::default()
            })
        }
        Request::Checkup => {
            agree()?;
            checkup::answer::answer(session, door)?;
            Ok(Summary::default())
        }
        Request::Files(verb) => {
            let ground = rights.ground()?;
            let scope = Scope {
                ground: &ground,
                writable: !rights.read_only,
                special: rights.special,
                halt: &session.halt,
            };
            agree()?;
            let entries = remote::serve(session, scope, &verb)?;
            Ok(Summary {
                entries,
                ..Summary::default()
            })
        }
        Request::Send { paths, options } => {
            let finds = finds(rights, &paths, &options, None)?;
            agree()?;
            let settings = sending(session, (&hello, options), budget)?;
            send::send(session, door, finds, settings, &mut watcher)
        }
        Request::Relay { relay, options } => {
            let (list, names) = options.listed.then(ListReceiver::new).unzip();
            let finds = finds(rights, &relay.paths, &options, names)?;
            let hello = (&hello, options);
            relay::run(session, (finds, list), (relay, budget), hello, &mut watcher)
        }
        Request::Stream(wanted) => carry(session, door, &wanted, &hello, rights),
        Request::Expect { .. } => Err(Error::new(Code::Usage, "nobody is expected there")),
        Request::Gateway(_) => Err(Error::new(Code::Usage, "there is no gateway there")),
    }
}

/// Carries sessions of programs for another gateway.
fn link(
    guest: &Guest,
    door: &Role<'_>,
    greeting: &Greeting,
    plain: bool,
    service: &Service,
) -> Result<Summary, Error> {
    let Some(gateway) = &service.settings.gateway else {
        return Err(Error::new(Code::Usage, "there is no gateway there"));
    };
    let session = &guest.session;
    session.say(&Message::Welcome {
        protocols: Vec::new(),
    })?;
    gateway.answer((session, guest.identity), door, greeting, plain)?;
    Ok(Summary::default())
}

/// What is to be sent of these paths; a list of what of one of them comes from the receiver, if not as these `names`.
fn finds(
    rights: &Rights,
    paths: &[Vec<u8>],
    options: &Options,
    names: Option<PathList>,
) -> Result<SourceEntries, Error> {
    let mut paths: Vec<PathBuf> = paths
        .iter()
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect();
    let ground = Arc::new(rights.ground()?);
    if !options.listed {
        let walk = Walk::new(ground, &paths, options.rules.clone())?;
        return Ok(SourceEntries::from_walk(walk));
    }
    match (paths.pop(), paths.is_empty()) {
        (Some(base), true) => Ok(match names {
            Some(names) => SourceEntries::from_list(ground, base, names, options.rules.clone()),
            None => SourceEntries::from_receiver(ground, base),
        }),
        _ => Err(Error::new(
            Code::Usage,
            "--files-from needs one folder as its source",
        )),
    }
}
