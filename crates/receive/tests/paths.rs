//! Exploration of the path between two ends.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::error::Fault;
use lighthaul_copy::message::Message;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_io::net::udp::Udp;
use lighthaul_session::dialog::Dialog;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::halt::Halt;
use lighthaul_session::message as own;
use lighthaul_session::path::{Path, explore};
use lighthaul_session::role::Role;

use crate::ends::sessions;
use lighthaul_testkit::allowance;

#[test]
fn server_does_not_wait_for_datagrams_that_the_client_cannot_send() {
    for sending in [true, false] {
        let [caller, called] = sessions();
        let clock = Clock::start();
        let thread = std::thread::spawn(move || {
            explore(&caller.dialog(), &Role::Client(false), sending, 2)
                .map(|path| path.datagram_len)
        });
        // the port stays open
        let (_probes, arrivals) = channel();
        let (_others, joins) = channel();
        let path = explore(
            &called.dialog(),
            &Role::Server(arrivals, joins),
            !sending,
            2,
        )
        .unwrap();
        assert_eq!(thread.join().unwrap(), Ok(0));
        assert!(path.sockets.is_empty() && path.both_ways_len == 0);
        let took = clock.now().since(Instant::ZERO);
        assert!(took < allowance(1) / 2, "it took {took:?}");
    }
}

#[test]
fn listener_waits_until_a_halt_or_its_timeout() {
    let [_caller, called] = sessions();
    let mut path = Path::none(&called);
    let patience = Some(Duration::from_millis(50));
    let heard = path.listen::<Message>(&called.dialog(), patience);
    assert_eq!(heard.unwrap_err().code(), Code::TimedOut);
    let halt = Arc::<Halt>::default();
    let dialog = called.path_dialog(Arc::clone(&halt)).unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        halt.stop(Fault::Stopped.into());
    });
    let heard = path.listen::<Message>(&dialog, None);
    assert_eq!(heard.unwrap_err(), Error::from(Fault::Stopped));
    ends.join().unwrap();
}

#[test]
fn server_waits_for_the_first_lane_if_its_first_probes_are_lost() {
    let [caller, called] = sessions();
    let mut prober = caller.secrets.prober();
    let address = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let [here, there] = [(); 2].map(|()| Udp::bind(address).unwrap());
    here.connect(there.local_addr().unwrap()).unwrap();
    let (probes, arrivals) = channel();
    let pass_on = || {
        let mut buffer = vec![0; 1 << 16];
        while let Some(got) = there.receive_into(&mut buffer, &mut 0).unwrap() {
            for probe in buffer[..got.len].chunks(got.segment_len) {
                let from = here.local_addr().unwrap();
                probes.send((from, probe.to_vec())).unwrap();
            }
        }
    };
    prober.announce(&here, 1).unwrap();
    pass_on();
    let role = Role::Server(arrivals, channel().1);
    let server = std::thread::spawn(move || {
        explore(&called.dialog(), &role, false, 2).map(|path| path.datagram_len)
    });
    std::thread::sleep(Duration::from_millis(100));
    prober.ping(&here).unwrap();
    pass_on();
    caller.dialog().say(&own::Message::Exploring).unwrap();
    let lanes = std::iter::repeat_with(|| caller.hear::<own::Message>().unwrap());
    let reached = lanes.take(2).last();
    assert!(
        matches!(
            reached,
            Some(own::Message::Reached {
                datagram_len: 1232..,
                lanes: 3,
                ..
            })
        ),
        "{reached:?}"
    );
    let answer = own::Message::Reached {
        datagram_len: 0,
        lanes: 0,
        waited: 0,
        proofs: Vec::new(),
    };
    caller.say(&answer).unwrap();
    assert!(server.join().unwrap().unwrap() >= 1232);
}

/// Socket of a test, at a free port of loopback.
fn socket() -> Udp {
    Udp::bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap()
}

/// Returns the datagrams that wait in `udp`, with their sources.
fn waiting(udp: &Udp) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut buffer = vec![0; 1 << 16];
    let mut all = Vec::new();
    while let Some(got) = udp.receive_into(&mut buffer, &mut 0).unwrap() {
        let datagrams = buffer[..got.len].chunks(got.segment_len);
        all.extend(datagrams.map(|one| (got.from.unwrap(), one.to_vec())));
    }
    all
}

/// A client that names the address of another host, and says whatever it likes.
#[test]
fn server_sends_little_to_an_address_that_is_not_proven() {
    for proofs in [Vec::new(), vec![[7; 16]]] {
        let [caller, called] = sessions();
        let (near, there, victim) = (socket(), socket(), socket());
        near.connect(there.local_addr().unwrap()).unwrap();
        // one short ping
        let mut prober = caller.secrets.prober();
        prober.announce(&near, 0).unwrap();
        let (probes, arrivals) = channel();
        let ping = waiting(&there).swap_remove(0).1;
        let len = ping.len();
        probes.send((victim.local_addr().unwrap(), ping)).unwrap();
        caller.dialog().say(&own::Message::Exploring).unwrap();
        let answer = own::Message::Reached {
            datagram_len: 1472,
            lanes: 1,
            waited: 0,
            proofs,
        };
        caller.say(&answer).unwrap();
        let role = Role::Server(arrivals, channel().1);
        let explored = explore(&called.dialog(), &role, true, 1);
        assert_eq!(explored.unwrap_err().code(), Code::Protocol);
        let arrived: usize = waiting(&victim).iter().map(|(_, one)| one.len()).sum();
        assert!(arrived > 0 && arrived <= 3 * len, "{arrived}");
    }
}

/// An observer repeats each probe of the client from another address, before and after the probe itself.
#[test]
fn repeated_probes_do_not_divert_a_lane() {
    for sending in [true, false] {
        let [caller, called] = sessions();
        let shared = Udp::bind(called.control.local()).unwrap();
        let observer = socket();
        let other = observer.local_addr().unwrap();
        let (probes, arrivals) = channel();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    for (from, probe) in waiting(&shared) {
                        for from in [other, from, other] {
                            probes.send((from, probe.clone())).ok();
                        }
                    }
                    pause(Duration::from_millis(1));
                }
            });
            let client = scope.spawn(|| {
                let dialog = caller.dialog();
                let mut path = explore(&dialog, &Role::Client(true), sending, 3)?;
                measured(&mut path, &dialog, sending)
            });
            let role = Role::Server(arrivals, channel().1);
            let server = scope.spawn(move || {
                let dialog = called.dialog();
                let mut path = explore(&dialog, &role, !sending, 3)?;
                waiting(&observer);
                let lanes = measured(&mut path, &dialog, !sending);
                assert!(
                    waiting(&observer).is_empty(),
                    "nothing but pings reached it"
                );
                lanes
            });
            let lanes = [client.join().unwrap(), server.join().unwrap()];
            is_over.store(true, Relaxed);
            assert_eq!(lanes, [Ok(3), Ok(3)]);
        });
    }
}

/// Measures the path on the sending side, and reports trains on the other. Returns the number of lanes.
fn measured(path: &mut Path, dialog: &Dialog<'_>, sending: bool) -> Result<usize, Error> {
    if sending {
        let rate = path.measure_briefly(dialog)?;
        assert!(rate.is_some(), "the train arrived at the other side");
        dialog.say(&own::Message::Welcome)?;
    } else {
        let own::Message::Welcome = path.listen(dialog, None)? else {
            return Err(Fault::Stopped.into());
        };
    }
    Ok(path.sockets.len())
}

/// Without the server's pings there is no proof, and a server that only receives needs none.
#[test]
fn server_receives_on_a_path_where_only_the_clients_datagrams_pass() {
    let [caller, called] = sessions();
    let (near, there) = (socket(), socket());
    near.connect(there.local_addr().unwrap()).unwrap();
    caller.secrets.prober().ping(&near).unwrap();
    let (probes, arrivals) = channel();
    for probe in waiting(&there) {
        probes.send((near.local_addr().unwrap(), probe.1)).unwrap();
    }
    caller.dialog().say(&own::Message::Exploring).unwrap();
    let answer = own::Message::Reached {
        datagram_len: 0,
        lanes: 1,
        waited: 0,
        proofs: Vec::new(),
    };
    caller.say(&answer).unwrap();
    let role = Role::Server(arrivals, channel().1);
    let mut path = explore(&called.dialog(), &role, false, 1).unwrap();
    assert_eq!((path.sockets.len(), path.both_ways_len), (1, 0));
    // it sends nothing more there, since the source of the probes may be forged
    near.connect(path.sockets[0].local_addr().unwrap()).unwrap();
    waiting(&near);
    assert_eq!(path.measure(&called.dialog()).unwrap(), None);
    assert!(waiting(&near).is_empty());
}
