//! Forwarding of requests to the writer.

use std::sync::{Arc, Mutex, MutexGuard};

use lighthaul_booking::error::Result;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking::store::{Batch, EventSize, Position, Store, Writer};
use lighthaul_booking_client::reservation::ReservationState;

use crate::test_server::{Setup, TestServer, bytes, problem};

/// Store that two instances share. The one without the URL of another is the writer.
#[derive(Clone, Debug)]
struct Shared {
    store: Arc<Mutex<Sqlite>>,
    writer: Option<String>,
}

impl Shared {
    fn new() -> Self {
        Self {
            store: Arc::new(Mutex::new(Sqlite::in_memory().unwrap())),
            writer: None,
        }
    }

    /// Returns the same store for another instance.
    fn follower(&self, writer: String) -> Self {
        Self {
            writer: Some(writer),
            ..self.clone()
        }
    }

    fn open(&self) -> MutexGuard<'_, Sqlite> {
        self.store.lock().unwrap()
    }

    fn test_server(self) -> TestServer {
        let store: Option<Box<dyn Store>> = Some(Box::new(self));
        TestServer::of(Setup {
            store,
            ..Setup::default()
        })
    }
}

impl Store for Shared {
    fn elect(&mut self) -> Result<Writer> {
        Ok(self.writer.clone().map_or(Writer::This, Writer::Other))
    }

    fn append(&mut self, after: u64, batch: &Batch) -> Result<()> {
        assert_eq!(self.writer, None);
        self.open().append(after, batch)
    }

    fn position(&mut self) -> Result<Position> {
        self.open().position()
    }

    fn epoch_end(&mut self, epoch: &str) -> Result<Option<u64>> {
        self.open().epoch_end(epoch)
    }

    fn begin_epoch(&mut self, epoch: &str) -> Result<()> {
        self.open().begin_epoch(epoch)
    }

    fn changes(&mut self, after: u64) -> Result<Batch> {
        self.open().changes(after)
    }

    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>> {
        self.open().events(after, most)
    }

    fn event_sizes(&mut self) -> Result<Vec<EventSize>> {
        self.open().event_sizes()
    }
}

#[test]
fn changes_are_forwarded_to_the_writer_and_visible_everywhere() {
    let shared = Shared::new();
    let writer = shared.clone().test_server();
    let reader = shared.follower(writer.url()).test_server();
    let ada = reader.client("ada");
    assert_eq!(ada.health().unwrap().writer, Some(writer.url()));
    let made = ada.reserve(&bytes(1_000_000)).unwrap();
    assert_eq!(writer.client("ada").reservation(made.id).unwrap(), made);
    assert_eq!(ada.reservation(made.id).unwrap(), made);
    assert_eq!(
        ada.commit(made.id, "").unwrap().state,
        ReservationState::Provisioned
    );
    let missing = problem(ada.commit(made.id + 100, ""));
    assert_eq!(missing.status, 404);
    let first = ada
        .follow_reservations(Some(0))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(first.reservation.id, made.id);
}

#[test]
fn unreachable_writer_is_reported() {
    let test_server = Shared::new()
        .follower("http://127.0.0.1:1".to_owned())
        .test_server();
    let away = problem(test_server.client("ada").reserve(&bytes(1)));
    assert_eq!(
        (away.status, away.kind.as_str()),
        (503, "urn:lighthaul:problem:unavailable")
    );
    assert!(away.detail.contains("http://127.0.0.1:1"), "{away:?}");
    assert!(test_server.client("ada").topology().is_ok());
}
