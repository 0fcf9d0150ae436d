//! The choice of a protocol on a path that no other test uses.

use lighthaul_testkit::Turn;

use crate::far::Far;
use crate::schema::assert_valid;
use crate::scratch::look;

#[test]
fn auto_reports_its_choice_and_reason() {
    // the choice depends on the measured path
    let _turn = Turn::alone();
    let far = Far::start("auto", &[]);
    let file = far.near.file("x", 3_000_000);
    // on a busy machine loopback loses datagrams, and the choice with losses is not TCP
    let cases: [(&[&str], &[&str]); 3] = [
        (&[], &["tcp", "sabul-swift"]),
        (&["--dedicated"], &["rbudp", "rbudp+", "ptcp"]),
        (&["--no-udp"], &["ptcp"]),
    ];
    for (options, names) in cases {
        let name = names[0];
        let options = [&["--protocol", "auto", "--json", "--explain"], options].concat();
        let pushed = far.push(&options, &[&file], name).assert_succeeded();
        // a copy without anything to send ends before the choice
        let back = far.near.at(&format!("back-{name}"));
        let pulled = far.pull(&options, &[name], back.to_str().unwrap());
        assert!(look(&back) == look(&file), "{name}");
        for outcome in [pushed, pulled.assert_succeeded()] {
            let events = assert_valid(&outcome);
            let choice = events.iter().find(|event| event["type"] == "choice");
            let choice = choice.unwrap_or_else(|| panic!("{outcome:?}"));
            let chosen = choice["protocol"].as_str().unwrap();
            assert!(names.contains(&chosen), "{choice}");
            assert!(outcome.said(&format!("lighthaul: auto: {chosen}, because ")));
            let start = events
                .iter()
                .find(|event| event["type"] == "start")
                .unwrap();
            assert_eq!(start["protocol"], chosen);
        }
    }
}
