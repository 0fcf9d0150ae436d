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
use lighthaul_session::error::{Code, Error};
use lighthaul_session::halt::Halt;
use lighthaul_session::path::{Path, explore};
use lighthaul_session::role::Role;

use crate::ends::sessions;

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
        assert!(took < Duration::from_millis(500), "it took {took:?}");
    }
}

#[test]
fn listener_waits_until_it_is_halted_or_its_patience_ends() {
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
