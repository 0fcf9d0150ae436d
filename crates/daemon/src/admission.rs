//! Admission of clients: TLS handshake, credentials, and the resulting rights or refusal.
//!
//! `admit` returns an `AdmittedClient`, or `NotAdmitted` for the log. A refused client that has
//! shown a key learns the reason. A client with a listed key is admitted at once. Other clients
//! have 5 s for one message:
//!
//! ```text
//! handshake -> listed key ----------------------------------> Own(None)
//!           -> Credential (token or statement that holds) --> Own(Some)
//!           -> Guest (a client has invited this key) -------> Invited, once
//!           -> Join (key and secret of a session) ----------> Join, without rights of its own
//! ```

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::net::tcp;
use lighthaul_session::credential::Credential;
use lighthaul_session::error::Error;
use lighthaul_session::message::Message;
use lighthaul_session::secrets::Join;
use lighthaul_session::session::Session;

use crate::authorizer::NotAllowed;
use crate::client_identity::ClientIdentity;
use crate::invitation::Invitation;
use crate::rights::Rights;
use crate::service::Service;
use crate::session_request::SessionRequest;

/// Client that was admitted.
#[derive(Debug)]
pub(crate) struct AdmittedClient {
    pub(crate) session: Session,
    /// Rights at the time of the admission.
    pub(crate) rights: Rights,
    /// Identity whose resource share the client uses.
    pub(crate) identity: ClientIdentity,
    pub(crate) admitted_by: AdmittedBy,
}

/// Reason for the admission of a client.
#[derive(Debug)]
pub(crate) enum AdmittedBy {
    /// Client whose key is listed, or that presented the given credential.
    Own(Option<Credential>),
    /// Client whose key an admitted client has invited.
    Invited(Box<Invitation>),
    /// The connection belongs to an existing session.
    Join(Join),
}

impl AdmittedBy {
    /// Returns the request that the client was invited for.
    pub(crate) fn invited(&self) -> Option<&SessionRequest> {
        match self {
            Self::Invited(invitation) => Some(&invitation.request),
            Self::Own(_) | Self::Join(_) => None,
        }
    }
}

/// Reason for the refusal of a client.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    /// The client showed no key: a port scanner, a broken connection or a silent client.
    Handshake(Error),
    /// The client's key is not listed.
    Unknown(Fingerprint),
    /// The client's key is refused with the given error.
    Refused(Fingerprint, Error),
}

/// Performs the handshake, and refuses clients that are not allowed.
pub(crate) fn admit(tcp: TcpStream, service: &Service) -> Result<AdmittedClient, NotAdmitted> {
    let settings = &service.settings;
    let tcp = tcp::with_handshake_timeouts(tcp).map_err(|e| NotAdmitted::Handshake(e.into()))?;
    let mut session = Session::meet(tcp, &settings.identity).map_err(NotAdmitted::Handshake)?;
    match admitted_by(&session, service) {
        Ok((rights, identity, admitted_by)) => {
            session.control.authorize();
            if let AdmittedBy::Invited(invitation) = &admitted_by {
                session.halt = Arc::clone(&invitation.halt);
            }
            Ok(AdmittedClient {
                session,
                rights,
                identity,
                admitted_by,
            })
        }
        Err(why) => {
            let key = session.peer;
            let is_unknown = why == NotAllowed::Unknown;
            let error = why.to_error(key, service.allow_options());
            session.give_up_within(&error, CLOSE_TIMEOUT);
            Err(if is_unknown {
                NotAdmitted::Unknown(key)
            } else {
                NotAdmitted::Refused(key, error)
            })
        }
    }
}

/// Returns the client's rights, its identity and the reason for its admission: a listed key, or its first message.
fn admitted_by(
    session: &Session,
    service: &Service,
) -> Result<(Rights, ClientIdentity, AdmittedBy), NotAllowed> {
    let (key, authorizer) = (session.peer, &service.authorizer);
    let unknown = match authorizer.rights(key, None) {
        Ok((rights, identity)) => {
            return Ok((service.beneath(rights), identity, AdmittedBy::Own(None)));
        }
        Err(why) => why,
    };
    match session.hear_for(CREDENTIAL_TIMEOUT) {
        Ok(Message::Credential(credential)) => {
            let (rights, identity) = authorizer.rights(key, Some(&credential))?;
            let admitted_by = AdmittedBy::Own(Some(credential));
            Ok((service.beneath(rights), identity, admitted_by))
        }
        // without this message, an invitation would also admit clients that know nothing of it
        Ok(Message::Guest) => {
            let invitation = service.invitations.take(key).ok_or(unknown)?;
            let (rights, identity) = (invitation.rights.clone(), invitation.identity);
            Ok((rights, identity, AdmittedBy::Invited(Box::new(invitation))))
        }
        // the session may have been admitted by an invitation, which is used up
        Ok(Message::Join(join)) => match service.joins.check(key, &join) {
            Ok(identity) => Ok((Rights::default(), identity, AdmittedBy::Join(join))),
            Err(_) => Err(unknown),
        },
        _ => Err(unknown),
    }
}

/// Time until a client whose key is not listed must have sent another proof.
const CREDENTIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the delivery of the reason to a refused client.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, TcpListener};
    use std::path::PathBuf;
    use std::{env, fs, thread};

    use lighthaul_io::crypto::identity::Identity;
    use lighthaul_io::crypto::tls::{self, Side};
    use lighthaul_session::error::Code;
    use lighthaul_session::measure::{self, MeasureMode, MeasureRequest};
    use lighthaul_session::message::Hello;

    use super::*;
    use crate::serve::Server;
    use crate::session_request::SessionRequest;
    use crate::settings::{AccessPolicy, Limits, Settings};

    /// A daemon and the directory of its lists, which is removed with it.
    struct Daemon {
        server: Server,
        folder: PathBuf,
    }

    impl Drop for Daemon {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.folder).ok();
        }
    }

    /// Returns a daemon whose lists have these lines.
    fn daemon(name: &str, keys: &str, tokens: &str) -> Daemon {
        let folder = format!("lighthaul-admission-{name}-{}", std::process::id());
        let folder = env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let access = AccessPolicy::Listed {
            keys: folder.join("keys"),
            tokens: folder.join("tokens"),
        };
        fs::write(folder.join("keys"), keys).unwrap();
        fs::write(folder.join("tokens"), tokens).unwrap();
        let settings = Settings {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            identity: Identity::generate(),
            access,
            root: Some("/srv".into()),
            plain: false,
            ports: None,
            stores: BTreeMap::new(),
            relay: true,
            gateway: None,
            limits: Limits::default(),
        };
        let server = Server::listen(settings).unwrap();
        Daemon { server, folder }
    }

    fn key_of(identity: &Identity) -> Fingerprint {
        tls::fingerprint(identity).unwrap()
    }

    /// Connects to a daemon and sends `first`. Returns the client's session and the admission.
    fn call(
        daemon: &Daemon,
        identity: &Identity,
        first: &Message,
    ) -> (Session, Result<AdmittedClient, NotAdmitted>) {
        let listener = tcp::listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let accept =
            |listener: TcpListener| admit(listener.accept().unwrap().0, daemon.server.service());
        thread::scope(|scope| {
            let admitted = scope.spawn(move || accept(listener));
            let tcp = tcp::connect("127.0.0.1", port).unwrap();
            let session = Session::start(tcp, Side::Client, identity).unwrap();
            session.say(first).unwrap();
            (session, admitted.join().unwrap())
        })
    }

    fn anything() -> Message {
        Message::Welcome
    }

    #[test]
    fn unknown_key_and_expired_rights_are_refused_with_different_errors() {
        let (unknown, expired) = (Identity::generate(), Identity::generate());
        let line = format!("{} old expires=1\n", key_of(&expired));
        let daemon = daemon("unknown", &line, "");
        let (session, admitted) = call(&daemon, &unknown, &anything());
        assert!(matches!(admitted, Err(NotAdmitted::Unknown(key)) if key == key_of(&unknown)));
        let error = session.hear::<Message>().unwrap_err();
        assert_eq!(error.code(), Code::Permission);
        assert!(error.text().contains("lighthaul allow"), "{error}");
        let (session, admitted) = call(&daemon, &expired, &anything());
        assert!(matches!(admitted, Err(NotAdmitted::Refused(key, _)) if key == key_of(&expired)));
        let error = session.hear::<Message>().unwrap_err();
        assert!(error.text().contains("expired"), "{error}");
    }

    #[test]
    fn listed_key_or_token_is_admitted_with_its_rights_beneath_the_root() {
        let (listed, other) = (Identity::generate(), Identity::generate());
        let line = format!("{} lab root=data ro\n", key_of(&listed));
        let token = Fingerprint::of_token("secret");
        let daemon = daemon("listed", &line, &format!("{token} bob special\n"));
        let (_session, admitted) = call(&daemon, &listed, &anything());
        let client = admitted.unwrap();
        assert_eq!(client.rights.to_string(), "lab root=/srv/data ro");
        assert_eq!(client.identity, ClientIdentity::listed(key_of(&listed)));
        assert!(matches!(client.admitted_by, AdmittedBy::Own(None)));
        assert_eq!(client.admitted_by.invited(), None);
        let credential = Credential::Token("secret".to_owned());
        let (_session, admitted) = call(&daemon, &other, &Message::Credential(credential.clone()));
        let client = admitted.unwrap();
        assert_eq!(client.rights.to_string(), "bob root=/srv special");
        assert_eq!(client.identity, ClientIdentity::listed(token));
        assert!(matches!(client.admitted_by, AdmittedBy::Own(Some(shown)) if shown == credential));
        let wrong = Message::Credential(Credential::Token("guess".to_owned()));
        let (_session, admitted) = call(&daemon, &other, &wrong);
        assert!(matches!(admitted, Err(NotAdmitted::Refused(..))));
    }

    #[test]
    fn invited_key_is_admitted_once_and_only_with_a_guest_message() {
        let (host, invited) = (Identity::generate(), Identity::generate());
        let daemon = daemon("invited", &format!("{} host special\n", key_of(&host)), "");
        let (session, admitted) = call(&daemon, &host, &anything());
        let host = admitted.unwrap();
        host.session.hear::<Message>().unwrap();
        let (open, key) = (&daemon.server.service().invitations, key_of(&invited));
        thread::scope(|scope| {
            let hosted = scope.spawn(|| {
                open.invite(&host.session, key, request(), (&host.rights, host.identity))
            });
            // the invitation is open once the inviting client receives this
            assert!(matches!(session.hear(), Ok(Message::Welcome)));
            let come = || call(&daemon, &invited, &Message::Guest);
            let (_, silent) = call(&daemon, &invited, &anything());
            assert!(matches!(silent, Err(NotAdmitted::Unknown(_))));
            let (_caller, first) = come();
            let first = first.unwrap();
            assert!(matches!(first.admitted_by, AdmittedBy::Invited(_)));
            // it may make this request, and no other
            assert_eq!(first.admitted_by.invited(), Some(&request()));
            assert_eq!(
                (first.rights.name.as_str(), first.identity),
                ("host", host.identity)
            );
            assert!(matches!(come().1, Err(NotAdmitted::Unknown(_))));
            // the invited session ends with that of the inviting client
            drop(session);
            assert!(
                first
                    .session
                    .hear_for::<Message>(Duration::from_secs(20))
                    .is_err()
            );
            assert!(first.session.halt.check().is_err());
            drop(first);
            assert!(hosted.join().unwrap().is_err());
        });
    }

    #[test]
    fn connection_joins_a_session_only_with_its_key_and_secret() {
        let (listed, passer) = (Identity::generate(), Identity::generate());
        let token = Fingerprint::of_token("secret");
        let daemon = daemon("join", "", &format!("{token} bob\n"));
        let credential = Message::Credential(Credential::Token("secret".to_owned()));
        let (session, admitted) = call(&daemon, &listed, &credential);
        let client = admitted.unwrap();
        let (_open, _joins) = daemon
            .server
            .service()
            .joins
            .open(&client.session, client.identity);
        let join = session.secrets.join(3);
        let (_further, admitted) = call(&daemon, &listed, &Message::Join(join));
        let joined = admitted.unwrap();
        assert!(matches!(joined.admitted_by, AdmittedBy::Join(shown) if shown == join));
        assert_eq!(
            (joined.rights, joined.identity),
            (Rights::default(), ClientIdentity::listed(token))
        );
        let (_further, admitted) = call(&daemon, &passer, &Message::Join(join));
        assert!(matches!(admitted, Err(NotAdmitted::Unknown(_))));
        let mut wrong = join;
        wrong.secret[31] ^= 1;
        let (_further, admitted) = call(&daemon, &listed, &Message::Join(wrong));
        assert!(matches!(admitted, Err(NotAdmitted::Unknown(_))));
    }

    /// Returns the request of the invited client.
    fn request() -> SessionRequest {
        let ask = MeasureRequest {
            mode: MeasureMode::Network,
            bytes: 1,
            millis: 1,
            rate_bps: None,
        };
        SessionRequest::of(Hello::about::<measure::Message>(&ask)).unwrap()
    }
}
