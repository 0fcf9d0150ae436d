//! Progress and summary of a copy.

use crate::far::Far;

/// Copies three files at 40 Mb/s with the options.
fn copy(far: &Far, options: &[&str]) -> crate::running::Outcome {
    let folder = far.near.folder("dir");
    for name in ["one", "two", "three"] {
        far.near.file(&format!("dir/{name}"), 3_000_000);
    }
    let from = format!("{}/", folder.display());
    let place = far.place("t");
    let options = [&["--rate", "40Mb/s"], options].concat();
    let mut command = far.usual_copy(&options, &[&from, &place]);
    command.env("COLUMNS", "90").env("LC_ALL", "C.UTF-8");
    far.near.run(command).assert_succeeded()
}

#[test]
fn bar_fits_its_terminal_and_names_files_that_move() {
    let far = Far::start("progress-bar", &[]);
    let outcome = copy(&far, &["--progress", "bar"]);
    let text = outcome.err.join("\n");
    let mut frames = text.split("\x1b[J");
    let is_whole = |frame: &str| {
        let lines: Vec<&str> = frame.split(['\n', '\r']).collect();
        let is_narrow = lines.iter().all(|line| line.chars().count() < 90);
        assert!(is_narrow, "{frame:?}");
        lines[0].contains(" left")
            && lines[0].contains('█')
            && lines[1..].iter().any(|line| line.contains("/one"))
    };
    assert!(frames.any(is_whole), "{text:?}");
    // all three are in one object
    assert!(text.contains("/two "), "{text:?}");
    assert!(!text.contains("100 % of 2.86 MiB"), "{text:?}");
}

/// A test of what limits a copy.
mod alone {
    use lighthaul_testkit::Turn;

    use super::*;

    #[test]
    fn summary_names_the_bottleneck_of_a_copy() {
        // beside other tests, the processors limit it
        let _turn = Turn::alone();
        let far = Far::start("limited", &[]);
        let outcome = copy(&far, &["-r"]);
        let limit = "40.000 Mb/s on the wire, limited by the given rate: ";
        assert!(outcome.said(limit), "{outcome:?}");
        let place = far.place("u");
        let from = far.near.at("dir").join("one");
        let options = ["--json", "--rate", "10Mb/s"];
        let outcome = far
            .near
            .run(far.usual_copy(&options, &[from.to_str().unwrap(), &place]));
        assert_eq!(
            outcome.event("summary")["bottleneck"],
            "rate",
            "{outcome:?}"
        );
    }
}
