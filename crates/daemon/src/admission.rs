//! From a connection to somebody with a name and rights, or to somebody who was turned away.

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

use crate::invitation::Invitation;
use crate::rights::Rights;
use crate::service::Service;
use crate::standing::NotAllowed;

/// Somebody who was let in.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) session: Session,
    /// What it may do, as far as that was known when it came.
    pub(crate) rights: Rights,
    /// Whose share of the daemon it uses.
    pub(crate) identity: Fingerprint,
    pub(crate) ticket: Ticket,
}

/// What somebody was let in for.
#[derive(Debug)]
pub(crate) enum Ticket {
    /// Its key, or what it showed besides.
    Own(Option<Credential>),
    /// The word of somebody else.
    Invited(Box<Invitation>),
    /// The session that it belongs to.
    Join(Join),
}

/// Why somebody was not let in.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    /// No key was shown: a scanner, a line that broke, somebody who never spoke.
    Handshake(Error),
    /// This key was shown, of which nothing is known.
    Unknown(Fingerprint),
    /// This key was shown, and may not call.
    Refused(Fingerprint, Error),
}

/// Shakes hands, and turns away whoever is not welcome.
pub(crate) fn admit(tcp: TcpStream, service: &Service) -> Result<Guest, NotAdmitted> {
    let settings = &service.settings;
    let tcp = tcp::with_handshake_timeouts(tcp).map_err(|e| NotAdmitted::Handshake(e.into()))?;
    let mut session = Session::meet(tcp, &settings.identity).map_err(NotAdmitted::Handshake)?;
    match ticket(&session, service) {
        Ok((rights, identity, ticket)) => {
            session.control.authorize();
            if let Ticket::Invited(invitation) = &ticket {
                session.halt = Arc::clone(&invitation.halt);
            }
            Ok(Guest {
                session,
                rights,
                identity,
                ticket,
            })
        }
        Err(why) => {
            let key = session.peer;
            let is_unknown = why == NotAllowed::Unknown;
            let error = why.tell(key, service.allow_options());
            session.give_up_within(&error, FAREWELL);
            Err(if is_unknown {
                NotAdmitted::Unknown(key)
            } else {
                NotAdmitted::Refused(key, error)
            })
        }
    }
}

/// What lets the caller in, what it may do and whose share it uses: its key if that is listed, or what it shows first.
fn ticket(
    session: &Session,
    service: &Service,
) -> Result<(Rights, Fingerprint, Ticket), NotAllowed> {
    let (key, judge) = (session.peer, &service.judge);
    let unknown = match judge.rights(key, None) {
        Ok((rights, identity)) => {
            return Ok((service.beneath(rights), identity, Ticket::Own(None)));
        }
        Err(why) => why,
    };
    match session.hear_for(PATIENCE) {
        Ok(Message::Credential(credential)) => {
            let (rights, identity) = judge.rights(key, Some(&credential))?;
            let ticket = Ticket::Own(Some(credential));
            Ok((service.beneath(rights), identity, ticket))
        }
        // who does not say so cannot be made a guest by somebody who knows its key
        Ok(Message::Guest) => {
            let invitation = service.invitations.take(key).ok_or(unknown)?;
            let (rights, identity) = (invitation.rights.clone(), invitation.identity);
            Ok((rights, identity, Ticket::Invited(Box::new(invitation))))
        }
        // its key may have been let in for once
        Ok(Message::Join(join)) => match service.joins.check(key, &join) {
            Ok(identity) => Ok((Rights::default(), identity, Ticket::Join(join))),
            Err(_) => Err(unknown),
        },
        _ => Err(unknown),
    }
}

/// How long a caller whose key is not listed may take to show something else.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a caller that is sent away may take to hear why.
pub(crate) const FAREWELL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::path::PathBuf;
    use std::{env, fs, thread};

    use lighthaul_io::crypto::identity::Identity;
    use lighthaul_io::crypto::tls::{self, Side};
    use lighthaul_session::error::Code;
    use lighthaul_session::measure::{self, MeasureMode, MeasureRequest};
    use lighthaul_session::message::Hello;

    use super::*;
    use crate::asked::Asked;
    use crate::serve::Server;
    use crate::settings::{Limits, Settings, Welcome};

    /// A daemon, and the folder of its lists, which is removed with it.
    struct Daemon {
        server: Server,
        folder: PathBuf,
    }

    impl Drop for Daemon {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.folder).ok();
        }
    }

    /// A daemon whose lists have these lines.
    fn daemon(name: &str, keys: &str, tokens: &str) -> Daemon {
        let folder = format!("lighthaul-admission-{name}-{}", std::process::id());
        let folder = env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let welcome = Welcome::Listed {
            keys: folder.join("keys"),
            tokens: folder.join("tokens"),
        };
        fs::write(folder.join("keys"), keys).unwrap();
        fs::write(folder.join("tokens"), tokens).unwrap();
        let settings = Settings {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            identity: Identity::generate(),
            welcome,
            root: Some("/srv".into()),
            plain: false,
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

    /// Calls a daemon and says `first`; returns the caller's side and the daemon's verdict.
    fn call(
        daemon: &Daemon,
        identity: &Identity,
        first: &Message,
    ) -> (Session, Result<Guest, NotAdmitted>) {
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
        Message::Welcome {
            protocols: Vec::new(),
        }
    }

    #[test]
    fn unknown_key_is_told_apart_from_one_whose_rights_have_expired() {
        let (unknown, expired) = (Identity::generate(), Identity::generate());
        let line = format!("{} old expires=1\n", key_of(&expired));
        let daemon = daemon("unknown", &line, "");
        let (session, admitted) = call(&daemon, &unknown, &anything());
        assert!(matches!(admitted, Err(NotAdmitted::Unknown(key)) if key == key_of(&unknown)));
        let told = session.hear::<Message>().unwrap_err();
        assert_eq!(told.code, Code::Permission);
        assert!(told.text.contains("lighthaul allow"), "{told}");
        let (session, admitted) = call(&daemon, &expired, &anything());
        assert!(matches!(admitted, Err(NotAdmitted::Refused(key, _)) if key == key_of(&expired)));
        let told = session.hear::<Message>().unwrap_err();
        assert!(told.text.contains("expired"), "{told}");
    }

    #[test]
    fn listed_key_or_token_lets_in_with_its_rights_beneath_the_root() {
        let (listed, other) = (Identity::generate(), Identity::generate());
        let line = format!("{} lab root=data ro\n", key_of(&listed));
        let token = Fingerprint::of_token("secret");
        let daemon = daemon("listed", &line, &format!("{token} bob special\n"));
        let (_session, admitted) = call(&daemon, &listed, &anything());
        let guest = admitted.unwrap();
        assert_eq!(guest.rights.to_string(), "lab root=/srv/data ro");
        assert_eq!(guest.identity, key_of(&listed));
        assert!(matches!(guest.ticket, Ticket::Own(None)));
        let credential = Credential::Token("secret".to_owned());
        let (_session, admitted) = call(&daemon, &other, &Message::Credential(credential.clone()));
        let guest = admitted.unwrap();
        assert_eq!(guest.rights.to_string(), "bob root=/srv special");
        assert_eq!(guest.identity, token);
        assert!(matches!(guest.ticket, Ticket::Own(Some(shown)) if shown == credential));
        let wrong = Message::Credential(Credential::Token("guess".to_owned()));
        let (_session, admitted) = call(&daemon, &other, &wrong);
        assert!(matches!(admitted, Err(NotAdmitted::Refused(..))));
    }

    #[test]
    fn invited_key_is_let_in_once_and_only_if_it_says_so() {
        let (host, invited) = (Identity::generate(), Identity::generate());
        let daemon = daemon("invited", &format!("{} host special\n", key_of(&host)), "");
        let (session, admitted) = call(&daemon, &host, &anything());
        let host = admitted.unwrap();
        host.session.hear::<Message>().unwrap();
        let (open, key) = (&daemon.server.service().invitations, key_of(&invited));
        thread::scope(|scope| {
            let hosted = scope
                .spawn(|| open.host(&host.session, key, asked(), (&host.rights, host.identity)));
            // the invitation is there once the host hears this
            assert!(matches!(session.hear(), Ok(Message::Welcome { .. })));
            let come = || call(&daemon, &invited, &Message::Guest);
            let (_, silent) = call(&daemon, &invited, &anything());
            assert!(matches!(silent, Err(NotAdmitted::Unknown(_))));
            let (_caller, first) = come();
            let first = first.unwrap();
            assert!(matches!(first.ticket, Ticket::Invited(_)));
            assert_eq!(
                (first.rights.name.as_str(), first.identity),
                ("host", host.identity)
            );
            assert!(matches!(come().1, Err(NotAdmitted::Unknown(_))));
            // the guest's session ends with that of its host
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
    fn key_of_a_session_joins_it_with_its_secret_alone() {
        let (listed, passer) = (Identity::generate(), Identity::generate());
        let token = Fingerprint::of_token("secret");
        let daemon = daemon("join", "", &format!("{token} bob\n"));
        let credential = Message::Credential(Credential::Token("secret".to_owned()));
        let (session, admitted) = call(&daemon, &listed, &credential);
        let guest = admitted.unwrap();
        let (_open, _joins) = daemon
            .server
            .service()
            .joins
            .open(&guest.session, guest.identity);
        let join = session.secrets.join(3);
        let (_further, admitted) = call(&daemon, &listed, &Message::Join(join));
        let joined = admitted.unwrap();
        assert!(matches!(joined.ticket, Ticket::Join(shown) if shown == join));
        assert_eq!((joined.rights, joined.identity), (Rights::default(), token));
        let (_further, admitted) = call(&daemon, &passer, &Message::Join(join));
        assert!(matches!(admitted, Err(NotAdmitted::Unknown(_))));
        let mut wrong = join;
        wrong.secret[31] ^= 1;
        let (_further, admitted) = call(&daemon, &listed, &Message::Join(wrong));
        assert!(matches!(admitted, Err(NotAdmitted::Unknown(_))));
    }

    /// The request of an invited caller.
    fn asked() -> Asked {
        let ask = MeasureRequest {
            mode: MeasureMode::Network,
            bytes: 1,
            millis: 1,
            rate_bps: None,
        };
        Asked::of(Hello::about::<measure::Message>(&ask)).unwrap()
    }
}
