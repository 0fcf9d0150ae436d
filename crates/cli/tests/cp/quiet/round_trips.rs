//! Round trips of small copies, and what a copy of little data sends.

use std::fs;
use std::process::Command;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_testkit::Turn;

use crate::far::Far;
use crate::running::Outcome;
use crate::stage::Stage;

/// Long, so that the time of the programs does not count.
const RTT: Duration = Duration::from_millis(500);

/// Runs a copy or a list, which must take `trips` whole round trips. A busy machine may need longer, but never less:
/// what takes longer is undone, and tried again.
fn assert_trips(far: &Far, trips: u128, command: impl Fn() -> Command, undo: impl Fn()) -> Outcome {
    let mut last = None;
    for _ in 0..3 {
        let clock = Clock::start();
        let outcome = far.near.run(command()).assert_succeeded();
        let taken = clock.now().since(Instant::ZERO).as_nanos() / RTT.as_nanos();
        assert!(taken >= trips, "{taken} round trips: {outcome:?}");
        if taken == trips {
            return outcome;
        }
        undo();
        last = Some((taken, outcome));
    }
    panic!("{trips} round trips at most: {last:?}");
}

#[test]
fn small_copies_and_lists_take_three_round_trips() {
    let name = "round-trips";
    let Some(stage) = Stage::pair_quiet(name, "rate = \"1Gb/s\"\nrtt = \"500ms\"") else {
        return;
    };
    let far = Far::start_on(name, stage);
    let small = far.near.file("small", 1000);
    let large = far.near.file("large", 300_000);
    let (small, large) = (small.to_str().unwrap(), large.to_str().unwrap());
    let copy = |from: &str, to: &str| {
        let mut command = far.usual_copy(&["--json"], &[from, to]);
        command.env("LIGHTHAUL_PROTOCOL", "auto");
        command
    };
    let remove = |name: &str| fs::remove_file(far.target.join(name)).unwrap();
    let place = |name: &str| far.place(name);
    let push = || copy(small, &place("copy"));
    let outcome = assert_trips(&far, 3, push, || remove("copy"));
    assert_eq!(
        fs::read(small).unwrap(),
        fs::read(far.target.join("copy")).unwrap()
    );
    let summary = outcome.events().pop().unwrap();
    assert_eq!(
        (&summary["bytes_moved"], &summary["verified"]),
        (&1000.into(), &true.into())
    );
    let outcome = assert_trips(&far, 3, push, || {});
    assert_eq!(outcome.events().pop().unwrap()["unchanged"], 1);
    // the last round trip tells the daemon that the client has the result
    let back = far.near.at("back");
    let pull = || copy(&place("copy"), back.to_str().unwrap());
    assert_trips(&far, 4, pull, || fs::remove_file(&back).unwrap());
    assert_eq!(fs::read(small).unwrap(), fs::read(&back).unwrap());
    // the path is explored although nothing is to be sent
    let push = || copy(large, &place("large"));
    let forget = || fs::remove_dir_all(far.near.at("cache")).unwrap();
    // wishes and pings, two trains, data
    assert_trips(&far, 6, push, || {
        remove("large");
        forget();
    });
    assert_trips(&far, 3, push, || {});
    // the rate is known
    let push = || copy(large, &place("again"));
    assert_trips(&far, 4, push, || remove("again"));
}

#[test]
fn small_copies_need_no_datagrams() {
    let _turn = Turn::quiet();
    let far = Far::start("little", &[]);
    let tree = far.near.folder("tree");
    for nth in 0..100 {
        fs::write(tree.join(format!("{nth}")), vec![b'x'; 1 + nth * 20]).unwrap();
    }
    let mut command = far.copy(&["--json"], &[tree.to_str().unwrap(), &far.place("tree")]);
    command.env("LIGHTHAUL_PROTOCOL", "auto");
    let outcome = far.near.run(command).assert_succeeded();
    let events = outcome.events();
    let choice = events
        .iter()
        .find(|event| event["type"] == "choice")
        .unwrap();
    assert_eq!(choice["protocol"], "tcp", "{choice}");
    let bytes: usize = (0..100).map(|nth| 1 + nth * 20).sum();
    assert_eq!(events.last().unwrap()["bytes_moved"], bytes);
    for nth in 0..100 {
        let copy = far.target.join(format!("tree/{nth}"));
        assert_eq!(fs::read(copy).unwrap(), vec![b'x'; 1 + nth * 20]);
    }
}
