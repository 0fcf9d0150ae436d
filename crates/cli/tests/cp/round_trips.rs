//! Round trips of small copies, and what a copy of little data sends.

use std::fs;
use std::process::Command;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;

use crate::far::Far;
use crate::running::Outcome;
use crate::stage::Stage;

/// Long, so that the time of the programs does not count.
const RTT: Duration = Duration::from_secs(1);

/// Runs a command, and returns the number of whole round trips that it took.
fn count(far: &Far, command: Command) -> (u128, Outcome) {
    let clock = Clock::start();
    let outcome = far.near.run(command).assert_succeeded();
    let time = clock.now().since(Instant::ZERO);
    (time.as_nanos() / RTT.as_nanos(), outcome)
}

#[test]
fn small_copies_and_lists_take_three_round_trips() {
    let name = "round-trips";
    let Some(stage) = Stage::pair(name, "rate = \"1Gb/s\"\nrtt = \"1s\"") else {
        return;
    };
    let far = Far::start_on(name, stage);
    let small = far.near.file("small", 1000);
    let small = small.to_str().unwrap();
    let large = far.near.file("large", 3_000_000);
    let large = large.to_str().unwrap();
    fs::copy(large, far.target.join("there")).unwrap();
    let chosen = |paths: &[&str]| {
        let mut command = far.usual_copy(&["--json"], paths);
        command.env("LIGHTHAUL_PROTOCOL", "auto");
        command
    };
    let (trips, outcome) = count(&far, chosen(&[small, &far.place("copy")]));
    assert_eq!(trips, 3, "{outcome:?}");
    assert_eq!(
        fs::read(small).unwrap(),
        fs::read(far.target.join("copy")).unwrap()
    );
    let summary = outcome.events().pop().unwrap();
    assert_eq!(
        (&summary["bytes_moved"], &summary["verified"]),
        (&1000.into(), &true.into())
    );
    let (trips, outcome) = count(&far, chosen(&[small, &far.place("copy")]));
    assert_eq!(trips, 3, "nothing to do: {outcome:?}");
    assert_eq!(outcome.events().pop().unwrap()["unchanged"], 1);
    // the last round trip tells the daemon that the client has the result
    let back = far.near.at("back");
    let (trips, outcome) = count(&far, chosen(&[&far.place("copy"), back.to_str().unwrap()]));
    assert_eq!(trips, 4, "{outcome:?}");
    assert_eq!(fs::read(small).unwrap(), fs::read(back).unwrap());
    // the path is explored although nothing is to be sent
    let (trips, outcome) = count(&far, chosen(&[large, &far.place("large")]));
    assert_eq!(trips, 6, "wishes and pings, two trains, data: {outcome:?}");
    let (trips, outcome) = count(&far, chosen(&[large, &far.place("large")]));
    assert_eq!(trips, 3, "nothing to do: {outcome:?}");
    let (trips, outcome) = count(&far, chosen(&[large, &far.place("again")]));
    assert_eq!(trips, 4, "the rate is known: {outcome:?}");
}

#[test]
fn little_data_need_no_datagrams() {
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
