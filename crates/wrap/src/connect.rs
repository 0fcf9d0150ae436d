//! `connect`, in the place of libc's.

use std::io::{self, Write};
use std::mem::transmute;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{c_int, c_void, sockaddr, socklen_t};

use crate::address;
use crate::gateway::{Gateway, gateway, is_captured};
use crate::handshake::shake;
use crate::socket::{Connect, Socket, errno, set_errno, tcp_family};

/// Connects a socket: through the gateway if that is over TCP to another host, else as libc does.
///
/// A socket that does not block is connected all the same when this returns, or has failed: programs that could have been
/// told to wait find that they need not.
///
/// # Safety
///
/// As for libc's: `to` has `len` readable octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    let before = errno();
    let Some(own) = own_connect() else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    // SAFETY: the caller promises that it is readable.
    let target = unsafe { address::read(to, len) };
    let Some((target, gateway, family)) = target.and_then(|target| captured(fd, target)) else {
        // SAFETY: it is just what the caller wants.
        return unsafe { own(fd, to, len) };
    };
    match go(own, (fd, family), target, gateway) {
        Ok(()) => {
            set_errno(before);
            0
        }
        Err(why) => {
            set_errno(why);
            -1
        }
    }
}

/// The target, the gateway and the socket's family, if the gateway is to be asked.
fn captured(fd: c_int, target: SocketAddr) -> Option<(SocketAddr, &'static Gateway, c_int)> {
    let gateway = gateway()?;
    let family = is_captured(target, gateway.address).then(|| tcp_family(fd))??;
    Some((target, gateway, family))
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

/// Says once that there is no gateway: the program knows of none, and would name its target.
fn complain(gateway: &Gateway, why: c_int) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        let (address, why) = (gateway.address, io::Error::from_raw_os_error(why));
        let text = format!("lighthaul wrap: the gateway {address} cannot be reached: {why}\n");
        // a program may have closed it
        io::stderr().write_all(text.as_bytes()).ok();
    }
}

/// The function that this one stands before; looked for once.
fn own_connect() -> Option<Connect> {
    static OWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut found = OWN.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: the name is a string of C.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"connect".as_ptr()) };
        OWN.store(found, Ordering::Relaxed);
    }
    // SAFETY: null is nothing, and what has this name is a function of this type.
    unsafe { transmute::<*mut c_void, Option<Connect>>(found) }
}

/// How long a program waits for the gateway, and the gateway for the target.
const LIMIT_MILLIS: i64 = 30_000;
