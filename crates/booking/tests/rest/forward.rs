//! An instance that does not keep the books.

use std::sync::{Arc, Mutex, MutexGuard};

use lighthaul_booking::error::Result;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking::store::{Batch, Mark, Store, Writer};
use lighthaul_circuit::reservation::State;

use crate::stage::{Setup, Stage, bytes, problem};

/// A store that two instances share, one of which writes: the other has the writer's URL.
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

    /// The same store, as another instance has it.
    fn follower(&self, writer: String) -> Self {
        Self {
            writer: Some(writer),
            ..self.clone()
        }
    }

    fn open(&self) -> MutexGuard<'_, Sqlite> {
        self.store.lock().unwrap()
    }

    fn stage(self) -> Stage {
        let store: Option<Box<dyn Store>> = Some(Box::new(self));
        Stage::of(Setup {
            store,
            ..Setup::default()
        })
    }
}

impl Store for Shared {
    fn elect(&mut self) -> Result<Writer> {
        Ok(self.writer.clone().map_or(Writer::Here, Writer::At))
    }

    fn append(&mut self, after: u64, batch: &Batch) -> Result<()> {
        assert_eq!(self.writer, None);
        self.open().append(after, batch)
    }

    fn mark(&mut self) -> Result<Mark> {
        self.open().mark()
    }

    fn reach(&mut self, epoch: &str) -> Result<Option<u64>> {
        self.open().reach(epoch)
    }

    fn begin(&mut self, epoch: &str) -> Result<()> {
        self.open().begin(epoch)
    }

    fn changes(&mut self, after: u64) -> Result<Batch> {
        self.open().changes(after)
    }

    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>> {
        self.open().events(after, most)
    }
}

#[test]
fn what_changes_the_books_is_done_by_who_keeps_them_and_read_by_all() {
    let shared = Shared::new();
    let writer = shared.clone().stage();
    let reader = shared.follower(writer.url()).stage();
    let ada = reader.client("ada");
    assert_eq!(ada.health().unwrap().writer, Some(writer.url()));
    let made = ada.reserve(&bytes(1_000_000)).unwrap();
    assert_eq!(writer.client("ada").reservation(made.id).unwrap(), made);
    assert_eq!(ada.reservation(made.id).unwrap(), made);
    assert_eq!(ada.commit(made.id, "").unwrap().state, State::Provisioned);
    let missing = problem(ada.commit(made.id + 100, ""));
    assert_eq!(missing.status, 404);
    let first = ada.events(0).unwrap().next().unwrap().unwrap();
    assert_eq!(first.reservation.id, made.id);
}

#[test]
fn when_nobody_keeps_the_books_that_is_said() {
    let stage = Shared::new()
        .follower("http://127.0.0.1:1".to_owned())
        .stage();
    let away = problem(stage.client("ada").reserve(&bytes(1)));
    assert_eq!(
        (away.status, away.kind.as_str()),
        (503, "urn:lighthaul:problem:unavailable")
    );
    assert!(away.detail.contains("http://127.0.0.1:1"), "{away:?}");
    assert!(stage.client("ada").topology().is_ok());
}
