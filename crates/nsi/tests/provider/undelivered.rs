//! Messages to a requester that does not answer for a while.

use std::path::Path;

use lighthaul_nsi::message::{Envelope, Message, NotificationKind, Operation};

use super::Run;

#[test]
fn message_that_is_given_up_is_reported_once_the_requester_answers() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    // no delivery succeeds
    let mut tried: Vec<String> = Vec::new();
    for _ in 0..200 {
        run.provider.deliver("urn:r", |outgoing| {
            tried.push(outgoing.name.clone());
            Err("it does not answer".to_owned())
        });
        run.pass(40);
    }
    let count = |name: &str| tried.iter().filter(|one| *one == name).count();
    assert_eq!(count("reserveConfirmed"), 8, "{tried:?}");
    // the report is given up too, and no report follows about it
    assert_eq!(count("messageDeliveryTimeout"), 8, "{tried:?}");
    assert_eq!(tried.len(), 16, "{tried:?}");

    run.operate(Operation::Terminate, &id);
    let (terminate, _) = run.last.clone().unwrap();
    run.provider.work();
    for _ in 0..8 {
        run.provider
            .deliver("urn:r", |_| Err("it does not answer".to_owned()));
        run.pass(40);
    }
    let mut told = Vec::new();
    run.provider.deliver("urn:r", |outgoing| {
        let document = outgoing.document.as_bytes();
        told.push(Envelope::decode(document, 1 << 20).unwrap().message);
        Ok(())
    });
    let [Message::Notification(told)] = told.as_slice() else {
        panic!("{told:?}");
    };
    let correlation_id = terminate;
    assert_eq!(told.connection_id, id);
    assert_eq!(
        told.kind,
        NotificationKind::DeliveryTimeout { correlation_id }
    );
}
