//! `sendto`, `sendmsg` and `sendmmsg`, in the place of libc's: with `MSG_FASTOPEN` they connect (TCP Fast Open, RFC 7413), so
//! they go through the gateway as [`connect`](crate::connect::connect) does.

use std::mem::transmute;

use libc::{c_int, c_uint, c_void, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::connect::connect_captured;
use crate::libc_function::LibcFunction;
use crate::socket::set_errno;

type SendTo = unsafe extern "C" fn(
    c_int,
    *const c_void,
    size_t,
    c_int,
    *const sockaddr,
    socklen_t,
) -> ssize_t;
type SendMsg = unsafe extern "C" fn(c_int, *const msghdr, c_int) -> ssize_t;
type SendMMsg = unsafe extern "C" fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int;

/// Sends octets; connects the socket before that if `MSG_FASTOPEN` says so.
///
/// # Safety
///
/// As for libc's: `octets` has `len` readable octets, and `to` has `to_len` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    octets: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    static OWN: LibcFunction = LibcFunction::new(c"sendto");
    // SAFETY: null is nothing, and what has this name is a function of this type.
    let own = unsafe { transmute::<*mut c_void, Option<SendTo>>(OWN.address()) };
    // SAFETY: the caller promises that it is readable.
    let (Some(own), Ok(flags)) = (own, unsafe { open(fd, flags, (to, to_len)) }) else {
        return -1;
    };
    // SAFETY: it is what the caller wants, on a socket that is connected by now; TCP does not look at the address then.
    unsafe { own(fd, octets, len, flags, to, to_len) }
}

/// Sends a message; connects the socket before that if `MSG_FASTOPEN` says so.
///
/// # Safety
///
/// As for libc's: `message` is readable, with all that it points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    static OWN: LibcFunction = LibcFunction::new(c"sendmsg");
    // SAFETY: null is nothing, and what has this name is a function of this type.
    let own = unsafe { transmute::<*mut c_void, Option<SendMsg>>(OWN.address()) };
    // SAFETY: the caller promises that it is readable.
    let opened = unsafe { open_for(fd, flags, message) };
    let (Some(own), Ok(flags)) = (own, opened) else {
        return -1;
    };
    // SAFETY: it is what the caller wants.
    unsafe { own(fd, message, flags) }
}

/// Sends messages; connects the socket before that, to where the first one goes, if `MSG_FASTOPEN` says so.
///
/// # Safety
///
/// As for libc's: there are `count` messages, readable with all that they point to, and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"sendmmsg");
    // SAFETY: null is nothing, and what has this name is a function of this type.
    let own = unsafe { transmute::<*mut c_void, Option<SendMMsg>>(OWN.address()) };
    let first = if count == 0 {
        std::ptr::null()
    } else {
        messages.cast_const().cast::<msghdr>()
    };
    // SAFETY: a message's header comes first in its entry, and is readable.
    let opened = unsafe { open_for(fd, flags, first) };
    let (Some(own), Ok(flags)) = (own, opened) else {
        return -1;
    };
    // SAFETY: it is what the caller wants.
    unsafe { own(fd, messages, count, flags) }
}

/// The same as [`open`] for the address of a message.
///
/// # Safety
///
/// `message` is null or readable, with the address that it points to.
unsafe fn open_for(fd: c_int, flags: c_int, message: *const msghdr) -> Result<c_int, ()> {
    if flags & libc::MSG_FASTOPEN == 0 || message.is_null() {
        return Ok(flags);
    }
    // SAFETY: it is readable, as the caller says.
    let message = unsafe { &*message };
    let to = message.msg_name.cast::<sockaddr>().cast_const();
    // SAFETY: so is the address.
    unsafe { open(fd, flags, (to, message.msg_namelen)) }
}

/// Connects a socket that is to be captured; answers the flags that are left for sending, or fails with `errno` set.
///
/// # Safety
///
/// The address is null or has as many readable octets as its length says.
unsafe fn open(
    fd: c_int,
    flags: c_int,
    (to, len): (*const sockaddr, socklen_t),
) -> Result<c_int, ()> {
    if flags & libc::MSG_FASTOPEN == 0 {
        return Ok(flags);
    }
    // SAFETY: the caller says that it is readable.
    match unsafe { connect_captured(fd, to, len) } {
        None => Ok(flags),
        Some(Ok(())) => Ok(flags & !libc::MSG_FASTOPEN),
        Some(Err(why)) => {
            set_errno(why);
            Err(())
        }
    }
}
