//! Queued copies: clients submit them, and workers run them.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::booking::Booking;
use crate::far::{Far, Near};
use crate::running::{Outcome, Running, becomes_true};
use crate::schema::assert_valid;
use crate::third::Pair;

/// Returns `lighthaul jobs` with `words`, for the queue of this test.
fn command(near: &Near, words: &[&str]) -> Command {
    let mut command = near.lighthaul(&["jobs"]);
    command
        .args(words)
        .env("LIGHTHAUL_QUEUE", near.at("jobs.db"));
    command
}

fn jobs(near: &Near, words: &[&str]) -> Outcome {
    near.run(command(near, words))
}

/// Submits a copy to the daemon, and returns its number.
fn submit(far: &Far, options: &[&str], source: &str, name: &str) -> String {
    let (key, place) = (far.near.key(), far.place(name));
    let copy = ["cp", "--retries", "0", "--pin", &far.pin, "--key"];
    let mut words = vec!["submit"];
    words.extend(options.iter().copied().chain(copy));
    words.extend([key.to_str().unwrap(), source, &place]);
    let outcome = jobs(&far.near, &words).assert_succeeded();
    outcome.out.concat()
}

/// Returns true if a line on standard output has these words.
fn printed(outcome: &Outcome, words: &str) -> bool {
    outcome.out.iter().any(|line| line.contains(words))
}

/// Returns the event of a job.
fn shown(near: &Near, id: &str) -> Value {
    let outcome = jobs(near, &["show", "--json", id]).assert_succeeded();
    assert_valid(&outcome).remove(0)
}

fn state(near: &Near, id: &str) -> String {
    shown(near, id)["state"].as_str().unwrap().to_owned()
}

#[test]
fn submitted_copies_run_without_their_client() {
    let far = Far::start("jobs", &[]);
    let near = &far.near;
    let source = near.folder("source");
    fs::write(source.join("x"), "content").unwrap();
    let source = source.to_str().unwrap();
    let first = submit(&far, &["--name", "nightly"], source, "first");
    let second = submit(
        &far,
        &["--after", &first, "--priority", "9"],
        source,
        "second",
    );
    assert_eq!((first.as_str(), second.as_str()), ("1", "2"));
    assert_eq!(state(near, &second), "waiting");
    let list = jobs(near, &[]).assert_succeeded();
    assert!(printed(&list, "1 queued"), "{list:?}");
    jobs(near, &["work", "--until-empty"]).assert_succeeded();
    for name in ["first", "second"] {
        let file = far.target.join(name).join("source/x");
        assert_eq!(fs::read_to_string(file).unwrap(), "content");
    }
    let job = shown(near, &first);
    assert_eq!((&job["state"], &job["exit"]), (&"done".into(), &0.into()));
    assert_eq!(job["bytes"], 7);
    assert_eq!(job["history"].as_array().unwrap().len(), 3);
    jobs(near, &["watch", &first]).assert_succeeded();
    let logs = jobs(near, &["logs", &first]).assert_succeeded();
    assert!(printed(&logs, "\"type\":\"summary\""), "{logs:?}");
    // ended jobs are listed only on demand
    let list = jobs(near, &["--json"]).assert_succeeded();
    assert!(list.out.is_empty(), "{list:?}");
    let list = jobs(near, &["--json", "--all"]).assert_succeeded();
    assert_eq!(assert_valid(&list).len(), 2);
}

#[test]
fn list_of_copies_is_queued_whole_or_not_at_all() {
    let far = Far::start("jobs-list", &[]);
    let near = &far.near;
    let list = near.at("copies.txt");
    fs::write(near.at("a b"), "first").unwrap();
    fs::write(near.at("c"), "second").unwrap();
    let (folder, key, to) = (near.at(""), near.key(), far.place("both/"));
    let (folder, key) = (folder.to_str().unwrap(), key.to_str().unwrap());
    let cp = format!("cp --retries 0 --pin {} --key {key}", far.pin);
    let good = format!("# two copies\n\n  {cp} '{folder}/a b' {to}\n{cp} {folder}/c {to}\n");
    let submit = |text: &str, words: &[&str]| {
        fs::write(&list, text).unwrap();
        let words = [&["submit", "--from", list.to_str().unwrap()], words].concat();
        jobs(near, &words)
    };
    for (line, why) in [
        ("rm x", "a job is a copy"),
        ("cp 'x y", "a quote is not closed"),
        ("cp --nothing x y", "unexpected argument '--nothing'"),
        ("cp --delete x y", "add --yes"),
    ] {
        let outcome = submit(&format!("{good}{line}\n"), &[]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let said = outcome.err.concat();
        assert!(said.contains("line 5 of the list: "), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(outcome.out.is_empty(), "{outcome:?}");
    }
    let both = submit(&good, &["cp", "x", "y"]);
    assert_eq!(both.code, Some(1), "{both:?}");
    let missing = jobs(near, &["submit", "--from", near.at("no").to_str().unwrap()]);
    assert_eq!(missing.code, Some(3), "{missing:?}");
    let outcome = submit(&good, &["--name", "both"]).assert_succeeded();
    assert_eq!(outcome.out, ["1", "2"]);
    let outcome = submit(&good, &["--json"]).assert_succeeded();
    let events = assert_valid(&outcome);
    assert_eq!(events[1]["job"], 4, "{events:?}");
    // a source is copied as it is when its job starts
    fs::write(near.at("c"), "changed since").unwrap();
    let worked = jobs(near, &["work", "--until-empty"]).assert_succeeded();
    assert_eq!(state(near, "1"), "done", "{worked:?}");
    let target = far.target.join("both");
    assert_eq!(fs::read_to_string(target.join("a b")).unwrap(), "first");
    let changed = fs::read_to_string(target.join("c")).unwrap();
    assert_eq!(changed, "changed since");
    assert_eq!(shown(near, "2")["name"], "both");
}

#[test]
fn copy_that_fails_is_retried_or_fails_with_its_exit_status() {
    let far = Far::start("jobs-fail", &[]);
    let near = &far.near;
    let missing = near.at("missing");
    let id = submit(&far, &[], missing.to_str().unwrap(), "x");
    jobs(near, &["work", "--until-empty"]).assert_succeeded();
    let outcome = jobs(near, &["watch", &id]);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(printed(&outcome, "no such file"), "{outcome:?}");
    // its user mends the cause, and retries it
    fs::write(&missing, "found").unwrap();
    jobs(near, &["retry", &id]).assert_succeeded();
    jobs(near, &["work", "--until-empty"]).assert_succeeded();
    assert_eq!(state(near, &id), "done");
    // a failure of the network waits for its retry
    let closed = crate::far::ClosedPort::new();
    let place = format!("lh://127.0.0.1:{}/x", closed.number());
    let words = [
        "submit",
        "cp",
        "--retries",
        "0",
        missing.to_str().unwrap(),
        &place,
    ];
    let id = jobs(near, &words).assert_succeeded().out.concat();
    let mut worker = Running::start(command(near, &["work"]));
    worker.says("has not succeeded");
    becomes_true("the job waits", || state(near, &id) == "waiting");
    let job = shown(near, &id);
    assert_eq!((&job["failures"], &job["exit"]), (&1.into(), &10.into()));
    worker.signal("TERM");
    worker.finish().assert_succeeded();
    jobs(near, &["cancel", &id]).assert_succeeded();
    assert_eq!(jobs(near, &["watch", &id]).code, Some(20));
}

#[test]
fn killed_worker_loses_no_job_and_the_copy_resumes() {
    let far = Far::start("jobs-kill", &[]);
    let near = &far.near;
    let file = near.at("file");
    fs::write(&file, vec![7; 16 << 20]).unwrap();
    let (key, place) = (near.key(), far.place("copy"));
    let words = [
        "submit", "cp", "--rate", "40Mb/s", "-T", "--pin", &far.pin, "--key",
    ];
    let mut words = words.to_vec();
    words.extend([key.to_str().unwrap(), file.to_str().unwrap(), &place]);
    let id = jobs(near, &words).assert_succeeded().out.concat();
    let work = ["work", "--lease", "2s", "--until-empty"];
    let mut worker = Running::start(command(near, &work));
    becomes_true("bytes arrive", || {
        shown(near, &id)["bytes"].as_u64() > Some(0)
    });
    worker.kill();
    assert_eq!(state(near, &id), "running");
    jobs(near, &work).assert_succeeded();
    let job = shown(near, &id);
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&"done".into(), &2.into())
    );
    assert!(fs::read(far.target.join("copy")).unwrap() == fs::read(file).unwrap());
}

#[test]
fn canceled_job_stops_its_copy_and_keeps_what_arrived() {
    let far = Far::start("jobs-cancel", &[]);
    let near = &far.near;
    let file = near.at("file");
    fs::write(&file, vec![7; 64 << 20]).unwrap();
    let (key, place) = (near.key(), far.place("copy"));
    let words = [
        "submit", "cp", "--rate", "20Mb/s", "-T", "--pin", &far.pin, "--key",
    ];
    let mut words = words.to_vec();
    words.extend([key.to_str().unwrap(), file.to_str().unwrap(), &place]);
    let id = jobs(near, &words).assert_succeeded().out.concat();
    let worker = Running::start(command(near, &["work", "--until-empty"]));
    becomes_true("bytes arrive", || {
        shown(near, &id)["bytes"].as_u64() > Some(0)
    });
    let outcome = jobs(near, &["cancel", &id]).assert_succeeded();
    assert!(
        printed(&outcome, "its copy is being stopped"),
        "{outcome:?}"
    );
    worker.finish().assert_succeeded();
    assert_eq!(state(near, &id), "canceled");
    assert!(!far.target.join("copy").exists());
}

#[test]
fn watch_ends_at_the_first_signal_and_names_jobs_that_did_not_start() {
    let near = Near::new("jobs-watch", None);
    let submit = |words: &[&str]| {
        let words = [&["submit"], words].concat();
        jobs(&near, &words).assert_succeeded().out.concat()
    };
    let first = submit(&["cp", "a", "b"]);
    let second = submit(&["--after", &first, "cp", "--delete", "--yes", "a", "b"]);
    for words in [&["watch", &first][..], &["logs", "--follow", &first]] {
        let mut running = Running::start(command(&near, words));
        if words[0] == "watch" {
            running.prints("is queued");
        } else {
            // a program that catches signals has a handler for SIGINT (signal 2)
            let status = format!("/proc/{}/status", running.id());
            becomes_true("the program runs", || {
                let status = fs::read_to_string(&status).unwrap_or_default();
                status.contains("Name:\tlighthaul") && status.contains("State:\tS")
            });
        }
        running.signal("INT");
        assert_eq!(running.finish().code, None, "{words:?}");
    }
    jobs(&near, &["cancel", &first]).assert_succeeded();
    assert_eq!(jobs(&near, &["watch", &first]).code, Some(20));
    let outcome = jobs(&near, &["watch", &second]);
    assert_eq!(outcome.code, Some(40), "{outcome:?}");
}

#[test]
fn wrong_jobs_are_refused_with_one_sentence() {
    let near = Near::new("jobs-wrong", None);
    let outcome = jobs(&near, &[]);
    outcome.assert_failed(3, "no job was submitted yet");
    // a job that was never seen is not watched
    let wrong = ["watch", "--scheduler", "https://name.invalid:4811", "7"];
    jobs(&near, &wrong).assert_failed(10, "cannot reach the scheduler");
    for (words, text) in [
        (&["submit", "rm", "x"][..], "a job is a copy"),
        (
            &["submit", "cp", "--no-such", "a", "b"],
            "unexpected argument '--no-such'",
        ),
        (&["submit", "cp", "a"], "the command of the job is wrong"),
        (&["submit", "cp", "--delete", "a", "b"], "add --yes"),
        (
            &["submit", "--after", "7", "cp", "a", "b"],
            "no job has the number 7",
        ),
    ] {
        jobs(&near, words).assert_failed(1, text);
    }
    let id = jobs(&near, &["submit", "cp", "a", "b"])
        .assert_succeeded()
        .out
        .concat();
    jobs(&near, &["retry", &id]).assert_failed(1, "only a failed or canceled job can be retried");
    jobs(&near, &["cancel", &id, "99"]).assert_failed(1, "no job has the number 99");
    jobs(&near, &["cancel", &id, "99"]).assert_failed(1, "2 of 2 jobs were not changed");
}

/// Returns a scheduler with a queue, whose policy permits jobs of `ada` from `results` to her home.
fn scheduler(pair: &Pair) -> Booking {
    let near = Near::new("jobs-rest", None);
    let (policy, topology) = (near.at("policy.toml"), near.at("network.toml"));
    fs::write(
        &topology,
        "[[link]]\nfrom = \"a\"\nto = \"b\"\ncapacity = \"1Gb/s\"\n",
    )
    .unwrap();
    let rules = format!(
        "[identity.ada]\njob_sources = [\"{}/\"]\njob_targets = [\"{}/{{user}}/\"]\n",
        pair.a.place("results"),
        pair.b.place("home")
    );
    fs::write(&policy, rules).unwrap();
    let queue = near.at("jobs.db");
    let options = [
        "--no-tls",
        "--jobs",
        queue.to_str().unwrap(),
        "--policy",
        policy.to_str().unwrap(),
    ];
    Booking::over(near, &topology, &options)
}

/// Jobs through a scheduler, whose worker copies from one daemon to another.
#[test]
fn job_of_a_scheduler_runs_on_a_worker_elsewhere() {
    let pair = Pair::start("jobs-rest", &[], &[]);
    fs::create_dir_all(pair.a.target.join("results")).unwrap();
    fs::write(pair.a.target.join("results/x"), "content").unwrap();
    let booking = scheduler(&pair);
    let queue = booking.near.at("jobs.db");
    let ada = booking.token("ada", "user");
    let ask = |words: &[&str], copy: &[&str]| {
        let mut command = booking.near.lighthaul(&["jobs"]);
        command
            .args(words)
            .args(["--scheduler", &booking.url])
            .args(copy)
            .env("LIGHTHAUL_SCHEDULER_TOKEN", &ada);
        booking.near.run(command)
    };
    let (source, target) = (pair.a.place("results"), pair.b.place("home/ada/"));
    fs::create_dir_all(pair.b.target.join("home/ada")).unwrap();
    let copy = ["cp", "--exclude", "*.log", &source, &target];
    let id = ask(&["submit", "--name", "nightly"], &copy)
        .assert_succeeded()
        .out
        .concat();
    let listed = ask(&["--json"], &[]).assert_succeeded();
    let job = assert_valid(&listed).remove(0);
    assert_eq!(
        (&job["name"], &job["owner"]),
        (&"nightly".into(), &"ada".into())
    );
    let mut work = pair.a.near.lighthaul(&["jobs", "work", "--until-empty"]);
    work.env("LIGHTHAUL_QUEUE", &queue)
        .env("LIGHTHAUL_KEY", pair.a.near.key());
    pair.a.near.run(work).assert_succeeded();
    ask(&["watch", &id], &[]).assert_succeeded();
    let file = pair.b.target.join("home/ada/results/x");
    assert_eq!(fs::read_to_string(file).unwrap(), "content");
    let logs = ask(&["logs", &id], &[]).assert_succeeded();
    assert!(printed(&logs, "\"type\":\"summary\""), "{logs:?}");
    let show = ask(&["show", "--json", &id], &[]).assert_succeeded();
    assert_eq!(
        assert_valid(&show)[0]["history"].as_array().unwrap().len(),
        3
    );
    let by = "2031-05-01T06:00:00Z";
    let copy = [
        "cp", "--delete", "--yes", "--book", "--by", by, &source, &target,
    ];
    let booked = ask(&["submit"], &copy).assert_succeeded().out.concat();
    let show = ask(&["show", "--json", &booked], &[]).assert_succeeded();
    let command = assert_valid(&show)[0]["command"].to_string();
    assert!(
        command.contains(&format!(r#""--book","--by={by}""#)),
        "{command}"
    );
    ask(&["cancel", &booked], &[]).assert_succeeded();
    let recurs = ["submit", "--every", "1d"];
    ask(&recurs, &copy).assert_failed(1, "has no --by");
    // what a worker elsewhere must not do
    for (copy, code, text) in [
        (&["cp", "/etc/hostname", &target][..], 1, "local paths"),
        (
            &["cp", "--ssh", "sh", &source, &target],
            1,
            "cannot have --ssh",
        ),
        (&["cp", &source, &source], 13, "permits no job to copy to"),
    ] {
        ask(&["submit"], copy).assert_failed(code, text);
    }
    ask(&["cancel", &id], &[]).assert_failed(40, "is done already");
    ask(&["retry", "99"], &[]).assert_failed(1, "no job has the number 99");
}

#[test]
fn share_is_set_and_listed() {
    let near = Near::new("jobs-share", None);
    jobs(&near, &["share"]).assert_failed(3, "no job was submitted yet");
    let set = jobs(&near, &["share", "alice", "2"]).assert_succeeded();
    assert!(printed(&set, "alice has share 2"), "{set:?}");
    let list = jobs(&near, &["share", "--json"]).assert_succeeded();
    let share = assert_valid(&list).remove(0);
    assert_eq!(
        (&share["owner"], &share["share"]),
        (&"alice".into(), &2.into())
    );
    let list = jobs(&near, &["share"]).assert_succeeded();
    assert!(printed(&list, "alice          2"), "{list:?}");
    assert_eq!(jobs(&near, &["share", "alice"]).code, Some(1));
}
