//! Answers that other programs need, and a store of two providers.

use std::collections::BTreeMap;
use std::path::Path;

use lighthaul_nsi::message::body::QueryKind;
use lighthaul_nsi::message::query::Query;
use lighthaul_nsi::message::{Message, Operation};

use super::{Link, Run, open, try_open};

#[test]
fn answers_to_queries_list_no_parts_in_other_networks() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    run.operate(Operation::Commit, &id);
    run.provider.work();
    for kind in [QueryKind::Summary, QueryKind::Recursive] {
        let asked = run.ask(Message::Query(kind, Query::default()));
        assert_eq!(asked, Message::Acknowledgment);
    }
    let mut counts = BTreeMap::new();
    run.provider.deliver("urn:r", |outgoing| {
        // the schema has the list between the service type and the service
        let list = "</serviceType><children></children><p:p2ps>";
        let count = outgoing.document.matches(list).count();
        assert_eq!(count, outgoing.document.matches("<children").count());
        counts.insert(outgoing.name.clone(), count);
        Ok(())
    });
    let expected = [
        ("queryRecursiveConfirmed", 1),
        ("querySummaryConfirmed", 1),
        ("reserveCommitConfirmed", 0),
        ("reserveConfirmed", 0),
    ];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn store_that_another_provider_has_open_is_refused() {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("locked-{}", std::process::id()));
    let link = Link::new();
    drop(open(&path, &link));
    // the table exists already
    let first = open(&path, &link);
    let why = try_open(&path, &link).unwrap_err().to_string();
    assert!(why.contains("another scheduler has it open"), "{why}");
    drop(first);
    drop(open(&path, &link));
    std::fs::remove_file(&path).unwrap();
}
