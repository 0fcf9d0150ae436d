//! Aside: a library that the dynamic linker puts before libc (`LD_PRELOAD`), so that a program's TCP connections go
//! through a gateway, though it knows of none. `lighthaul wrap` starts programs so.
//!
//! It stands in for what connects, so that what flows then is the program's and libc's own business, and for what starts other
//! programs, so that those are captured, too. It fails closed: without a gateway, connections to other hosts are refused, and a
//! program that cannot be captured is not started. It uses nothing of ours, and to connect it allocates nothing and takes no lock
//! once it has looked for its gateway, since it runs in programs that it knows nothing of.
//!
//! System calls that a program makes without libc are not captured: those of Go, `syscall()`, and `connect` by io_uring.
//!
//! - [`connect`], [`fast_open`]: what programs call to connect; [`exec`], `exec_list`: and to start others
//! - `keep`: the environment that those need; `program_file`: which of them cannot be captured
//! - `libc_function`: what is called in the end; `complaint`: what the user is told
//! - `gateway`: where the gateway is; `early`: what is done before `main`; `address`: socket addresses as C has them
//! - `handshake`: what is said to the gateway (SOCKS5); `socket`: system calls behind safe functions
#![expect(
    unsafe_code,
    reason = "it is a function of C, in the place of one that takes pointers"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the environment is all that tells it where the gateway is"
)]

pub mod connect;
pub mod exec;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod exec_list;
pub mod fast_open;

mod address;
mod complaint;
mod early;
mod gateway;
mod handshake;
mod keep;
mod libc_function;
mod program_file;
mod socket;
