//! Replacements for libc's `sendto`, `sendmsg` and `sendmmsg`. With `MSG_FASTOPEN` they connect (TCP Fast Open, RFC
//! 7413), so they connect through the gateway as [`connect`](crate::connect::connect) does.

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

/// Replaces `sendto`. With `MSG_FASTOPEN` it connects the socket first.
///
/// # Safety
///
/// The same as for the function of libc: `octets` has `len` readable octets, and `to` has `to_len` of them.
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
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<SendTo>>(OWN.address()) };
    // SAFETY: the caller promises that it is readable.
    let (Some(own), Ok(flags)) = (own, unsafe { open(fd, flags, (to, to_len)) }) else {
        return -1;
    };
    // SAFETY: the arguments are those of the caller. The socket is connected, so TCP ignores the address.
    unsafe { own(fd, octets, len, flags, to, to_len) }
}

/// Replaces `sendmsg`. With `MSG_FASTOPEN` it connects the socket first.
///
/// # Safety
///
/// The same as for the function of libc: `message` is readable, with all that it points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    static OWN: LibcFunction = LibcFunction::new(c"sendmsg");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<SendMsg>>(OWN.address()) };
    // SAFETY: the caller promises that it is readable.
    let opened = unsafe { open_for(fd, flags, message) };
    let (Some(own), Ok(flags)) = (own, opened) else {
        return -1;
    };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { own(fd, message, flags) }
}

/// Replaces `sendmmsg`. With `MSG_FASTOPEN` it connects the socket first, to the address of the first message.
///
/// # Safety
///
/// The same as for the function of libc: there are `count` messages, readable with all that they point to, and
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"sendmmsg");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
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
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { own(fd, messages, count, flags) }
}

/// Calls [`open`] with the address of a message.
///
/// # Safety
///
/// `message` is null or readable, with the address that it points to.
unsafe fn open_for(fd: c_int, flags: c_int, message: *const msghdr) -> Result<c_int, ()> {
    if flags & libc::MSG_FASTOPEN == 0 || message.is_null() {
        return Ok(flags);
    }
    // SAFETY: it is readable, as the caller guarantees.
    let message = unsafe { &*message };
    let to = message.msg_name.cast::<sockaddr>().cast_const();
    // SAFETY: so is the address.
    unsafe { open(fd, flags, (to, message.msg_namelen)) }
}

/// Connects a socket that is to be captured. Returns the flags for sending, or fails with `errno` set.
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
    // SAFETY: the caller guarantees that it is readable.
    match unsafe { connect_captured(fd, to, len) } {
        None => Ok(flags),
        Some(Ok(())) => Ok(flags & !libc::MSG_FASTOPEN),
        Some(Err(why)) => {
            set_errno(why);
            Err(())
        }
    }
}
