//! Proxy between the driver and the switch, which injects faults into changes.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lighthaul_circuit::conformance::Fault;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Signal, kill_process};

use crate::relay::{self, Connection, Directions, strike};

/// Proxy at a socket of its own.
#[derive(Clone)]
pub(crate) struct Proxy {
    /// Next fault, and the number of changes before it.
    fault: Arc<Mutex<Option<(Fault, usize)>>>,
}

impl Proxy {
    /// Starts the proxy. Its threads end with the test.
    pub(crate) fn start(socket: &Path, switch: PathBuf) -> Self {
        let proxy = Self {
            fault: Arc::default(),
        };
        relay::start(&proxy, socket, switch);
        proxy
    }

    pub(crate) fn set(&self, fault: Option<(Fault, usize)>) {
        *self.fault.lock().unwrap() = fault;
    }
}

impl Directions for Proxy {
    /// Passes the messages of the driver. The first one after a barrier that changes the switch begins a change.
    fn requests(&self, connection: &Connection) -> io::Result<()> {
        let (mut from, mut to) = (&connection.client, &connection.server);
        let mut is_within = false;
        while let Some(message) = read(&mut from)? {
            let is_mod = [FLOW_MOD, METER_MOD].contains(&message[1]);
            is_within &= message[1] != BARRIER_REQUEST;
            let fault = if is_mod && !is_within {
                strike(&mut self.fault.lock().unwrap())
            } else {
                None
            };
            is_within |= is_mod;
            match fault {
                None => to.write_all(&message)?,
                Some(Fault::Refuse) => refuse(connection, &message)?,
                Some(Fault::Unreachable) => return Ok(()),
                Some(Fault::Silence) => while read(&mut from)?.is_some() {},
                Some(Fault::AnswerLost) => {
                    *connection.is_cut_at_reply.lock().unwrap() = true;
                    to.write_all(&message)?;
                }
                Some(Fault::Death) => {
                    let driver = socket_peercred(from)?.pid;
                    kill_process(driver, Signal::KILL)?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn replies(&self, connection: &Connection) -> io::Result<()> {
        let mut from = &connection.server;
        while let Some(message) = read(&mut from)? {
            if message[1] == BARRIER_REPLY && *connection.is_cut_at_reply.lock().unwrap() {
                break;
            }
            connection.reply(&message)?;
        }
        Ok(())
    }
}

/// Answers a message with the error that the flow table is full.
fn refuse(connection: &Connection, message: &[u8]) -> io::Result<()> {
    let mut error = vec![4, 1, 0, 12];
    error.extend(&message[4..8]);
    error.extend([0, 5, 0, 1]);
    connection.reply(&error)
}

/// Returns the next message, or nothing at the end.
fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut message = vec![0; 8];
    match from.read_exact(&mut message) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        done => done?,
    }
    let length = u16::from_be_bytes([message[2], message[3]]).into();
    message.resize(length, 0);
    from.read_exact(&mut message[8..])?;
    Ok(Some(message))
}

// types of messages
const FLOW_MOD: u8 = 14;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;
const METER_MOD: u8 = 29;
