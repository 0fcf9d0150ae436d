//! HTTP CONNECT: RFC 9110, section 9.3.6, in messages of RFC 9112.
//!
//! [`Connect`] is the server side of one handshake: it receives octets and answers, and has no
//! socket. A request with content is refused, since its octets could be taken for those of the
//! tunnel. So is every method but CONNECT.

use std::mem;
use std::net::SocketAddr;
use std::str::FromStr;

use data_encoding::BASE64;
use httparse::{EMPTY_HEADER, Header, Request};

use crate::credentials::Credentials;
use crate::handshake::{Handshake, HandshakeFault, Progress};
use crate::refusal::Refusal;
use crate::target::Target;

/// Server side of an HTTP CONNECT request.
#[derive(Clone, Debug)]
pub struct Connect {
    credentials: Option<Credentials>,
    /// Received part of the request's head.
    came: Vec<u8>,
    /// Length of the part that was searched for the end of the head.
    searched: usize,
    is_over: bool,
}

impl Connect {
    /// Creates a handshake. With `credentials`, the program must send them.
    pub const fn new(credentials: Option<Credentials>) -> Self {
        Self {
            credentials,
            came: Vec::new(),
            searched: 0,
            is_over: false,
        }
    }

    /// Returns the end of the head, once its empty line has arrived.
    fn end(&mut self) -> Option<usize> {
        // empty lines may precede the request: RFC 9112, section 2.2
        let start = self.came.iter().position(|octet| !is_line_end(*octet))?;
        let from = self.searched.max(start);
        let ends = self.came[from..].iter().enumerate();
        let end = ends
            .filter(|(_, octet)| **octet == b'\n')
            .find_map(|(at, _)| {
                let line = self.came[start..from + at]
                    .rsplit(|octet| *octet == b'\n')
                    .next()?;
                matches!(line, b"" | b"\r").then_some(from + at + 1)
            });
        self.searched = self.came.len();
        end
    }

    fn judge(&self, head: &[u8]) -> Result<Target, HandshakeFault> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        match request.parse(head) {
            Ok(status) if status.is_complete() => {}
            Err(httparse::Error::TooManyHeaders) => return Err(HandshakeFault::LongHead),
            Ok(_) | Err(_) => return Err(HandshakeFault::NotHttp),
        }
        if request.method != Some("CONNECT") {
            return Err(HandshakeFault::NotConnect);
        }
        if request.version == Some(1) && values(request.headers, "host").count() != 1 {
            return Err(HandshakeFault::HostHeader);
        }
        if has_content(request.headers) {
            return Err(HandshakeFault::Content);
        }
        if !self.admits(request.headers) {
            let is_missing = values(request.headers, "proxy-authorization")
                .next()
                .is_none();
            return Err(if is_missing {
                HandshakeFault::NoCredentials
            } else {
                HandshakeFault::WrongCredentials
            });
        }
        Target::from_str(request.path.unwrap_or_default())
            .map_err(|_| HandshakeFault::ConnectTarget)
    }

    /// Returns true if the program sent the credentials, or needs none: RFC 7617, section 2.
    fn admits(&self, headers: &[Header<'_>]) -> bool {
        let Some(credentials) = &self.credentials else {
            return true;
        };
        let mut said = values(headers, "proxy-authorization");
        let (Some(said), None) = (said.next(), said.next()) else {
            return false;
        };
        let Some((scheme, word)) = said.split_at_checked("Basic ".len()) else {
            return false;
        };
        let word = BASE64.decode(word.trim_ascii()).unwrap_or_default();
        let mut parts = word.splitn(2, |octet| *octet == b':');
        let (user, password) = (parts.next().unwrap_or_default(), parts.next());
        scheme.eq_ignore_ascii_case(b"Basic ")
            && credentials.admits(user, password.unwrap_or_default())
    }

    fn refuse(&mut self, why: HandshakeFault) -> Progress {
        self.is_over = true;
        self.came.clear();
        Progress::refused(response(why), why)
    }
}

impl Handshake for Connect {
    fn take(&mut self, octets: &[u8]) -> Progress {
        if self.is_over {
            return Progress::refused(Vec::new(), HandshakeFault::AfterEnd);
        }
        self.came.extend_from_slice(octets);
        if let Some(why) = self.came.first().and_then(|first| foreign(*first)) {
            return self.refuse(why);
        }
        let end = self.end();
        if end.unwrap_or(self.came.len()) > HEAD_MAX {
            return self.refuse(HandshakeFault::LongHead);
        }
        let Some(end) = end else {
            return Progress::More { reply: Vec::new() };
        };
        match self.judge(&self.came[..end]) {
            Ok(target) => {
                self.is_over = true;
                let mut rest = mem::take(&mut self.came);
                rest.drain(..end);
                Progress::Wants { target, rest }
            }
            Err(why) => self.refuse(why),
        }
    }

    fn answer(&self, outcome: Result<SocketAddr, Refusal>) -> Vec<u8> {
        let Err(refusal) = outcome else {
            // no length and no coding, since the tunnel follows
            return b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec();
        };
        let (status, reason) = refusal.status();
        let later = match refusal {
            Refusal::Busy => "Retry-After: 1\r\n",
            Refusal::NotAllowed
            | Refusal::Unreachable
            | Refusal::Refused
            | Refusal::TimedOut
            | Refusal::Unresolved
            | Refusal::Broken
            | Refusal::Rejected => "",
        };
        let lines = format!("{later}Proxy-Status: lighthaul; error={reason}\r\n");
        reply(status, &lines, &refusal.to_string())
    }
}

/// Returns the response to a refused request. A program that speaks another protocol gets none.
fn response(why: HandshakeFault) -> Vec<u8> {
    let (status, lines) = match why {
        HandshakeFault::LongHead => ("431 Request Header Fields Too Large", ""),
        HandshakeFault::NotConnect => ("405 Method Not Allowed", "Allow: CONNECT\r\n"),
        HandshakeFault::NoCredentials | HandshakeFault::WrongCredentials => {
            ("407 Proxy Authentication Required", AUTHENTICATE)
        }
        HandshakeFault::NotHttp
        | HandshakeFault::HostHeader
        | HandshakeFault::Content
        | HandshakeFault::ConnectTarget => ("400 Bad Request", ""),
        HandshakeFault::AfterEnd
        | HandshakeFault::SpeaksSocks
        | HandshakeFault::SpeaksSocks4
        | HandshakeFault::SpeaksHttp
        | HandshakeFault::SpeaksTls
        | HandshakeFault::NotSocks
        | HandshakeFault::NoMethod
        | HandshakeFault::PasswordRequest
        | HandshakeFault::RequestVersion
        | HandshakeFault::AddressType
        | HandshakeFault::InvalidTarget
        | HandshakeFault::Bind
        | HandshakeFault::Udp
        | HandshakeFault::UnknownCommand(_) => return Vec::new(),
    };
    reply(status, lines, &why.to_string())
}

fn reply(status: &str, lines: &str, why: &str) -> Vec<u8> {
    let len = why.len() + 1;
    let common = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n";
    format!("HTTP/1.1 {status}\r\n{lines}{common}Content-Length: {len}\r\n\r\n{why}\n").into_bytes()
}

/// Returns the other protocol that begins with octet `first`, if any.
const fn foreign(first: u8) -> Option<HandshakeFault> {
    match first {
        4 | 5 => Some(HandshakeFault::SpeaksSocks),
        0x16 => Some(HandshakeFault::SpeaksTls),
        _ => None,
    }
}

const fn is_line_end(octet: u8) -> bool {
    matches!(octet, b'\r' | b'\n')
}

/// Returns the values of all headers named `name`.
fn values<'a>(headers: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

/// Returns true if the request has content, which could be taken for octets of the tunnel.
fn has_content(headers: &[Header<'_>]) -> bool {
    values(headers, "transfer-encoding").next().is_some()
        || values(headers, "content-length").any(|value| value != b"0")
}

/// Maximum number of octets of an HTTP head, far above the heads of real programs.
const HEAD_MAX: usize = 16 << 10;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 100;
/// Header line that asks for credentials (RFC 7617).
const AUTHENTICATE: &str =
    "Proxy-Authenticate: Basic realm=\"lighthaul gateway\", charset=\"UTF-8\"\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn locked() -> Connect {
        // the Base64 below encodes "alice:secret"
        Connect::new(Some("alice:secret".parse().unwrap()))
    }

    fn wants(target: &str, rest: &[u8]) -> Progress {
        Progress::Wants {
            target: target.parse().unwrap(),
            rest: rest.to_vec(),
        }
    }

    fn refused(mut connect: Connect, request: &str) -> String {
        let progress = connect.take(request.as_bytes());
        let Progress::Refused { reply, why } = progress else {
            panic!("not refused: {request:?}: {progress:?}");
        };
        assert!(!why.to_string().is_empty());
        String::from_utf8(reply).unwrap()
    }

    #[test]
    fn request_names_the_target() {
        for (request, target, rest) in [
            (
                "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
                "example.org:443",
                "",
            ),
            (
                "CONNECT example.org:443 HTTP/1.0\r\n\r\n",
                "example.org:443",
                "",
            ),
            (
                "CONNECT [::1]:5001 HTTP/1.0\n\nGET /\r\n\r\n",
                "[::1]:5001",
                "GET /\r\n\r\n",
            ),
            (
                "\r\n\r\nCONNECT 10.0.0.1:1 HTTP/1.1\r\nHOST:x\r\nContent-Length: 0\r\n\r\n\r\n\r\n",
                "10.0.0.1:1",
                "\r\n\r\n",
            ),
        ] {
            let mut connect = Connect::new(None);
            assert_eq!(
                connect.take(request.as_bytes()),
                wants(target, rest.as_bytes())
            );
            let answer = connect.answer(Ok("10.0.0.1:1".parse().unwrap()));
            assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"\r\n\r\n"));
        }
    }

    #[test]
    fn other_requests_get_an_error_response() {
        for (request, status) in [
            (
                "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
                "405 ",
            ),
            ("connect example.org:443 HTTP/1.0\r\n\r\n", "405 "),
            ("CONNECT example.org HTTP/1.0\r\n\r\n", "400 "),
            ("CONNECT example.org:0 HTTP/1.0\r\n\r\n", "400 "),
            ("CONNECT http://example.org:443/ HTTP/1.0\r\n\r\n", "400 "),
            ("CONNECT u@example.org:443 HTTP/1.0\r\n\r\n", "400 "),
            ("CONNECT example.org:443 HTTP/1.1\r\n\r\n", "400 "),
            (
                "CONNECT example.org:443 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                "400 ",
            ),
            (
                "CONNECT example.org:443 HTTP/1.0\r\nContent-Length: 1\r\n\r\n",
                "400 ",
            ),
            (
                "CONNECT example.org:443 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
                "400 ",
            ),
            ("CONNECT example.org:443 HTTP/2.0\r\n\r\n", "400 "),
            ("CONNECT example.org:443\r\n\r\n", "400 "),
            ("nonsense\n\n", "400 "),
        ] {
            let reply = refused(Connect::new(None), request);
            assert!(
                reply.starts_with(&format!("HTTP/1.1 {status}")),
                "{request:?}: {reply}"
            );
            let is_allowed = reply.contains("\r\nAllow: CONNECT\r\n");
            assert_eq!(is_allowed, status == "405 ", "{reply}");
        }
        assert_eq!(refused(Connect::new(None), "\x05\x01\0"), "");
        assert_eq!(refused(Connect::new(None), "\x16\x03\x01"), "");
    }

    #[test]
    fn head_of_a_request_is_limited() {
        let long = format!(
            "CONNECT example.org:443 HTTP/1.0\r\nX: {}",
            "a".repeat(HEAD_MAX)
        );
        assert!(refused(Connect::new(None), &long).starts_with("HTTP/1.1 431 "));
        let blank = "\r\n".repeat(HEAD_MAX);
        assert!(refused(Connect::new(None), &blank).starts_with("HTTP/1.1 431 "));
        let many = format!(
            "CONNECT a:1 HTTP/1.0\r\n{}\r\n",
            "X: y\r\n".repeat(HEADERS_MAX + 1)
        );
        assert!(refused(Connect::new(None), &many).starts_with("HTTP/1.1 431 "));
        // octets after the head are not limited
        let mut connect = Connect::new(None);
        let rest = "a".repeat(2 * HEAD_MAX);
        let octets = format!("CONNECT a:1 HTTP/1.0\r\n\r\n{rest}");
        assert_eq!(
            connect.take(octets.as_bytes()),
            wants("a:1", rest.as_bytes())
        );
    }

    #[test]
    fn missing_or_wrong_credentials_are_refused() {
        let request = |line: &str| format!("CONNECT example.org:443 HTTP/1.0\r\n{line}\r\n");
        for line in [
            "",
            "Proxy-Authorization: Basic\r\n",
            "Proxy-Authorization: Bearer YWxpY2U6c2VjcmV0\r\n",
            "Proxy-Authorization: Basic YWxpY2U6c2VjcmVU\r\n",
            "Proxy-Authorization: Basic !\r\n",
            "Authorization: Basic YWxpY2U6c2VjcmV0\r\n",
            "Proxy-Authorization: Basic YWxpY2U6c2VjcmV0\r\nProxy-Authorization: Basic YWxpY2U6c2VjcmV0\r\n",
        ] {
            let reply = refused(locked(), &request(line));
            assert!(
                reply.starts_with("HTTP/1.1 407 ") && reply.contains("Proxy-Authenticate: Basic")
            );
        }
        let line = "proxy-authorization: basic YWxpY2U6c2VjcmV0\r\n";
        let progress = locked().take(request(line).as_bytes());
        assert_eq!(progress, wants("example.org:443", b""));
    }

    #[test]
    fn each_refusal_has_a_status() {
        for refusal in Refusal::ALL {
            let reply = String::from_utf8(Connect::new(None).answer(Err(refusal))).unwrap();
            let (head, body) = reply.split_once("\r\n\r\n").unwrap();
            assert!(
                head.contains(&format!("Content-Length: {}", body.len())),
                "{reply}"
            );
            assert!(head.contains("Proxy-Status: lighthaul; error="), "{reply}");
            // RFC 9110, section 10.2.3
            let may_retry = head.contains("\r\nRetry-After: 1\r\n");
            assert_eq!(may_retry, refusal == Refusal::Busy, "{reply}");
        }
    }
}
