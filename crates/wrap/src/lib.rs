//! Aside: a library that the dynamic linker loads before libc (`LD_PRELOAD`). It sends the TCP connections of a program
//! through a gateway. `lighthaul wrap` starts programs with it.
//!
//! The library replaces the functions of libc that connect; the program and libc move the data afterwards. It also
//! replaces the functions that start programs, so that children are captured. It fails closed: without a gateway,
//! connections to other hosts are refused. A program that cannot be captured is not started.
//!
//! It uses no other crate of the project, since it runs in arbitrary programs. Once it has found the gateway,
//! connecting allocates no memory and takes no lock. System calls that bypass libc are not captured: `syscall()`, and
//! `connect` by io_uring. Go programs make such calls, and are not started.
//!
//! - [`connect`], [`fast_open`]: replaced functions that connect; [`exec`], `exec_list`, [`shell`]: those that
//!   start programs
//! - `keep`: the environment that these need; `program_file`, `elf`, `script`: detection of programs that
//!   cannot be captured
//! - `libc_function`: the replaced functions of libc; `complaint`: messages to the user
//! - `gateway`: address of the gateway; `early`: work before `main`; `address`: socket addresses in the form of C
//! - `handshake`: SOCKS5 handshake; `socket`: system calls behind safe functions
#![expect(
    unsafe_code,
    reason = "it replaces a function of C that takes pointers"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "only the environment has the address of the gateway"
)]

pub mod connect;
pub mod exec;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod exec_list;
pub mod fast_open;
pub mod shell;

mod address;
mod complaint;
mod early;
mod elf;
mod gateway;
mod handshake;
mod keep;
mod libc_function;
mod program_file;
mod script;
mod socket;
