//! Rights that a request needs.
//!
//! `check` compares a request with the [`Rights`] of the client and the settings of the daemon, and
//! fails with a [`Fault`]. It runs before a request is served, and again while it is. A daemon is
//! either for files or a gateway. An invited client may only make the request that it was invited
//! for. Paths are not checked here: file access stays beneath the root of the client.

use lighthaul_session::error::Error;
use lighthaul_session::protocol;

use crate::error::Fault;
use crate::request::Request;
use crate::rights::Rights;
use crate::served_stores;
use crate::session_request::SessionRequest;
use crate::settings::Settings;

/// Refuses requests that the client has no right to.
///
/// A client that another client invited must make the request that it was `invited` for.
pub(crate) fn check(
    session_request: &SessionRequest,
    rights: &Rights,
    invited: Option<&SessionRequest>,
    settings: &Settings,
) -> Result<(), Error> {
    let refuse = |fault: Fault| Err(fault.into());
    let SessionRequest { hello, request } = session_request;
    if invited.is_some_and(|invited| invited != session_request) {
        return refuse(Fault::OtherRequest);
    }
    match (request, &settings.gateway) {
        (Request::Gateway(_), None) => return refuse(Fault::NotGateway),
        (Request::Gateway(_), Some(_)) if !rights.gateway => return refuse(Fault::GatewayDenied),
        (Request::Gateway(_) | Request::Probe(_) | Request::Checkup, _) | (_, None) => {}
        (_, Some(_)) => return refuse(Fault::OnlyGateway),
    }
    if let Request::Relay { .. } = request
        && !settings.relay
    {
        return refuse(Fault::RelayDisabled);
    }
    // the datagrams of a measurement carry no data
    let measures = matches!(request, Request::Probe(_));
    if hello.plain && !settings.plain && !measures {
        return refuse(Fault::PlainDisabled);
    }
    if let Some(options) = request.options() {
        protocol::asked(&options.protocol)?;
    }
    if rights.read_only && writes(request) {
        return refuse(Fault::ReadOnly);
    }
    served_stores::check_request(settings, rights, request)
}

/// Returns true if a request changes files of the daemon.
const fn writes(request: &Request) -> bool {
    match request {
        Request::Receive { .. } | Request::Expect { .. } => true,
        Request::Files(verb) => verb.changes(),
        Request::Stream(wanted) => wanted.to,
        Request::RemoteFiles(wanted) => wanted.changes,
        Request::Send { options, .. } | Request::Relay { options, .. } => options.remove_source,
        Request::Probe(_) | Request::Checkup | Request::Gateway(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::time::Duration;

    use lighthaul_base::Size;
    use lighthaul_copy::message::{Landing, Target};
    use lighthaul_copy::relay::Relay;
    use lighthaul_files::options::Options;
    use lighthaul_files::request::{FileReply, FileRequest};
    use lighthaul_gateway::settings::{LinkLimits, Settings as GatewaySettings};
    use lighthaul_io::crypto::identity::Identity;
    use lighthaul_session::error::Code;
    use lighthaul_session::measure::{MeasureMode, MeasureRequest};
    use lighthaul_session::message::Hello;
    use lighthaul_stream::frames::Frames;
    use lighthaul_stream::message::{Messages, StreamKind, StreamRequest};

    use super::*;
    use crate::gateway_links::GatewayLinks;
    use crate::link_message::Greeting;
    use crate::settings::{AccessPolicy, Limits, Stores};

    /// Settings of a daemon for files that refuses nothing.
    fn files() -> Settings {
        let identity = Identity::generate();
        Settings {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            ports: None,
            access: AccessPolicy::Listed {
                keys: "/keys".into(),
                tokens: "/tokens".into(),
            },
            identity,
            root: None,
            plain: true,
            stores: Stores::default(),
            relay: true,
            gateway: None,
            limits: Limits::default(),
        }
    }

    /// Settings of a gateway.
    fn gateway() -> Settings {
        let settings = GatewaySettings {
            allowed: Arc::default(),
            direct: Arc::default(),
            rate: None,
            booked: false,
            memory: Size(1 << 20),
            slab: Size(1 << 16),
            age: Duration::from_millis(1),
            patience: Duration::from_secs(1),
            keepalive: Duration::from_mins(1),
            sessions_max: 1,
            links: LinkLimits {
                all: 1,
                key: 1,
                address: 1,
                memory: Size(1 << 20),
            },
            onward: None,
        };
        Settings {
            gateway: Some(Arc::new(GatewayLinks::new(Arc::new(settings)))),
            ..files()
        }
    }

    fn asked(request: Request) -> SessionRequest {
        let verb = FileRequest::Stat { paths: Vec::new() };
        SessionRequest {
            hello: Hello::about::<FileReply>(&verb),
            request,
        }
    }

    fn options(remove_source: bool) -> Options {
        Options {
            remove_source,
            ..Options::default()
        }
    }

    fn target() -> Target {
        Target {
            path: b"/a".to_vec(),
            landing: Landing::Exact,
        }
    }

    fn receive() -> Request {
        Request::Receive {
            target: target(),
            options: options(false),
        }
    }

    fn expect() -> Request {
        Request::Expect {
            key: [1; 32],
            target: target(),
            options: options(false),
        }
    }

    fn send(remove_source: bool) -> Request {
        Request::Send {
            paths: Vec::new(),
            options: options(remove_source),
        }
    }

    fn relay(remove_source: bool) -> Request {
        let relay = Relay {
            host: "host".to_owned(),
            port: 1,
            key: [1; 32],
            udp: true,
            paths: Vec::new(),
            target: target(),
        };
        Request::Relay {
            relay,
            options: options(remove_source),
        }
    }

    fn stream(to: bool) -> Request {
        let kind = Messages {
            code: String::new(),
            linger_us: 0,
            deadline_us: None,
            drop: false,
        };
        Request::Stream(StreamRequest {
            path: Vec::new(),
            to,
            frames: Frames::Lines,
            kind: StreamKind::Messages(kind),
        })
    }

    fn probe() -> Request {
        Request::Probe(MeasureRequest {
            mode: MeasureMode::Network,
            bytes: 1,
            millis: 1,
            rate_bps: None,
        })
    }

    fn link() -> Request {
        Request::Gateway(Greeting {
            link: [3; 16],
            received: None,
            window: 1,
            datagram_len: 1,
        })
    }

    fn remote_files(changes: bool) -> Request {
        Request::RemoteFiles(lighthaul_remote_files::message::Request {
            joins: false,
            changes,
        })
    }

    fn rights(text: &str) -> Rights {
        Rights::parse(text).unwrap()
    }

    /// Returns the text of the refusal, or nothing.
    fn refusal(request: &SessionRequest, rights: &Rights, settings: &Settings) -> String {
        let checked = check(request, rights, None, settings);
        checked.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn requests_that_change_files_need_the_right_to_write() {
        let remove = FileRequest::Remove {
            paths: Vec::new(),
            recursive: false,
        };
        let stat = FileRequest::Stat { paths: Vec::new() };
        for (request, writes) in [
            (receive(), true),
            (expect(), true),
            (send(true), true),
            (send(false), false),
            (relay(true), true),
            (relay(false), false),
            (stream(true), true),
            (stream(false), false),
            (Request::Files(remove), true),
            (Request::Files(stat), false),
            (remote_files(true), true),
            (remote_files(false), false),
            (probe(), false),
            (Request::Checkup, false),
        ] {
            let request = asked(request);
            assert_eq!(refusal(&request, &rights("a"), &files()), "");
            let refused = refusal(&request, &rights("a ro"), &files());
            assert_eq!(refused.contains("only read"), writes, "{request:?}");
            assert_eq!(refused.is_empty(), !writes, "{refused}");
        }
    }

    #[test]
    fn gateway_and_daemon_for_files_refuse_requests_of_each_other() {
        let may_link = rights("a gateway");
        let link = asked(link());
        assert_eq!(refusal(&link, &may_link, &gateway()), "");
        let denied = refusal(&link, &rights("a"), &gateway());
        assert!(denied.contains("may not use the gateway"), "{denied}");
        let files_only = refusal(&link, &may_link, &files());
        assert!(files_only.contains("daemon for files"), "{files_only}");
        for request in [probe(), Request::Checkup] {
            assert_eq!(refusal(&asked(request), &rights("a"), &gateway()), "");
        }
        for request in [
            receive(),
            expect(),
            send(false),
            relay(false),
            stream(false),
            remote_files(false),
        ] {
            let refused = refusal(&asked(request), &may_link, &gateway());
            assert!(refused.contains("a gateway listens there"), "{refused}");
        }
    }

    #[test]
    fn daemon_refuses_features_that_its_operator_has_disabled() {
        let strict = Settings {
            plain: false,

            relay: false,
            ..files()
        };
        let refused = refusal(&asked(relay(false)), &rights("a"), &strict);
        assert!(refused.contains("--no-relay"), "{refused}");
        assert_eq!(refusal(&asked(send(false)), &rights("a"), &strict), "");
        let plain = |request| {
            let mut request = asked(request);
            request.hello.plain = true;
            request
        };
        let refused = refusal(&plain(send(false)), &rights("a"), &strict);
        assert!(refused.contains("--plain"), "{refused}");
        // the datagrams of a measurement carry no data
        assert_eq!(refusal(&plain(probe()), &rights("a"), &strict), "");
        assert_eq!(refusal(&plain(send(false)), &rights("a"), &files()), "");
    }

    #[test]
    fn invited_client_may_only_make_the_invited_request() {
        let (invited, other) = (asked(receive()), asked(send(false)));
        let may = |request| check(request, &rights("a"), Some(&invited), &files());
        assert_eq!(may(&invited), Ok(()));
        let error = may(&other).unwrap_err();
        assert!(error.to_string().contains("another request"), "{error}");
        assert_eq!(error.code(), Code::Permission);
    }

    #[test]
    fn unknown_protocol_is_refused() {
        let request = asked(Request::Send {
            paths: Vec::new(),
            options: Options {
                protocol: "pigeon".to_owned(),
                ..Options::default()
            },
        });
        let refused = refusal(&request, &rights("a"), &files());
        assert!(refused.contains("pigeon"), "{refused}");
    }
}
