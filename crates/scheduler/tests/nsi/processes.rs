//! Two schedulers and the program that leases, each in a process of its own:
//!
//! ```text
//! provider (scheduler) <--- SOAP, callbacks ---> lighthaul-lease ---> own scheduler <--- bookings
//! ```

#![expect(clippy::disallowed_methods, reason = "a port for a test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use lighthaul_booking_client::client::{Client, ClientError, Filter};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::{
    Bps, Bytes, NewOutage, NewReservation, Reservation, Timestamp,
};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_nsi::requester::{Requester, RequesterConfig};

use crate::instance::{Folder, Instance};

/// Running program that leases.
struct Lessee {
    child: Child,
    said: Receiver<String>,
}

impl Lessee {
    fn start(folder: &Folder, settings: &str) -> Self {
        let path = folder.0.join("lease.toml");
        fs::write(&path, settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_lighthaul-lease"));
        let mut child = command.arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, said) = channel();
        thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        Self { child, said }
    }

    /// Waits for a line with this text.
    fn says(&self, text: &str) -> String {
        loop {
            let line = self.said.recv_timeout(LONG);
            let line = line.unwrap_or_else(|_| panic!("the program does not say {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM. Returns true if the program ends with success.
    fn stop(&mut self) -> bool {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Lessee {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Provider, own scheduler, and the settings of the program between them.
struct World {
    provider: (Folder, Instance),
    own: (Folder, Instance),
    config: String,
    settings: String,
    /// URL at which the program receives messages.
    reply_to: String,
}

impl World {
    fn start() -> Self {
        // the program must listen where the settings of the provider say
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = listener.local_addr().unwrap();
        drop(listener);
        let config = format!(
            "nsa = 'urn:p'\nnetwork = 'urn:n'\n[[stp]]\nport = 'a'\n[[stp]]\nport = 'c'\n\
             [[requester]]\nnsa = 'urn:r'\nidentity = 'agg'\nreply_to = ['http://{listen}/']\n",
        );
        let begin = |name: &str| {
            let folder = Folder::make(name);
            let instance = Instance::start(&folder, &config);
            (folder, instance)
        };
        let (provider, own) = (begin("provider"), begin("requester"));
        let settings = format!(
            "id = 'urn:uuid:6e3ab1f4-8c8e-4e61-8b5d-2f0c3f0f7a11'\nnsa = 'urn:r'\nprovider = 'urn:p'\n\
             url = '{}/nsi/v2/provider'\ntoken = 'agg'\nlisten = '{listen}'\nreply_to = 'http://{listen}/'\n\
             source = 'urn:n:a'\ndest = 'urn:n:c'\nrate = '1Gb/s'\ntime = '5m'\n\
             scheduler = '{}'\nscheduler_token = 'olga'\nlink = 'b-c'\n",
            provider.1.url(),
            own.1.url(),
        );
        let world = Self {
            provider,
            own,
            config,
            settings,
            reply_to: format!("http://{listen}/"),
        };
        let never = NewOutage {
            link: "b-c".to_owned(),
            from: None,
            till: "2100-01-01T00:00:00Z".parse().unwrap(),
            why: String::new(),
        };
        client(&world.own.1, "olga").outage(&never).unwrap();
        world
    }

    fn lease(&self) -> Lessee {
        Lessee::start(&self.own.0, &self.settings)
    }

    fn restart_provider(&mut self) {
        let (folder, instance) = &mut self.provider;
        instance.kill();
        *instance = Instance::start(folder, &self.config);
    }

    fn restart_own(&mut self) {
        let (folder, instance) = &mut self.own;
        instance.kill();
        *instance = Instance::start(folder, &self.config);
    }

    /// Books a transfer over the leased link.
    fn book(&self, bytes: u64, rate_max: Option<u64>) -> Result<Reservation, ClientError> {
        let transfer = NewReservation {
            path: Some(vec!["b-c".to_owned()]),
            size: Some(Bytes(bytes)),
            rate_max: rate_max.map(Bps),
            commit: true,
            ..NewReservation::default()
        };
        client(&self.own.1, "ada").reserve(&transfer)
    }

    /// Returns true if the scheduler, which runs, offers nothing of the leased link.
    fn has_no_lease(&self) -> bool {
        matches!(self.book(1_000_000, None), Err(ClientError::Problem(_)))
    }

    /// Returns the states of the reservations at the provider.
    fn states(&self) -> Vec<ReservationState> {
        let client = client(&self.provider.1, "olga");
        let all = client.reservations(&Filter::default(), None).unwrap();
        all.items.iter().map(|one| one.state).collect()
    }

    fn wait_for(&self, states: &[ReservationState]) {
        let clock = Clock::start();
        let begun = clock.now();
        while self.states() != states {
            let waited = clock.now().since(begun);
            assert!(waited < LONG, "{:?}, not {states:?}", self.states());
            pause(Duration::from_millis(100));
        }
    }
}

fn client(of: &Instance, token: &str) -> Client {
    let token = Some(token.to_owned());
    Client::new(&of.url(), ServerTrust::certificate(), token).unwrap()
}

#[test]
fn transfers_run_inside_a_lease_that_survives_kills_of_each_process() {
    let mut world = World::start();
    assert!(world.has_no_lease(), "there is no lease yet");
    let mut lessee = world.lease();
    let line = lessee.says("leased 1000 Mb/s from ");
    let (times, id) = line.rsplit_once(" as ").unwrap();
    let (from, till) = times
        .split_once(" from ")
        .and_then(|(_, times)| times.split_once(" till "))
        .unwrap();
    let (from, till): (Timestamp, Timestamp) = (from.parse().unwrap(), till.parse().unwrap());
    lessee.says("offers the lease as link b-c");
    let (first, second) = booked_pair(&world);
    // half the rate until the first one ends, and then all of it
    let rates =
        |of: &Reservation| -> Vec<u64> { of.steps.iter().map(|one| one.rate_bps).collect() };
    assert_eq!(rates(&first), [500_000_000]);
    assert_eq!(rates(&second), [500_000_000, 1_000_000_000]);
    assert!(second.steps[0].from >= from && second.promised_end <= till);
    // the provider restarts, and makes the circuit at its start
    world.restart_provider();
    world.wait_for(&[ReservationState::Active; 2]);
    // the program restarts, and finds the lease at the provider
    lessee.kill();
    let mut lessee = world.lease();
    lessee.says(&format!(
        "continues with 1000 Mb/s from {from} till {till} as {id}"
    ));
    // the scheduler restarts, and keeps what it has booked inside the lease
    world.restart_own();
    let kept = client(&world.own.1, "ada").reservation(second.id).unwrap();
    assert_eq!(
        (kept.steps, kept.promised_end),
        (second.steps, second.promised_end)
    );
    world.book(1_000_000, None).unwrap();
    assert_eq!(world.states(), [ReservationState::Active; 2]);
    assert!(lessee.stop(), "the lease ends with success");
    lessee.says(&format!("ended the lease {id}"));
    world.wait_for(&[ReservationState::Terminated; 2]);
    assert!(world.has_no_lease(), "the lease has ended");
    assert!(unix_nanos() < till.0);
}

/// Books two transfers that share the link for a while.
fn booked_pair(world: &World) -> (Reservation, Reservation) {
    let first = world.book(500_000_000, Some(500_000_000)).unwrap();
    let second = world.book(2_000_000_000, None).unwrap();
    (first, second)
}

#[test]
fn link_closes_when_the_provider_ends_the_lease() {
    let world = World::start();
    let mut lessee = world.lease();
    lessee.says("offers the lease as link b-c");
    world.book(1_000_000, None).unwrap();
    let provider = client(&world.provider.1, "olga");
    let all = provider.reservations(&Filter::default(), None).unwrap();
    provider.cancel(all.items[0].id, "maintenance").unwrap();
    assert!(!lessee.child.wait().unwrap().success());
    assert!(world.has_no_lease(), "the lease has ended");
}

#[test]
fn link_is_open_only_while_the_circuit_carries_packets() {
    let mut world = World::start();
    world.settings.push_str("grace = '1s'\n");
    let mut lessee = world.lease();
    let line = lessee.says("leased 1000 Mb/s from ");
    let (_, id) = line.rsplit_once(" as ").unwrap();
    lessee.says("offers the lease as link b-c");
    world.book(1_000_000, None).unwrap();
    // confirmations go to the program, so this requester queries the provider
    let config = RequesterConfig {
        nsa: "urn:r".to_owned(),
        provider: "urn:p".to_owned(),
        url: format!("{}/nsi/v2/provider", world.provider.1.url()),
        token: Some("agg".to_owned()),
        reply_to: world.reply_to.clone(),
        step_max: Duration::from_secs(2),
    };
    let other = Requester::new(config, ServerTrust::certificate()).unwrap();
    other.release(id).unwrap();
    lessee.says("carries no packets; its link is closed");
    assert!(world.has_no_lease(), "the circuit carries no packets");
    // the program is started again: it continues the lease, and provisions the circuit
    lessee.kill();
    let mut lessee = world.lease();
    lessee.says("offers the lease as link b-c");
    world.book(1_000_000, None).unwrap();
    assert!(lessee.stop(), "the lease ends with success");
    assert!(world.has_no_lease(), "the lease has ended");
}

#[test]
fn restart_closes_the_link_of_a_lease_that_cannot_continue() {
    let mut world = World::start();
    let mut lessee = world.lease();
    lessee.says("offers the lease as link b-c");
    world.book(1_000_000, None).unwrap();
    lessee.kill();
    // no provider has this rate, so there is no lease any more
    world.settings = world.settings.replace("1Gb/s", "1Tb/s");
    let mut lessee = world.lease();
    assert!(!lessee.child.wait().unwrap().success());
    assert!(world.has_no_lease(), "the old lease has ended");
    world.wait_for(&[ReservationState::Terminated; 2]);
}

const LONG: Duration = Duration::from_mins(1);
