//! Both ends of a session over loopback.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::net::tcp::with_handshake_timeouts;
use lighthaul_session::session::Session;

/// Returns the client and the server of a session.
pub(crate) fn sessions() -> [Session; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let start = |tcp, side| {
        Session::start(
            with_handshake_timeouts(tcp).unwrap(),
            side,
            &Identity::generate(),
        )
    };
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| start(TcpStream::connect(address).unwrap(), Side::Client));
        let called = start(listener.accept().unwrap().0, Side::Server);
        [caller.join().unwrap().unwrap(), called.unwrap()]
    })
}
