//! Copies that succeed: both directions, progress and events.

use std::fs;

use lighthaul::{CopyEvent, CopyRequest, Event, Place};

use crate::host::{Host, are_equal, names, shared};

const LEN: usize = 3 << 20;

#[test]
fn file_is_pushed_and_pulled_and_its_progress_reaches_the_total() {
    let host = Host::start("push-pull", &["a"]);
    let client = host.client("a");
    let file = host.file("x", LEN);
    let (events, seen) = shared::<Vec<Event>>();
    let observer = move |event: &Event| events.lock().unwrap().push(event.clone());
    let transfer = client
        .copy_observed(host.push(&file, "x"), observer)
        .unwrap();
    while !transfer.is_finished() {
        std::thread::yield_now();
    }
    let progress = transfer.progress();
    let summary = transfer.wait().unwrap();
    assert_eq!((progress.done, progress.total), (LEN as u64, LEN as u64));
    assert_eq!((summary.entries, summary.bytes), (1, LEN as u64));
    assert!(summary.failures.is_empty());
    assert!(are_equal(&file, &host.folder.join("a/x")));
    let seen = seen.lock().unwrap();
    let is_start = |event: &Event| matches!(event, Event::Copy(CopyEvent::Started(_)));
    assert_eq!(seen.iter().filter(|event| is_start(event)).count(), 1);

    let back = host.folder.join("back");
    let pull = CopyRequest::new([host.place("x")], Place::Here(back.clone()));
    let summary = client.copy(pull).unwrap().wait().unwrap();
    assert_eq!(summary.motion.done, LEN as u64);
    assert!(are_equal(&file, &back));
}

#[test]
fn clients_in_the_same_process_have_separate_identities() {
    let host = Host::start("identities", &["a", "b"]);
    let file = host.file("x", 1000);
    // both copies run at the same time
    let [one, other] = ["a", "b"].map(|name| {
        let request = host.push(&file, name);
        host.client(name).copy(request).unwrap()
    });
    assert_eq!(one.wait().unwrap().entries, 1);
    assert_eq!(other.wait().unwrap().entries, 1);
    for name in ["a", "b"] {
        assert_eq!(names(&host.folder.join(name)), [name]);
    }
}

#[test]
fn plan_has_the_number_of_actions_of_a_copy_and_changes_no_files() {
    let host = Host::start("plan", &["a"]);
    let source = host.folder.join("tree");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("new"), [7; 100]).unwrap();
    fs::write(host.folder.join("a/old"), "old").unwrap();
    let source = Place::parse(&format!("{}/", source.display())).unwrap();
    let mut request = CopyRequest::new([source], host.place(""));
    request.options.delete = true;
    let plan = host.client("a").plan(&request).unwrap();
    assert_eq!((plan.bytes, plan.deletions), (100, 1));
    assert_eq!(names(&host.folder.join("a")), ["old"]);
}
