//! Gateways that reserve their channel in windows.

use std::process::Command;
use std::{fs, thread};

use serde_json::Value;

use crate::pair::{PATH, PROGRAM, Pair, say};
use crate::programs::{hear, tell};
use crate::running::{Running, becomes_true, event};
use crate::scratch::{Scratch, noise};
use crate::stage::Stage;
use crate::status::shown;

/// Two gateways, and a scheduler near the first of them.
struct Booked {
    pair: Pair,
    scheduler: Running,
    token: String,
}

impl Booked {
    #[expect(
        clippy::unwrap_in_result,
        reason = "nothing is for want of a lab alone"
    )]
    fn start(name: &str) -> Option<Self> {
        let stage = Stage::pair(name, PATH)?;
        let scratch = Scratch::new(name);
        let link =
            "[[link]]\nname = \"lambda\"\nfrom = \"a\"\nto = \"b\"\ncapacity = \"100Mb/s\"\n";
        fs::write(scratch.at("network.toml"), link).unwrap();
        let tokens = scratch.at("tokens");
        let token = say(&[
            "token",
            "ada",
            "--role",
            "user",
            "--tokens",
            tokens.to_str().unwrap(),
        ]);
        fs::write(scratch.at("token"), &token).unwrap();
        let scheduler = schedule(&stage, &scratch);
        let file = scratch.at("token");
        let options = [
            ["--scheduler", URL],
            ["--scheduler-token", file.to_str().unwrap()],
            ["--node", "a"],
            ["--far-node", "b"],
        ];
        let options = [options.as_flattened(), &["--book"]].concat();
        let pair = Pair::start_on(stage, scratch, &options, &[]);
        Some(Self {
            pair,
            scheduler,
            token,
        })
    }

    /// Returns all reservations, including ended ones.
    fn windows(&self) -> Vec<Value> {
        let lab = &self.pair.stage.lab;
        let mut ask = lab.command("a", PROGRAM).unwrap();
        ask.args(["reservations", "--json", "--scheduler", URL])
            .env("XDG_CONFIG_HOME", self.pair.scratch.at("config"))
            .env("LIGHTHAUL_SCHEDULER_TOKEN", &self.token);
        let outcome = Running::start(ask).finish();
        let lines = outcome.assert_succeeded().out;
        lines.iter().map(|line| event(line)).collect()
    }
}

fn schedule(stage: &Stage, scratch: &Scratch) -> Running {
    let mut serve: Command = stage.lab.command("a", PROGRAM).unwrap();
    serve.args(["scheduler", "--no-tls"]);
    for (flag, file) in [
        ("--topology", "network.toml"),
        ("--store", "books"),
        ("--key", "scheduler-key"),
        ("--tokens", "tokens"),
    ] {
        serve.arg(flag).arg(scratch.at(file));
    }
    let mut scheduler = Running::start(serve);
    scheduler.says("booking at ");
    scheduler
}

#[test]
fn capacity_is_booked_on_demand_and_released_when_idle() {
    let name = "capacity_is_booked_on_demand_and_released_when_idle";
    let Some(booked) = Booked::start(name) else {
        return;
    };
    assert_eq!(booked.windows().len(), 0);
    let mut ends = booked.pair.session();
    let said = noise(20_000_000, 6);
    let sayer = tell(&ends.program, said.clone());
    let (heard, end) = hear(&mut ends.target);
    end.unwrap();
    assert!(heard == said, "what arrived is not what was said");
    sayer.join().unwrap().unwrap();
    becomes_true("all windows have ended or are released", || {
        let windows = booked.windows();
        let mut states = windows.iter().map(|window| &window["state"]);
        !windows.is_empty() && states.all(|state| state == "released")
    });
    let windows = booked.windows();
    let steps = windows
        .iter()
        .flat_map(|window| window["steps"].as_array().unwrap());
    for step in steps {
        let rate = step["rate_bps"].as_u64().unwrap();
        assert!((1..=100_000_000).contains(&rate), "{step}");
    }
    becomes_true("the channel carries nothing", || {
        shown(&booked.pair.scratch, "a")["rate_bps"] == 0
    });
}

#[test]
fn sessions_wait_while_the_scheduler_is_down() {
    let name = "sessions_wait_while_the_scheduler_is_down";
    let Some(mut booked) = Booked::start(name) else {
        return;
    };
    let mut ends = booked.pair.session();
    booked.scheduler.kill();
    let said = noise(5_000_000, 7);
    let sayer = tell(&ends.program, said.clone());
    let mut target = ends.target.try_clone().unwrap();
    let listener = thread::spawn(move || hear(&mut target));
    booked.pair.ingress.says("cannot reserve capacity for");
    booked.scheduler = schedule(&booked.pair.stage, &booked.pair.scratch);
    let (heard, end) = listener.join().unwrap();
    end.unwrap();
    assert!(heard == said, "what arrived is not what was said");
    sayer.join().unwrap().unwrap();
    drop(ends.target);
    assert!(hear(&mut ends.program).1.is_ok());
}

/// Address of the scheduler.
const URL: &str = "http://127.0.0.1:4811";
