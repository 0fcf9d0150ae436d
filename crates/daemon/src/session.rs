//! One session of a daemon, from the request to the result.
//!
//! `serve_client` reads the first message of an admitted client: a request, or a join that hands
//! the connection to another session. A request is checked against the client's rights, before and
//! while it runs. The allocation grows by its cost, and then `work` calls the crate of its topic. A
//! client learns the error of a failed session. Message lengths are charged before decoding, so a
//! large message cannot exhaust memory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};

use lighthaul_copy::message::Target;
use lighthaul_copy::object_target::StoreRequest;
use lighthaul_copy::relay::copy_request;
use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::execute::{Scope, execute};
use lighthaul_files::glob;
use lighthaul_files::list::{ListReceiver, PathList};
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Options;
use lighthaul_files::remote;
use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_files::walk::Walk;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_receive as receive;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_remote_files::server::{serve::serve as serve_files, shared};
use lighthaul_send as send;
use lighthaul_session::error::{Error, caught};
use lighthaul_session::known_path::Paths;
use lighthaul_session::message::{Message, VERSION};
use lighthaul_session::role::Role;
use lighthaul_session::secrets::Join;
use lighthaul_session::session::Session;
use lighthaul_session::{checkup, probe};

use crate::admission::{AdmittedBy, AdmittedClient, CLOSE_TIMEOUT};
use crate::cost::Cost;
use crate::error::Fault;
use crate::link_message::Greeting;
use crate::metrics::{Meter, Refusal};
use crate::relay;
use crate::request::Request;
use crate::request_rights;
use crate::resource_pool::{Allocation, Granted};
use crate::rights::Rights;
use crate::rights_monitor::monitored;
use crate::send_settings::send_settings;
use crate::served_stores;
use crate::service::Service;
use crate::session_request::SessionRequest;
use crate::settings::Settings;
use crate::stream_request::serve_stream;

/// Maximum number of probes that wait for their session.
const PROBES_MAX: usize = 64;

/// Result of a client's connection.
#[derive(Debug)]
pub(crate) enum Served {
    /// The session has ended.
    Ended(Result<Summary, Error>),
    /// The client made no request.
    Unused(Error),
    /// The connection was handed to its session, or was refused.
    Joined(Result<(), Error>),
}

/// First message of a client.
enum First {
    Request(Box<SessionRequest>),
    Join(Join),
}

/// Serves an admitted client, and sends it the error of a failed session.
pub(crate) fn serve_client(
    mut client: AdmittedClient,
    allocation: Allocation,
    service: &Service,
) -> Served {
    let allocation = Arc::new(allocation);
    // held until the connection ends
    client.session.control.attach(Arc::clone(&allocation));
    let mut weight = Cost::default();
    let first = match &client.admitted_by {
        AdmittedBy::Join(join) => Ok(First::Join(*join)),
        AdmittedBy::Own(_) | AdmittedBy::Invited(_) => {
            read_first_message(&mut client.session, |len| {
                weight = Cost::of_message(len);
                allocation.replace(Cost::CLIENT.plus(weight))
            })
        }
    };
    let first = match first {
        Ok(first) => first,
        Err(error) => {
            client.session.give_up(&error);
            return Served::Unused(error);
        }
    };
    let cost = match first {
        First::Request(_) => Cost::SESSION.plus(weight),
        First::Join(_) => Cost::CONNECTION,
    };
    if let Err(error) = allocation.replace(cost) {
        service.metrics.refuse(Refusal::Busy, 1);
        client.session.give_up_within(&error, CLOSE_TIMEOUT);
        return Served::Ended(Err(error));
    }
    match first {
        First::Join(join) => Served::Joined(service.joins.hand_over(client.session, &join)),
        First::Request(request) => {
            Served::Ended(serve_request((&client, allocation), &request, service))
        }
    }
}

/// Serves a request, as long as the client has the necessary rights.
fn serve_request(
    (client, allocation): (&AdmittedClient, Arc<Allocation>),
    request: &SessionRequest,
    service: &Service,
) -> Result<Summary, Error> {
    let (session, admitted_by) = (&client.session, &client.admitted_by);
    let judge = || match admitted_by {
        AdmittedBy::Own(credential) => {
            let rights = service.rights(session.peer, credential.as_ref())?;
            request_rights::check(request, &rights, admitted_by.invited(), &service.settings)?;
            let narrowed = rights.narrowed(&client.rights);
            narrowed.map_or(Ok(()), |why| Err(Fault::from(why).into()))
        }
        // the rights of the inviting client are checked in its own session
        AdmittedBy::Invited(_) | AdmittedBy::Join(_) => Ok(()),
    };
    monitored(session, judge, || {
        let result = judge().and_then(|()| {
            let invited = admitted_by.invited();
            request_rights::check(request, &client.rights, invited, &service.settings)?;
            let part = direction(&request.request);
            let _attempt = match admitted_by {
                AdmittedBy::Own(_) => {
                    service
                        .attempts
                        .enter(session, request.request.options(), part)?
                }
                // the attempt of the inviting client counts
                AdmittedBy::Invited(_) | AdmittedBy::Join(_) => None,
            };
            let wanted = Cost::of(&request.request);
            let budget = allocation.grow(wanted)?.budget(wanted.0);
            let granted = Granted { allocation, budget };
            session.control.limit_queues(Cost::queues(&request.request));
            let mut meter = service.metrics.meter(part);
            let result = run_request((client, granted), request.clone(), service, &mut meter);
            meter.end(result.as_ref().map_err(Error::code));
            result
        });
        let result = result.map_err(|error| service.ended(error));
        if let Err(error) = &result {
            session.give_up(error);
        }
        result
    })
}

/// Reads the client's request. `weigh` refuses messages by their lengths, before they are decoded.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other messages are unexpected"
)]
fn read_first_message(
    session: &mut Session,
    mut weigh: impl FnMut(usize) -> Result<(), Error>,
) -> Result<First, Error> {
    let mut message = session.hear_if(&mut weigh)?;
    if let Message::Credential(_) = message {
        // the credential was not needed, since the key is listed
        message = session.hear_if(&mut weigh)?;
    }
    match message {
        Message::Hello(mut hello) if hello.version == VERSION => {
            // it belongs to the connection, not to the request
            session.learn_rtt(std::mem::take(&mut hello.rtt_us));
            Ok(First::Request(Box::new(SessionRequest::of(hello)?)))
        }
        Message::Join(join) => Ok(First::Join(join)),
        Message::Hello(hello) => Err(Fault::Version(hello.version).into()),
        _ => Err(Fault::Unexpected("a request").into()),
    }
}

/// Returns the direction of the files, as seen from the daemon.
const fn direction(request: &Request) -> &'static str {
    match request {
        Request::Receive { .. } => "in",
        Request::Send { .. } | Request::Relay { .. } => "out",
        Request::Expect { .. } => "expect",
        Request::Probe(_) | Request::Checkup => "probe",
        Request::Files(_) | Request::RemoteFiles(_) => "files",
        Request::Stream(_) => "stream",
        Request::Gateway(_) => "gateway",
    }
}

fn run_request(
    (client, granted): (&AdmittedClient, Granted),
    request: SessionRequest,
    service: &Service,
    meter: &mut Meter<'_>,
) -> Result<Summary, Error> {
    let (session, rights) = (&client.session, &client.rights);
    if let Request::Expect {
        key,
        target,
        options,
    } = request.request
    {
        let key = Fingerprint::from_octets(key);
        let request = SessionRequest::of(copy_request(&request.hello, target, options))?;
        let host = (rights, client.identity);
        return service.invitations.invite(session, key, request, host);
    }
    let number = session.secrets.probe_connection();
    let (probes, arrivals) = sync_channel(PROBES_MAX);
    let lock = || {
        service
            .probes
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    lock().insert(number, probes);
    let (_open, joins) = service.joins.open(session, client.identity);
    let role = Role::Server(arrivals, joins);
    let result = caught("session", || {
        if let Request::Gateway(greeting) = &request.request {
            return link(client, &role, greeting, request.hello.plain, service);
        }
        let known = (Arc::clone(&service.paths), &service.settings);
        work(session, role, request, (rights, granted, known), meter)
    });
    lock().remove(&number);
    result
}

fn work(
    session: &Session,
    role: Role,
    SessionRequest { hello, request }: SessionRequest,
    (rights, granted, (known, own)): (&Rights, Granted, (Arc<Paths>, &Settings)),
    meter: &mut Meter<'_>,
) -> Result<Summary, Error> {
    let mut watcher = |sight: CopyEvent| meter.observe(&sight);
    let agree = || session.say(&Message::Welcome);
    match request {
        Request::Receive {
            target,
            mut options,
        } => {
            let landing = landing(own, rights, &target, &mut options)?;
            agree()?;
            let settings = receive::Settings {
                plain: hello.plain,
                options,
                names: None,
                requested: None,
                permit: rights.permit(),
                budget: granted.budget,
            };
            receive::receive(session, role, landing, settings, &mut watcher)
        }
        Request::Probe(ask) => {
            agree()?;
            let measured = probe::answer(session, &role, ask)?;
            Ok(Summary {
                bytes: measured.bytes,
                ..Summary::default()
            })
        }
        Request::Checkup => {
            agree()?;
            checkup::answer::answer(session, &role)?;
            Ok(Summary::default())
        }
        Request::Files(request) => serve_file_request(session, &request, (own, rights)),
        Request::Send { paths, mut options } => {
            let in_store = served_stores::sources(own, rights, (&paths, &mut options))?;
            let finds = match in_store {
                Some(finds) => finds,
                None => finds((own, rights), &paths, &options, None)?,
            };
            agree()?;
            let settings = send::Settings {
                known: Some(known),
                ..send_settings(session, (&hello, options), granted.budget)?
            };
            send::send(session, role, finds, settings, &mut watcher)
        }
        Request::Relay { relay, options } => {
            let (list, names) = options.listed.then(ListReceiver::new).unzip();
            let finds = finds((own, rights), &relay.paths, &options, names)?;
            let (relay, hello) = ((relay, granted), (&hello, options));
            relay::run(session, (finds, list), relay, hello, &mut watcher)
        }
        Request::RemoteFiles(request) => serve_remote_files(session, role, request, (own, rights)),
        Request::Stream(wanted) => {
            let access = served_stores::access(own, rights)?;
            serve_stream((session, &role), &wanted, &hello, (rights, &access))
        }
        Request::Expect { .. } | Request::Gateway(_) => Err(Fault::UnknownTopic.into()),
    }
}

/// Opens the target of a copy: a directory of this host, or of an object store.
fn landing(
    settings: &Settings,
    rights: &Rights,
    target: &Target,
    options: &mut Options,
) -> Result<TargetFolder, Error> {
    let in_store = served_stores::open(settings, rights, (target, options))?;
    in_store.map_or_else(
        || {
            TargetFolder::open(
                target,
                &Arc::new(served_stores::access(settings, rights)?),
                options.dry_run.is_some(),
            )
        },
        Ok,
    )
}

/// Serves lists, attributes, hashes and removals of files, and new directories.
fn serve_file_request(
    session: &Session,
    request: &FileRequest,
    (settings, rights): (&Settings, &Rights),
) -> Result<Summary, Error> {
    if let Some((store, paths)) = served_stores::of_request(settings, rights, request.paths())? {
        session.say(&Message::Welcome)?;
        let request = StoreRequest {
            request,
            paths: &paths,
            check: &|| session.halt.check(),
        };
        let entries = remote::serve_with(session, |say| store.execute(&request, say))?;
        return Ok(Summary {
            entries,
            ..Summary::default()
        });
    }
    let access = served_stores::access(settings, rights)?;
    let scope = Scope {
        access: &access,
        writable: !rights.read_only,
        special: rights.special,
        halt: &session.halt,
    };
    session.say(&Message::Welcome)?;
    let stores = served_stores::listed(settings, rights, request);
    let entries = remote::serve_with(session, |say| {
        let more = stores.len() as u64;
        if more > 0 {
            say(FileReply::Listed { items: stores })?;
        }
        execute(scope, request, &mut |part| {
            say(match part {
                FileReply::Done { done } => FileReply::Done { done: done + more },
                part @ (FileReply::Listed { .. }
                | FileReply::Hashed { .. }
                | FileReply::Unreadable { .. }
                | FileReply::Busy { .. }
                | FileReply::Failed { .. }) => part,
            })
        })
    })?;
    Ok(Summary {
        entries,
        ..Summary::default()
    })
}

/// Serves ranges of files, and changes to them.
fn serve_remote_files(
    session: &Session,
    role: Role,
    request: lighthaul_remote_files::message::Request,
    (settings, rights): (&Settings, &Rights),
) -> Result<Summary, Error> {
    let scope = shared::Scope {
        access: served_stores::access(settings, rights)?,
        writable: !rights.read_only,
        special: rights.special,
    };
    session.say(&Message::Welcome)?;
    let bytes = serve_files(session, role, scope, request)?;
    Ok(Summary {
        bytes,
        ..Summary::default()
    })
}

/// Carries sessions of programs for another gateway.
fn link(
    client: &AdmittedClient,
    role: &Role,
    greeting: &Greeting,
    plain: bool,
    service: &Service,
) -> Result<Summary, Error> {
    let Some(gateway) = &service.settings.gateway else {
        return Err(Fault::NotGateway.into());
    };
    let session = &client.session;
    session.say(&Message::Welcome)?;
    gateway.serve((session, client.identity), role, greeting, plain)?;
    Ok(Summary::default())
}

/// Returns the entries to send. A list of files comes from `names`, or else from the receiver.
fn finds(
    (settings, rights): (&Settings, &Rights),
    paths: &[Vec<u8>],
    options: &Options,
    names: Option<PathList>,
) -> Result<SourceEntries, Error> {
    let mut paths: Vec<PathBuf> = paths
        .iter()
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect();
    let access = Arc::new(options.sources(served_stores::access(settings, rights)?));
    if !options.listed {
        let (paths, expanded) = glob::expand(&access, paths)?;
        let mut walk = Walk::new(access, &paths, options.walk())?;
        if expanded && walk.naming.is_named() {
            // where a copy lands does not depend on the number of matches
            walk.naming = Naming::Several;
        }
        return Ok(SourceEntries::from_walk(walk));
    }
    match (paths.pop(), paths.is_empty()) {
        (Some(base), true) => Ok(match names {
            Some(names) => SourceEntries::from_list(access, base, names, options.walk()),
            None => SourceEntries::from_receiver(access, base, options.walk()),
        }),
        _ => Err(Fault::FilesFrom.into()),
    }
}
