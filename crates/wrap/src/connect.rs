//! Replacement for libc's `connect`.

use std::io;
use std::mem::transmute;
use std::net::SocketAddr;

use libc::{c_int, c_void, sockaddr, socklen_t};

use crate::address;
use crate::complaint::Complaint;
use crate::gateway::{Gateway, VARIABLE, gateway, is_captured};
use crate::handshake::shake;
use crate::libc_function::LibcFunction;
use crate::socket::{Connect, Socket, errno, set_errno, tcp_family};

/// Replaces `connect`: TCP sockets connect to other hosts through the gateway, other sockets as in libc.
///
/// A non-blocking socket is also connected, or has failed, when this returns. It never fails with `EINPROGRESS`, which
/// programs accept.
///
/// # Safety
///
/// The same as for the function of libc: `to` has `len` readable octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    let before = errno();
    // SAFETY: the caller promises that it is readable.
    match unsafe { connect_captured(fd, to, len) } {
        None => match own_connect() {
            // SAFETY: the caller guarantees what libc requires of the arguments.
            Some(own) => unsafe { own(fd, to, len) },
            None => fail(libc::ENOSYS),
        },
        Some(Ok(())) => {
            set_errno(before);
            0
        }
        Some(Err(why)) => fail(why),
    }
}

fn fail(why: c_int) -> c_int {
    set_errno(why);
    -1
}

/// Connects a socket through the gateway. Returns `None` if the connection is not to be captured.
///
/// # Safety
///
/// `to` is null or has `len` readable octets.
pub(crate) unsafe fn connect_captured(
    fd: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> Option<Result<(), c_int>> {
    // SAFETY: the caller promises that it is readable.
    let target = unsafe { address::read(to, len) }?;
    let gateway = gateway();
    let family = is_captured(target, gateway.map(|gateway| gateway.address))
        .then(|| tcp_family(fd))
        .flatten()?;
    let outcome = match (gateway, own_connect()) {
        (Some(gateway), Some(own)) => go(own, (fd, family), target, gateway),
        (None, _) => {
            complain_of_loss();
            Err(libc::EACCES)
        }
        (_, None) => Err(libc::ENOSYS),
    };
    Some(outcome)
}

fn go(
    own: Connect,
    (fd, family): (c_int, c_int),
    target: SocketAddr,
    gateway: &Gateway,
) -> Result<(), c_int> {
    let mut socket = Socket::new(fd, LIMIT_MILLIS).ok_or(libc::EBADF)?;
    socket
        .connect(own, family, gateway.address)
        .inspect_err(|why| complain(gateway, *why))?;
    let outcome = shake(&mut socket, target, gateway.credentials.as_ref());
    if outcome.is_err() {
        socket.disconnect(own);
    }
    outcome
}

/// Reports once that the gateway cannot be reached. The program would report its target instead.
fn complain(gateway: &Gateway, why: c_int) {
    static UNREACHABLE: Complaint = Complaint::new();
    let (address, why) = (gateway.address, io::Error::from_raw_os_error(why));
    UNREACHABLE.tell(format_args!("cannot reach the gateway {address}: {why}"));
}

/// Reports once that the environment names no gateway, so connections are refused.
fn complain_of_loss() {
    static LOST: Complaint = Complaint::new();
    LOST.tell(format_args!(
        "connections are refused, since {VARIABLE} is not set: start the program with \
         `lighthaul wrap -- COMMAND`, or remove the library from LD_PRELOAD"
    ));
}

/// Function of libc that [`connect`] replaces.
fn own_connect() -> Option<Connect> {
    static OWN: LibcFunction = LibcFunction::new(c"connect");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    unsafe { transmute::<*mut c_void, Option<Connect>>(OWN.address()) }
}

/// Timeout of a program that waits for the gateway, and of the gateway for the target.
const LIMIT_MILLIS: i64 = 30_000;
