//! Handshake of a program and a gateway before the program's own octets.

use std::fmt::Debug;
use std::net::SocketAddr;

use crate::refusal::Refusal;
use crate::target::Target;

/// Protocol by which a program names its target, as a state machine over octets without a socket.
pub trait Handshake: Debug + Send {
    /// Handles received octets, in pieces of any length. Must not be called again after a result other than
    /// [`Progress::More`].
    fn take(&mut self, octets: &[u8]) -> Progress;

    /// Returns the reply to the program: the local address of the connection to its target, or the reason of the
    /// refusal. After a refusal, the connection is closed.
    fn answer(&self, outcome: Result<SocketAddr, Refusal>) -> Vec<u8>;
}

/// Result of received octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The handshake needs more octets.
    More {
        /// Reply to send now.
        reply: Vec<u8>,
    },
    /// The program has named its target, and waits for the reply.
    Wants {
        /// Target.
        target: Target,
        /// Octets after the handshake, which belong to the target.
        rest: Vec<u8>,
    },
    /// The handshake failed. The connection is closed after the reply.
    Refused {
        /// Reply to send; may be empty.
        reply: Vec<u8>,
        /// Reason for the log.
        why: HandshakeFault,
    },
}

/// Fault of a program in a handshake, with the remedy where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeFault {
    /// Octets came after the last message.
    #[error("the program sent octets after the end of the handshake")]
    AfterEnd,
    /// The program speaks SOCKS5 or SOCKS4 to another listener.
    #[error("the program speaks SOCKS: have it use HTTP CONNECT, or the port for SOCKS5")]
    SpeaksSocks,
    /// The program speaks SOCKS4.
    #[error("the program speaks SOCKS4: have it use SOCKS5")]
    SpeaksSocks4,
    /// The program speaks HTTP to a listener for SOCKS5.
    #[error("the program speaks HTTP: have it use SOCKS5, or the port for HTTP CONNECT")]
    SpeaksHttp,
    /// The program speaks TLS to a listener for HTTP.
    #[error(
        "the program speaks TLS to the gateway: have it use http:// for the proxy, not https://"
    )]
    SpeaksTls,
    /// The program speaks an unknown protocol.
    #[error("the program does not speak SOCKS5")]
    NotSocks,
    /// The credentials are missing.
    #[error("the program sends no name and password, which this gateway requires")]
    NoCredentials,
    /// The credentials are wrong.
    #[error("the program's name or password is wrong")]
    WrongCredentials,
    /// No method of SOCKS5 is supported by both sides.
    #[error(
        "the program offers no method that this gateway supports; the gateway needs no password"
    )]
    NoMethod,
    /// The password request of SOCKS5 is malformed.
    #[error("the program's password request does not follow RFC 1929")]
    PasswordRequest,
    /// The request has another version than the greeting.
    #[error("the program's request does not have the version number of SOCKS5")]
    RequestVersion,
    /// The type of the address is unknown.
    #[error("the program's address has a type that SOCKS5 does not define")]
    AddressType,
    /// The name or the port of the target is invalid.
    #[error("the program's target has an invalid name or port")]
    InvalidTarget,
    /// The program asks for an incoming connection.
    #[error("the program asks for BIND, which gateways do not support")]
    Bind,
    /// The program asks for datagrams.
    #[error("the program asks for UDP, but gateways carry TCP only")]
    Udp,
    /// The command is unknown.
    #[error("SOCKS5 has no command {0}")]
    UnknownCommand(u8),
    /// The head of a request is too long.
    #[error("the request's head is larger than 16 KiB or has more than 100 lines")]
    LongHead,
    /// The request is malformed.
    #[error("the program's request is not HTTP/1.1")]
    NotHttp,
    /// The request has another method than CONNECT.
    #[error("this gateway supports CONNECT only: for plain HTTP, have the program use SOCKS5")]
    NotConnect,
    /// The Host header is missing or repeated.
    #[error("a request of HTTP/1.1 has one Host line")]
    HostHeader,
    /// The request has content.
    #[error("a CONNECT request has no content")]
    Content,
    /// The target of a CONNECT request is malformed.
    #[error("CONNECT takes a host and a port, as in example.org:443")]
    ConnectTarget,
}

impl Progress {
    /// Returns the refusal of a request, with the reply to send.
    pub const fn refused(reply: Vec<u8>, why: HandshakeFault) -> Self {
        Self::Refused { reply, why }
    }
}
