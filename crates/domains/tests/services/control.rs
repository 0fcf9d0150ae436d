//! Control socket: paths for local programs, and programs that it refuses.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_domains::control::message::QUESTION_MAX;
use lighthaul_domains::control::server::CALLERS_MAX;
use lighthaul_domains::control::{
    Answer, ControlError, ControlSocket, PathId, PathRequest, PathView, Problem, Question,
    StatusView, ask,
};
use lighthaul_domains::{DomainConfig, Handle};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_testkit::{Ordinary, lacks_root};

use super::site::{Chain, PATIENCE};

/// Opens the control socket of a domain. The names `here` and `there` are the ends of the chain.
fn open(chain: &Chain, me: u32) -> (ControlSocket, PathBuf) {
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
        bytes: 10_000_000,
        rate_max_bps: Some(100_000_000),
        rate_min_bps: None,
        earliest: now,
        latest: now + Duration::from_hours(1).as_nanos() as u64,
        exclude_domains: Vec::new(),
        exclude_links: Vec::new(),
        protect: false,
    }
}

fn status(socket: &Path) -> StatusView {
    match ask(socket, &Question::Status) {
        Ok(Answer::Status(status)) => status,
        other => panic!("{other:?}"),
    }
}

fn path(socket: &Path, question: &Question) -> Result<PathView, Problem> {
    match ask(socket, question) {
        Ok(Answer::Path(path)) => Ok(path),
        Err(ControlError::Problem(problem)) => Err(problem),
        other => panic!("{other:?}"),
    }
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
    let again = path(socket(1), &Question::Release(made.id));
    assert!(matches!(again, Err(Problem::UnknownPath(_))), "{again:?}");
    drop(sockets);
    chain.assert_released();
}

#[test]
fn requests_that_cannot_be_are_refused_with_their_fault() {
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

#[test]
fn caller_that_leaves_gives_its_request_up() {
    let mut chain = Chain::start("control-left", 2, |text| {
        text.replace("query = \"1s\"", "query = \"40s\"")
    });
    chain.stop(2);
    let (_open, socket) = open(&chain, 1);
    let mut stream = UnixStream::connect(&socket).unwrap();
    let question = Question::Path(wanted("here", "there"));
    stream.write_all(&question.encode()).unwrap();
    let clock = Clock::start();
    let wait_for = |count: usize| {
        while status(&socket).requests != count {
            let waited = clock.now().since(Instant::ZERO);
            assert!(waited < Duration::from_secs(30), "{count} requests");
            pause(Duration::from_millis(20));
        }
    };
    wait_for(1);
    drop(stream);
    wait_for(0);
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
}

#[test]
fn socket_of_a_service_that_was_killed_is_replaced_and_that_of_another_is_not() {
    let chain = Chain::start("control-twice", 1, |text| text);
    let (first, socket) = open(&chain, 1);
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
fn malformed_long_and_too_many_callers_are_refused_and_harm_no_other() {
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
