//! Requests to the kernel over rtnetlink, several in one call.
//!
//! A `Netlink` is a socket in the network namespace of the thread that opens it. `ask` sends up to
//! 64 messages at once and matches acknowledgments by sequence number, so late replies are ignored.
//! Messages must ask for an acknowledgment. `dump` collects a list, and repeats it if the kernel changed it
//! meanwhile. Both wait up to 5 s for each reply. An error of one message does not stop the next ones.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{self, Errno};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, netdevice, recv, send,
    socket_with,
};

use lighthaul_kernel::tc_message::{Message, Reply};

/// Connection to the kernel of a network namespace.
#[derive(Debug)]
pub(crate) struct Netlink {
    fd: OwnedFd,
    number: u32,
    room: Box<[u8]>,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let family = AddressFamily::NETLINK;
        // protocol zero is NETLINK_ROUTE
        let fd = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        // only messages of the kernel are received
        connect(&fd, &SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        set_socket_timeout(&fd, Timeout::Send, Some(PATIENCE))?;
        Ok(Self {
            fd,
            number: 0,
            room: vec![0; ROOM].into(),
        })
    }

    /// Returns the index of the interface with this name.
    pub(crate) fn index_of(&self, name: &str) -> io::Result<u32> {
        netdevice::name_to_index(&self.fd, name)
    }

    /// Sends `messages` in order. Returns one result for each.
    pub(crate) fn ask(&mut self, messages: &[Message]) -> Vec<io::Result<()>> {
        let mut answers = Vec::with_capacity(messages.len());
        for some in messages.chunks(AT_ONCE) {
            match self.ask_some(some) {
                Ok(more) => answers.extend(more),
                Err(why) => {
                    // after an error of the socket, the results of the rest are unknown
                    answers.resize(messages.len(), Err(why));
                    break;
                }
            }
        }
        answers
    }

    fn ask_some(&mut self, messages: &[Message]) -> io::Result<Vec<io::Result<()>>> {
        let first = self.number.wrapping_add(1);
        self.send(messages)?;
        let mut answers: Vec<Option<io::Result<()>>> = vec![None; messages.len()];
        while answers.iter().any(Option::is_none) {
            let len = recv(&self.fd, &mut self.room[..], RecvFlags::empty())?.0;
            for reply in Reply::all(&self.room[..len]) {
                let nth = reply.number.wrapping_sub(first) as usize;
                if let Some(answer) = answers.get_mut(nth)
                    && reply.kind == NLMSG_ERROR
                {
                    *answer = Some(result(reply.error()));
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Passes each reply of a dump request to `see`. A dump that was interrupted by a change is repeated.
    pub(crate) fn dump<T>(
        &mut self,
        message: &Message,
        mut see: impl FnMut(Reply<'_>) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..TRIES {
            if let Some(seen) = self.dump_once(message, &mut see)? {
                return Ok(seen);
            }
        }
        Err(Errno::INTR)
    }

    fn dump_once<T>(
        &mut self,
        message: &Message,
        see: &mut impl FnMut(Reply<'_>) -> Option<T>,
    ) -> io::Result<Option<Vec<T>>> {
        self.send(std::slice::from_ref(message))?;
        let mut seen = Vec::new();
        let mut is_whole = true;
        loop {
            let len = recv(&self.fd, &mut self.room[..], RecvFlags::empty())?.0;
            for reply in Reply::all(&self.room[..len]) {
                if reply.number != self.number {
                    continue;
                }
                is_whole &= reply.flags & NLM_F_DUMP_INTR == 0;
                match reply.kind {
                    NLMSG_DONE | NLMSG_ERROR => {
                        result(reply.error())?;
                        return Ok(is_whole.then_some(seen));
                    }
                    _ if seen.len() < SEEN_MAX => seen.extend(see(reply)),
                    _ => {}
                }
            }
        }
    }

    fn send(&mut self, messages: &[Message]) -> io::Result<()> {
        let mut octets = Vec::new();
        for message in messages {
            self.number = self.number.wrapping_add(1);
            octets.extend(message.octets(self.number));
        }
        let sent = send(&self.fd, &octets, SendFlags::empty())?;
        assert_eq!(sent, octets.len(), "netlink accepts whole messages only");
        Ok(())
    }
}

fn result(error: i32) -> io::Result<()> {
    if error == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw_os_error(-error))
    }
}

/// Time for which the kernel may be busy with changes of other programs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of requests whose answers fit in the buffer of a socket.
const AT_ONCE: usize = 64;
/// Size of the receive buffer, above that of any message of the kernel.
const ROOM: usize = 1 << 16;
const TRIES: usize = 10;
/// Maximum number of replies, above the number of classes of an interface.
const SEEN_MAX: usize = 1 << 17;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_DUMP_INTR: u16 = 0x10;
