//! Our requester leases circuits from our provider.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lighthaul_booking_client::client::{Client, Filter};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::{Bytes, NewOutage, NewReservation, Reservation, Timestamp};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_nsi::machine::{LifecycleState, ProvisionState};
use lighthaul_nsi::message::{
    Criteria, Directionality, ErrorId, P2p, Reserve, Schedule, ServiceException,
};
use lighthaul_nsi::requester::link::{close_link, open_link};
use lighthaul_nsi::requester::{LeaseError, Requester, RequesterConfig, Step};

use crate::instance::{Folder, Instance, WRITER};
use crate::listener::Listener;

/// Provider, and a requester with its listener.
struct Setting {
    folder: Folder,
    config: String,
    instance: Instance,
    listener: Listener,
}

impl Setting {
    fn make(name: &str) -> Self {
        Self::make_with(name, "")
    }

    /// Starts a provider with these further settings.
    fn make_with(name: &str, more: &str) -> Self {
        let listener = Listener::start();
        let folder = Folder::make(name);
        let config = format!(
            "nsa = 'urn:p'\nnetwork = 'urn:n'\n[[stp]]\nport = 'a'\nvlans = '7-19'\n[[stp]]\nport = 'c'\n\
             {more}[[requester]]\nnsa = 'urn:r'\nidentity = 'agg'\nreply_to = ['{}']\n",
            listener.url()
        );
        let instance = Instance::start(&folder, &config);
        Self {
            folder,
            config,
            instance,
            listener,
        }
    }

    fn requester(&self, step_max: Duration) -> Requester {
        let requester = self.requester_at(&self.listener.url(), step_max);
        self.listener.inbox.set(requester.inbox()).ok();
        requester
    }

    /// Returns a requester that gets its confirmations at a URL.
    fn requester_at(&self, reply_to: &str, step_max: Duration) -> Requester {
        let config = RequesterConfig {
            nsa: "urn:r".to_owned(),
            provider: "urn:p".to_owned(),
            url: format!("{}/nsi/v2/provider", self.instance.url()),
            token: Some("agg".to_owned()),
            reply_to: reply_to.to_owned(),
            step_max,
        };
        Requester::new(config, ServerTrust::certificate()).unwrap()
    }

    /// Returns the states of all reservations at the provider.
    fn reservations(&self) -> Vec<ReservationState> {
        self.all().iter().map(|one| one.state).collect()
    }

    /// Returns the paths of all reservations at the provider, the oldest first.
    fn paths(&self) -> Vec<Vec<String>> {
        let mut all = self.all();
        all.sort_by_key(|one| one.id);
        all.into_iter().map(|one| one.path).collect()
    }

    fn all(&self) -> Vec<Reservation> {
        let url = self.instance.url();
        let token = Some("olga".to_owned());
        let client = Client::new(&url, ServerTrust::certificate(), token).unwrap();
        let all = client.reservations(&Filter::default(), None).unwrap();
        all.items
    }
}

/// Returns a request for this rate in the next 100 seconds.
fn wanted(capacity_mbps: u64) -> Reserve {
    let now = unix_nanos();
    Reserve {
        criteria: Criteria {
            schedule: Schedule {
                start: Some(Timestamp(now + 2_000_000_000)),
                end: Some(Timestamp(now + 100_000_000_000)),
            },
            p2p: Some(P2p {
                capacity_mbps,
                directionality: Directionality::Bidirectional,
                symmetric_path: None,
                source: "urn:n:a".to_owned(),
                dest: "urn:n:c".to_owned(),
                ero: Vec::new(),
                unsupported: Vec::new(),
            }),
            ..Criteria::default()
        },
        ..Reserve::default()
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a server for a test")]
fn url_that_never_answers_delays_no_confirmation_to_another_url() {
    let mut setting = Setting::make("silent");
    // the kernel accepts connections, and no process reads them
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = (format!("http://{}/", silent.local_addr().unwrap()), silent);
    setting.instance.kill();
    let both = format!("reply_to = ['{}', ", silent.0);
    let config = setting.config.replace("reply_to = [", &both);
    setting.instance = Instance::start(&setting.folder, &config);
    let mut requester = setting.requester_at(&silent.0, Duration::from_millis(500));
    let lost = requester.lease(wanted(100)).unwrap_err();
    let late = Step::Reserve;
    assert!(
        matches!(&lost, LeaseError::Timeout(step) if *step == late),
        "{lost}"
    );
    let (clock, listener) = (Clock::start(), setting.listener.url());
    requester = setting.requester_at(&listener, LONG);
    setting.listener.inbox.set(requester.inbox()).ok();
    requester.lease(wanted(100)).unwrap();
    let took = clock.now().since(lighthaul_base::Instant::ZERO);
    // a delivery to the other URL lasts ten seconds, and is repeated
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn stores_that_were_restored_from_different_backups_are_made_equal() {
    use ReservationState::{Provisioned, Terminated};
    let mut setting = Setting::make("restored");
    let requester = setting.requester(LONG);
    let later = |mbps| {
        let mut wanted = wanted(mbps);
        wanted.criteria.schedule.start = Some(Timestamp(unix_nanos() + 60_000_000_000));
        wanted
    };
    let first = requester.lease(later(100)).unwrap();
    setting.instance.kill();
    let files = |name: &str| {
        let ends = ["", "-wal", "-shm"];
        ends.map(|end| setting.folder.0.join(format!("{name}{end}")))
    };
    let read = |name: &str| files(name).map(|file| (fs::read(&file).ok(), file));
    let restore = |backup: [(Option<Vec<u8>>, PathBuf); 3]| {
        for (octets, file) in backup {
            match octets {
                Some(octets) => fs::write(file, octets).unwrap(),
                None => _ = fs::remove_file(file),
            }
        }
    };
    let (connections, books) = (read("nsi"), read("books"));
    setting.instance = Instance::start(&setting.folder, &setting.config);
    let second = requester.lease(later(200)).unwrap();
    assert_eq!(setting.reservations(), [Provisioned; 4]);
    setting.instance.kill();
    let newer = read("nsi");
    // the older store does not know the second lease
    restore(connections);
    setting.instance = Instance::start(&setting.folder, &setting.config);
    let clock = Clock::start();
    let is_late = || clock.now().since(lighthaul_base::Instant::ZERO) > LONG;
    while setting.reservations() != [Provisioned, Provisioned, Terminated, Terminated] {
        assert!(!is_late(), "{:?}", setting.reservations());
        pause(Duration::from_millis(50));
    }
    assert!(matches!(
        requester.query(&second.connection_id),
        Err(LeaseError::Gone(_))
    ));
    setting.instance.kill();
    // the older books do not have the second lease
    restore(newer);
    restore(books);
    setting.instance = Instance::start(&setting.folder, &setting.config);
    let lifecycle = |id: &str| requester.query(id).unwrap().states.lifecycle;
    while lifecycle(&second.connection_id) != LifecycleState::Failed {
        assert!(!is_late(), "the second lease does not fail");
        pause(Duration::from_millis(50));
    }
    assert_eq!(lifecycle(&first.connection_id), LifecycleState::Created);
    assert_eq!(setting.reservations(), [Provisioned; 2]);
}

#[test]
fn lease_carries_packets_until_its_end_despite_a_restart() {
    let mut setting = Setting::make("lease");
    let lease = setting.requester(LONG).lease(wanted(400)).unwrap();
    assert_eq!(
        (lease.capacity_mbps, lease.source.as_str()),
        (400, "urn:n:a?vlan=7")
    );
    setting.instance.kill();
    setting.instance = Instance::start(&setting.folder, &setting.config);
    let inbox = setting.listener.inbox.get().map(std::sync::Arc::clone);
    let requester = setting.requester(LONG);
    assert!(inbox.is_some());
    let clock = Clock::start();
    let begun = clock.now();
    while !requester
        .query(&lease.connection_id)
        .unwrap()
        .states
        .data_plane
        .active
    {
        assert!(
            clock.now().since(begun) < LONG,
            "the circuit carries no packets"
        );
        pause(Duration::from_millis(50));
    }
    let states = requester.query(&lease.connection_id).unwrap().states;
    assert_eq!(states.provision, ProvisionState::Provisioned);
    assert_eq!(setting.reservations(), [ReservationState::Active; 2]);
    // the confirmation goes to the inbox of the first requester, so the second one asks
    let requester = setting.requester(Duration::from_secs(2));
    requester.terminate(&lease.connection_id).unwrap();
    let states = requester.query(&lease.connection_id).unwrap().states;
    assert_eq!(states.lifecycle, LifecycleState::Terminated);
    assert_eq!(setting.reservations(), [ReservationState::Terminated; 2]);
}

#[test]
fn scheduler_books_transfers_inside_a_lease_and_nowhere_else() {
    let setting = Setting::make("inside");
    let folder = Folder::make("own");
    let own = Instance::start(&folder, &setting.config);
    let client = |token: &str| {
        let token = Some(token.to_owned());
        Client::new(&own.url(), ServerTrust::certificate(), token).unwrap()
    };
    let (operator, user) = (client("olga"), client("ada"));
    let never = NewOutage {
        link: "b-c".to_owned(),
        from: None,
        till: "2100-01-01T00:00:00Z".parse().unwrap(),
        why: String::new(),
    };
    operator.outage(&never).unwrap();
    let transfer = |bytes: u64| NewReservation {
        path: Some(vec!["b-c".to_owned()]),
        size: Some(Bytes(bytes)),
        ..NewReservation::default()
    };
    assert!(user.reserve(&transfer(1_000_000_000)).is_err());
    let requester = setting.requester(LONG);
    let lease = requester.lease(wanted(1000)).unwrap();
    open_link(&operator, "b-c", &lease).unwrap();
    let booked = user.reserve(&transfer(1_000_000_000)).unwrap();
    let (first, last) = (booked.steps[0], booked.steps[booked.steps.len() - 1]);
    assert!(
        first.from >= lease.start && last.till <= lease.end,
        "{booked:?}"
    );
    // the lease carries 12 GB
    assert!(user.reserve(&transfer(12_500_000_000)).is_err());
    requester.terminate(&lease.connection_id).unwrap();
    close_link(&operator, Timestamp(unix_nanos()), "b-c", &lease).unwrap();
    assert!(user.reserve(&transfer(1_000_000)).is_err());
}

#[test]
fn explicit_route_is_followed_in_both_directions() {
    let setting = Setting::make_with("route", "[[stp]]\nport = 'e'\n[[stp]]\nport = 'd'\n");
    let requester = setting.requester(LONG);
    let over = |ero: &[&str]| {
        let mut wanted = wanted(1);
        let points = ero.iter().map(|port| format!("urn:n:{port}"));
        wanted.criteria.p2p.as_mut().unwrap().ero = points.collect();
        requester.lease(wanted)
    };
    // the cheapest path crosses b
    over(&[]).unwrap();
    over(&["e"]).unwrap();
    over(&["a", "e", "c"]).unwrap();
    let paths = setting.paths();
    let path = |from: usize| [&paths[from], &paths[from + 1]].map(|one| one.join(" "));
    assert_eq!(path(0), ["a-b b-c", "c-b b-a"]);
    assert_eq!(path(2), ["a-e e-c", "c-e e-a"]);
    assert_eq!(path(4), path(2));
    // nothing leads to d
    let why = over(&["d"]).unwrap_err().to_string();
    assert!(
        why.contains("no links lead along the explicit route"),
        "{why}"
    );
    let why = over(&["e?vlan=7"]).unwrap_err().to_string();
    assert!(why.contains("leave it out there"), "{why}");
    let why = over(&["x"]).unwrap_err().to_string();
    assert!(why.contains("urn:n:x is unknown"), "{why}");
}

#[test]
fn refused_lease_names_the_reason_and_leaves_no_connection() {
    let setting = Setting::make("refused");
    let requester = setting.requester(LONG);
    let why = requester.lease(wanted(2000)).unwrap_err();
    let LeaseError::Refused { step, why } = why else {
        panic!("{why}");
    };
    let ServiceException { id, nsa_id, .. } = *why;
    assert_eq!(
        (step, id, nsa_id.as_str()),
        (Step::Reserve, ErrorId::CapacityUnavailable, "urn:p")
    );
    assert_eq!(setting.reservations(), []);
    let mut unknown = wanted(1);
    unknown.criteria.p2p.as_mut().unwrap().dest = "urn:n:x".to_owned();
    let why = requester.lease(unknown).unwrap_err().to_string();
    assert!(
        why.contains("00701") && why.contains("urn:n:x is unknown"),
        "{why}"
    );
}

#[test]
fn lost_confirmations_end_the_lease_or_are_replaced_by_a_query() {
    let setting = Setting::make("lost");
    let requester = setting.requester(Duration::from_secs(1));
    setting.listener.is_deaf.store(true, Ordering::Relaxed);
    let why = requester.lease(wanted(1)).unwrap_err();
    assert_eq!(why, LeaseError::Timeout(Step::Reserve));
    assert_eq!(setting.reservations(), [ReservationState::Terminated; 2]);
    setting.listener.is_deaf.store(false, Ordering::Relaxed);
    let lease = requester.lease(wanted(1)).unwrap();
    setting.listener.is_deaf.store(true, Ordering::Relaxed);
    requester.terminate(&lease.connection_id).unwrap();
}

#[test]
fn scheduler_that_is_not_the_writer_acknowledges_no_message() {
    let mut setting = Setting::make("follower");
    setting.instance.kill();
    let writer = "http://127.0.0.1:1";
    fs::write(setting.folder.0.join(WRITER), writer).unwrap();
    setting.instance = Instance::start(&setting.folder, &setting.config);
    let why = setting.requester(LONG).lease(wanted(1)).unwrap_err();
    assert!(matches!(why, LeaseError::Protocol { .. }), "{why}");
    assert!(why.to_string().contains("503"), "{why}");
}

#[test]
fn forged_confirmation_is_ignored() {
    let setting = Setting::make("forged");
    let requester = setting.requester(LONG);
    let forged = "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Header>\
        <h:nsiHeader xmlns:h='http://schemas.ogf.org/nsi/2013/12/framework/headers'><protocolVersion/>\
        <correlationId>urn:uuid:1</correlationId><requesterNSA>urn:r</requesterNSA>\
        <providerNSA>urn:p</providerNSA></h:nsiHeader></e:Header><e:Body><t:terminateConfirmed \
        xmlns:t='http://schemas.ogf.org/nsi/2013/12/connection/types'><connectionId>1</connectionId>\
        </t:terminateConfirmed></e:Body></e:Envelope>";
    let inbox = requester.inbox();
    let reply = inbox.accept(forged.as_bytes());
    assert!(!reply.is_fault && reply.document.contains("acknowledgment"));
    assert!(inbox.accept(b"<x/>").is_fault);
    let why = requester.terminate("1").unwrap_err().to_string();
    assert!(why.contains("00203"), "{why}");
}

const LONG: Duration = Duration::from_secs(20);
