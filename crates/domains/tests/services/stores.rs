//! Store files that are damaged, foreign, or in use.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use lighthaul_base::trc::Trc;
use lighthaul_domains::RecordStore;
use lighthaul_domains::store::StoreError;
use lighthaul_stargate::{
    CorrelationId, DomainId, Key, PortId, Record, Segment, StoredReservation, StoredStage,
};
use rusqlite::Connection;

use super::site::{Folder, records};

const ME: DomainId = DomainId(4);

fn put(id: u128, stage: StoredStage) -> Record {
    let vector: Trc = "10s-20s 5Mb/s, 30s-40s 7Mb/s".parse().unwrap();
    Record::Put(StoredReservation {
        key: key(id),
        upstream: Some(DomainId(3)),
        segments: vec![Segment {
            ingress: PortId(1),
            egress: PortId(2),
        }],
        children: Vec::new(),
        trace: vec![DomainId(3), ME],
        hold_till: vector.start(),
        decide_till: vector.start() + Duration::from_secs(1),
        vector,
        guard: Duration::from_millis(7),
        stage,
        lost: None,
    })
}

fn key(id: u128) -> Key {
    Key {
        source: DomainId(3),
        id: CorrelationId(id),
        attempt: 2,
        leg: 1,
    }
}

#[test]
fn latest_records_are_read_back_and_forgotten_records_are_not() {
    let folder = Folder::new("records");
    let path = folder.0.join("below/4.db");
    let (mut store, found) = RecordStore::open(&path, ME).unwrap();
    assert_eq!((found, store.epoch()), (Vec::new(), 1));
    let first = [put(1, StoredStage::Holding), put(2, StoredStage::Holding)];
    let routes = [(key(1), vec![0, 3]), (key(2), vec![1])].into();
    store.append(&first, &routes).unwrap();
    assert_eq!(store.routes(&first).unwrap(), routes);
    let second = [
        put(1, StoredStage::Committed),
        Record::Forget(key(2)),
        put(3, StoredStage::Closing),
        Record::Forget(key(9)),
    ];
    store.append(&second, &BTreeMap::new()).unwrap();
    drop(store);
    let (mut store, found) = RecordStore::open(&path, ME).unwrap();
    assert_eq!(store.epoch(), 2);
    let expected = [put(1, StoredStage::Committed), put(3, StoredStage::Closing)];
    assert_eq!(found, expected);
    let routes = store.routes(&first).unwrap();
    assert_eq!(routes, [(key(1), vec![0, 3])].into());
}

#[test]
fn faulty_files_are_refused_with_the_remedy_and_stay_unchanged() {
    let folder = Folder::new("faulty");
    let path = folder.store(4);
    let filled = |change: &str| {
        for end in ["", "-wal", "-shm"] {
            fs::remove_file(folder.0.join(format!("4.db{end}"))).ok();
        }
        let (mut store, _) = RecordStore::open(&path, ME).unwrap();
        store
            .append(&[put(1, StoredStage::Committed)], &BTreeMap::new())
            .unwrap();
        drop(store);
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(change).unwrap();
    };
    let refused = |says: &str| {
        let before = fs::read(&path).unwrap();
        let why = RecordStore::open(&path, ME).unwrap_err().to_string();
        assert!(why.contains(says), "{says}: {why}");
        assert_eq!(fs::read(&path).unwrap(), before, "{says}");
    };
    fs::write(&path, "no database at all, but text of more than a hundred octets, so that it has the length of a header of one").unwrap();
    refused("is damaged");
    for (change, says) in [
        ("PRAGMA user_version = 9", "format is 9"),
        ("PRAGMA application_id = 9", "another program"),
        ("UPDATE records SET sum = sum + 1", "checksum"),
        ("UPDATE records SET record = x'0102'", "checksum"),
        ("UPDATE records SET key = x'00'", "checksum"),
        ("UPDATE domain SET number = 5", "belongs to domain 5"),
    ] {
        filled(change);
        let why = RecordStore::open(&path, ME).unwrap_err().to_string();
        assert!(why.contains(says), "{says}: {why}");
    }
    filled("");
    let mut octets = fs::read(&path).unwrap();
    for octet in octets.iter_mut().skip(4096 + 8).take(4000) {
        *octet ^= 0x5a;
    }
    fs::write(&path, octets).unwrap();
    let why = RecordStore::open(&path, ME).unwrap_err();
    assert!(matches!(why, StoreError::Damaged { .. }), "{why}");
}

#[test]
fn file_of_a_running_service_is_locked_and_its_replacement_is_noticed() {
    let folder = Folder::new("locked");
    let path = folder.store(4);
    let (mut store, _) = RecordStore::open(&path, ME).unwrap();
    let why = RecordStore::open(&path, ME).unwrap_err();
    assert!(matches!(why, StoreError::Locked(_)), "{why}");
    fs::rename(&path, folder.0.join("elsewhere")).unwrap();
    let why = store
        .append(&[put(1, StoredStage::Holding)], &BTreeMap::new())
        .unwrap_err();
    assert!(matches!(why, StoreError::Replaced(_)), "{why}");
    drop(store);
    assert_eq!(records(&path, 4), []);
}

#[test]
fn removed_log_of_the_file_is_noticed() {
    let folder = Folder::new("log");
    let path = folder.store(4);
    let (mut store, _) = RecordStore::open(&path, ME).unwrap();
    store
        .append(&[put(1, StoredStage::Holding)], &BTreeMap::new())
        .unwrap();
    fs::remove_file(folder.0.join("4.db-wal")).unwrap();
    let why = store
        .append(&[put(2, StoredStage::Holding)], &BTreeMap::new())
        .unwrap_err();
    assert!(matches!(why, StoreError::Replaced(_)), "{why}");
}
