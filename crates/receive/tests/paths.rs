//! Exploration of the path between two ends.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::error::Fault;
use lighthaul_copy::message::Message;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::udp::Udp;
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
    };
    caller.say(&answer).unwrap();
    assert!(server.join().unwrap().unwrap() >= 1232);
}
