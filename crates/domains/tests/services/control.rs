//! Control socket: paths for local programs, and programs that it refuses.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_domains::control::WAITING_MAX;
use lighthaul_domains::control::message::QUESTION_MAX;
use lighthaul_domains::control::server::CALLERS_MAX;
use lighthaul_domains::control::{
    Answer, ControlError, ControlSocket, PathId, PathRequest, PathView, Problem, Question,
    StatusView, ask,
};
use lighthaul_domains::{DomainConfig, Handle};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::CorrelationId;
use lighthaul_testkit::{Ordinary, lacks_root};

use super::site::{Chain, PATIENCE};

/// Opens the control socket of a domain. The names `here` and `there` are the ends of the chain.
pub(crate) fn open(chain: &Chain, me: u32) -> (ControlSocket, PathBuf) {
    let path = chain.folder.0.join(format!("{me}.sock"));
    let names = [("here", 1), ("there", chain.count)];
    let names = names.map(|(name, domain)| {
        let port = 100 + domain;
        format!("[[endpoint]]\nname = \"{name}\"\ndomain = {domain}\nport = {port}\n")
    });
    let text = chain.configs[&me].clone() + &names.concat();
    let config = DomainConfig::parse(&text, &chain.folder.0).unwrap();
    let socket = ControlSocket::open(&path, config, chain.services[&me].handle());
    (socket.unwrap(), path)
}

fn wanted(from: &str, to: &str) -> PathRequest {
    let now = unix_nanos();
    PathRequest {
        id: PathId(Handle::new_id()),
        from: from.to_owned(),
        to: to.to_owned(),
        // eight seconds, so that a path is still held when a loaded host answers
        bytes: 100_000_000,
        rate_max_bps: Some(100_000_000),
        rate_min_bps: None,
        earliest: now,
        latest: now + Duration::from_hours(1).as_nanos() as u64,
        exclude_domains: Vec::new(),
        exclude_links: Vec::new(),
        protect: false,
        tree: false,
    }
}

fn status(socket: &Path) -> StatusView {
    match ask(socket, &Question::Status) {
        Ok(Answer::Status(status)) => status,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn path(socket: &Path, question: &Question) -> Result<PathView, Problem> {
    match ask(socket, question) {
        Ok(Answer::Path(path)) => Ok(path),
        Err(ControlError::Problem(problem)) => Err(problem),
        other => panic!("{other:?}"),
    }
}

#[test]
fn path_is_found_by_its_first_digits() {
    let chain = Chain::start("digits", 2, |text| text);
    let (socket, at) = open(&chain, 1);
    let ids = [0x1234_u128, 0x12ff].map(|first| PathId(CorrelationId(first << 112 | 7)));
    for id in ids {
        let request = PathRequest {
            id,
            ..wanted("here", "2:102")
        };
        path(&at, &Question::Path(request)).unwrap();
    }
    let find = |digits: &str| path(&at, &Question::Find(digits.to_owned())).map(|path| path.id);
    for digits in ["1234", "12-3", &ids[0].to_string()] {
        assert_eq!(find(digits), Ok(ids[0]), "{digits}");
    }
    assert_eq!(find("12F"), Ok(ids[1]));
    for digits in ["12", ""] {
        assert_eq!(find(digits), Err(Problem::SeveralPaths(digits.to_owned())));
    }
    for digits in ["13", "zz"] {
        assert_eq!(find(digits), Err(Problem::NoPath(digits.to_owned())));
    }
    for id in ids {
        path(&at, &Question::Release(id)).unwrap();
    }
    drop(socket);
    chain.assert_released();
}

#[test]
fn path_is_set_up_shown_and_released_over_the_socket() {
    let chain = Chain::start("control", 3, |text| text);
    let sockets: Vec<_> = (1..=3).map(|me| open(&chain, me)).collect();
    let socket = |me: usize| &sockets[me - 1].1;
    let request = wanted("here", "3:103");
    let made = path(socket(1), &Question::Path(request.clone())).unwrap();
    assert_eq!((made.id, made.stage.as_str()), (request.id, "committed"));
    let ports = made.legs[0]
        .iter()
        .map(|hop| (hop.domain, hop.ingress, hop.egress));
    let expected = [
        (1, Some(101), Some(1)),
        (2, Some(1), Some(2)),
        (3, Some(2), Some(103)),
    ];
    assert_eq!(ports.collect::<Vec<_>>(), expected);
    assert_eq!(made.steps[0].rate_bps, 100_000_000);
    // a repeated request has the same path
    assert_eq!(path(socket(1), &Question::Path(request)), Ok(made.clone()));
    let second = status(socket(2));
    assert_eq!(second.neighbors.len(), 2);
    assert!(second.neighbors.iter().all(|one| one.connected));
    assert_eq!(second.links.len(), 4);
    let seen = &second.paths[0];
    assert_eq!(
        (seen.id, seen.source, &seen.steps),
        (made.id, 1, &made.steps)
    );
    let before = &seen.legs[0][0];
    assert_eq!((before.domain, before.ingress), (1, None));
    assert_eq!(
        seen.legs[0][1..],
        made.legs[0][1..]
            .iter()
            .cloned()
            .map(|mut hop| {
                // each domain knows the names of its own neighbors
                hop.name = Some(if hop.domain == 2 { "domain 2" } else { "n3" }.to_owned());
                hop
            })
            .collect::<Vec<_>>()
    );
    let elsewhere = path(socket(2), &Question::Release(made.id));
    assert!(
        matches!(
            elsewhere,
            Err(Problem::OtherSource {
                source_domain: 1,
                ..
            })
        ),
        "{elsewhere:?}"
    );
    let released = path(socket(1), &Question::Release(made.id)).unwrap();
    assert_eq!(released.stage, "released");
    assert!(!released.steps.is_empty());
    let left = status(socket(1)).paths;
    assert!(left.iter().all(|path| path.steps.is_empty()), "{left:?}");
    let again = path(socket(1), &Question::Release(made.id));
    assert!(matches!(again, Err(Problem::UnknownPath(_))), "{again:?}");
    drop(sockets);
    chain.assert_released();
}

#[test]
fn preview_reserves_no_capacity_and_equals_the_later_path() {
    let chain = Chain::start("control-preview", 3, |text| text);
    let (socket, at) = open(&chain, 1);
    let mut request = wanted("here", "there");
    request.earliest += Duration::from_mins(5).as_nanos() as u64;
    let shown = path(&at, &Question::Preview(request.clone())).unwrap();
    assert!(shown.is_offered() && !shown.is_held(), "{shown:?}");
    for status in chain.statuses().values() {
        assert_eq!((status.reservations.len(), status.requests), (0, 0));
    }
    let made = path(&at, &Question::Path(request.clone())).unwrap();
    assert_eq!((&shown.legs, &shown.steps), (&made.legs, &made.steps));
    path(&at, &Question::Release(made.id)).unwrap();
    let late = PathRequest {
        latest: request.earliest + 1,
        ..request
    };
    let refused = path(&at, &Question::Preview(late));
    assert!(matches!(refused, Err(Problem::Refused(_))), "{refused:?}");
    drop(socket);
    chain.assert_released();
}

#[test]
fn tree_asks_each_domain_from_the_source() {
    let mesh = Chain::ring("control-tree", 3);
    let (socket, at) = open(&mesh, 1);
    let request = PathRequest {
        tree: true,
        // the path over domain 2
        exclude_links: vec![3],
        ..wanted("here", "there")
    };
    let made = path(&at, &Question::Path(request)).unwrap();
    let domains: Vec<u32> = made.legs[0].iter().map(|hop| hop.domain).collect();
    assert_eq!((made.legs.len(), domains.as_slice()), (1, &[1, 2, 3][..]));
    for me in [2, 3] {
        let status = mesh.services[&me].handle().status().unwrap();
        let stored = &status.reservations[0].stored;
        assert_eq!(stored.upstream, Some(lighthaul_stargate::DomainId(1)));
        assert_eq!(stored.children, []);
    }
    path(&at, &Question::Release(made.id)).unwrap();
    drop(socket);
    mesh.assert_released();
}

#[test]
fn tree_over_domains_that_are_no_neighbors_is_refused_with_their_numbers() {
    let chain = Chain::start("control-tree-far", 4, |text| text);
    let (_open, at) = open(&chain, 1);
    let request = PathRequest {
        tree: true,
        ..wanted("here", "there")
    };
    let refused = path(&at, &Question::Path(request));
    assert_eq!(refused, Err(Problem::NoNeighbors("3, 4".to_owned())));
}

#[test]
fn impossible_requests_are_refused_with_their_fault() {
    let chain = Chain::start("control-faults", 2, |text| text);
    let (_open, socket) = open(&chain, 1);
    let fault = |change: &dyn Fn(&mut PathRequest)| {
        let mut request = wanted("here", "there");
        change(&mut request);
        path(&socket, &Question::Path(request))
            .unwrap_err()
            .to_string()
    };
    let refused = fault(&|request| request.exclude_domains = vec![2]);
    assert!(refused.contains("no path exists"), "{refused}");
    let unknown = fault(&|request| request.to = "berlin".to_owned());
    assert!(
        unknown.contains("end point \"berlin\" is unknown"),
        "{unknown}"
    );
    let elsewhere = fault(&|request| request.from = "there".to_owned());
    assert!(elsewhere.contains("is in domain 2"), "{elsewhere}");
    let port = fault(&|request| request.from = "1:7".to_owned());
    assert!(port.contains("no port 7; its ports are 1, 101"), "{port}");
    let nothing = fault(&|request| request.bytes = 0);
    assert!(nothing.contains("number of bytes"), "{nothing}");
    let slow = fault(&|request| request.rate_max_bps = Some(0));
    assert!(slow.contains("the highest rate"), "{slow}");
    let contrary = fault(&|request| request.rate_min_bps = Some(200_000_000));
    assert!(contrary.contains("the lowest rate"), "{contrary}");
    let late = fault(&|request| request.latest = request.earliest + 1);
    assert!(late.contains("the path is refused"), "{late}");
    assert_eq!(status(&socket).paths, []);
}

/// Returns a chain in which requests wait, since the other domain has stopped.
fn waiting_chain(name: &str) -> Chain {
    let mut chain = Chain::start(name, 2, |text| {
        text.replace("query = \"1s\"", "query = \"40s\"")
    });
    chain.stop(2);
    chain
}

/// Asks for a path, and leaves the answer unread.
fn begin(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    let question = Question::Path(wanted("here", "there"));
    stream.write_all(&question.encode()).unwrap();
    stream
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let clock = Clock::start();
    while !is_so() {
        assert!(
            clock.now() < Instant::ZERO + Duration::from_secs(30),
            "{what}"
        );
        pause(Duration::from_millis(20));
    }
}

#[test]
fn request_of_a_disconnected_caller_is_given_up() {
    let chain = waiting_chain("control-left");
    let (_open, socket) = open(&chain, 1);
    let stream = begin(&socket);
    wait_until("one request", || status(&socket).requests == 1);
    drop(stream);
    wait_until("no request", || status(&socket).requests == 0);
}

#[test]
fn path_that_is_committed_for_a_caller_that_has_left_is_released() {
    let chain = Chain::start("control-left-late", 2, |text| text);
    let (_open, socket) = open(&chain, 1);
    drop(begin(&socket));
    pause(Duration::from_secs(1));
    wait_until("no request and no path", || {
        let status = status(&socket);
        status.requests == 0 && status.paths.iter().all(|path| !path.is_held())
    });
    chain.assert_released();
}

#[test]
fn requests_of_a_closed_socket_are_given_up() {
    let chain = waiting_chain("control-closes");
    let (opened, socket) = open(&chain, 1);
    let mut stream = begin(&socket);
    wait_until("one request", || status(&socket).requests == 1);
    drop(opened);
    // the service hears of it later than the socket is closed
    wait_until("no request", || {
        chain.services[&1].handle().status().unwrap().requests == 0
    });
    let mut line = Vec::new();
    stream.read_to_end(&mut line).unwrap();
    let answer = Answer::decode(&line);
    assert_eq!(answer, Ok(Answer::Problem(Problem::Stopping)));
}

#[test]
fn waiting_requests_do_not_occupy_places_of_queries() {
    let chain = waiting_chain("control-places");
    let (_open, socket) = open(&chain, 1);
    let streams: Vec<UnixStream> = (0..WAITING_MAX).map(|_| begin(&socket)).collect();
    wait_until("all requests", || status(&socket).requests == WAITING_MAX);
    let more = path(&socket, &Question::Path(wanted("here", "there")));
    assert_eq!(more, Err(Problem::Busy));
    let id = PathId(Handle::new_id());
    let unknown = path(&socket, &Question::Release(id));
    assert_eq!(unknown, Err(Problem::UnknownPath(id.to_string())));
    drop(streams);
    wait_until("no request", || status(&socket).requests == 0);
}

#[test]
fn other_file_at_the_path_of_the_socket_stays() {
    let chain = Chain::start("control-file", 1, |text| text);
    let file = chain.folder.0.join("notes");
    fs::write(&file, "text").unwrap();
    for path in [&file, &chain.folder.0] {
        let config = DomainConfig::parse(&chain.configs[&1], &chain.folder.0).unwrap();
        let opened = ControlSocket::open(path, config, chain.services[&1].handle());
        let why = opened.unwrap_err().to_string();
        let says = why.contains("a regular file has") || why.contains("a directory has");
        assert!(says, "{why}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    fs::remove_file(chain.folder.0.with_added_extension("lock")).unwrap();
}

#[test]
fn socket_is_only_for_its_own_user() {
    let name = "socket_is_only_for_its_own_user";
    let chain = Chain::start("control-user", 1, |text| text);
    // other users may enter this directory
    let name_of_file = format!("lighthaul-control-{}.sock", std::process::id());
    let socket = std::env::temp_dir().join(name_of_file);
    let config = DomainConfig::parse(&chain.configs[&1], &chain.folder.0).unwrap();
    let opened = ControlSocket::open(&socket, config, chain.services[&1].handle()).unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    if !lacks_root(name) {
        // the service checks the user even if the file admits all
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
        let ordinary = Ordinary::begin();
        let other = ask(&socket, &Question::Status);
        drop(ordinary);
        let is_refused = matches!(other, Err(ControlError::Problem(Problem::OtherUser)));
        assert!(is_refused, "{other:?}");
    }
    drop(opened);
    assert!(!socket.exists());
    fs::remove_file(socket.with_added_extension("lock")).unwrap();
}

#[test]
fn only_the_socket_of_a_killed_service_is_replaced() {
    let chain = Chain::start("control-twice", 1, |text| text);
    let (first, socket) = open(&chain, 1);
    let config = DomainConfig::parse(&chain.configs[&1], &chain.folder.0).unwrap();
    let second = ControlSocket::open(&socket, config, chain.services[&1].handle());
    assert!(matches!(second, Err(ControlError::InUse(_))), "{second:?}");
    // the lock counts even if the socket has lost its name
    fs::remove_file(&socket).unwrap();
    let config = DomainConfig::parse(&chain.configs[&1], &chain.folder.0).unwrap();
    let second = ControlSocket::open(&socket, config, chain.services[&1].handle());
    assert!(matches!(second, Err(ControlError::InUse(_))), "{second:?}");
    drop(first);
    // a file at which no process listens, as after SIGKILL
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let (_third, socket) = open(&chain, 1);
    assert_eq!(status(&socket).domain, 1);
}

#[test]
fn malformed_long_and_excess_callers_are_refused_and_affect_no_other_caller() {
    let chain = Chain::start("control-bad", 1, |text| text);
    let (_open, socket) = open(&chain, 1);
    let answer = |octets: &[u8]| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(octets).ok();
        let mut line = Vec::new();
        stream.read_to_end(&mut line).ok();
        Answer::decode(&line)
    };
    let malformed = Ok(Answer::Problem(Problem::Malformed));
    assert_eq!(answer(b"hello\n"), malformed);
    assert_eq!(answer(b"{\"version\":9,\"body\":\"status\"}\n"), malformed);
    let mut long = vec![b' '; QUESTION_MAX];
    long.extend(Question::Status.encode());
    answer(&long).ok();
    let silent: Vec<_> = (0..CALLERS_MAX)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    let clock = Clock::start();
    while answer(&Question::Status.encode()) != Ok(Answer::Problem(Problem::Busy)) {
        assert!(
            clock.now() < Instant::ZERO + PATIENCE,
            "it takes all callers"
        );
        pause(Duration::from_millis(20));
    }
    drop(silent);
    while !matches!(answer(&Question::Status.encode()), Ok(Answer::Status(_))) {
        assert!(clock.now() < Instant::ZERO + PATIENCE, "it takes no caller");
        pause(Duration::from_millis(20));
    }
}
