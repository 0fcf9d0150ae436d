//! Reservations in the scheduler's database: each one that was confirmed with status 201 survives a
//! cut.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::program::{Program, Server};
use crate::trial::{Promises, Scenario};

/// Scenario of a scheduler with its database on the disk, which takes bookings.
#[derive(Debug)]
pub struct Books {
    program: Program,
    /// Identifiers of confirmed reservations, in order.
    booked: Vec<u64>,
}

const BOOKINGS: usize = 12;

impl Books {
    /// Creates the scenario.
    pub const fn new(program: Program) -> Self {
        Self {
            program,
            booked: Vec::new(),
        }
    }

    fn config(&self) -> PathBuf {
        self.program.aside.join("config")
    }

    fn serve(&self, disk: &Path) -> Result<(Server, String), String> {
        let at = |folder: &Path, name: &str| folder.join(name).to_string_lossy().into_owned();
        let topology = at(&self.program.aside, "network.toml");
        let store = at(disk, "books");
        let key = at(&self.program.aside, "host_key");
        let tokens = at(&self.program.aside, "tokens");
        let words = [
            "scheduler",
            "--listen",
            "127.0.0.1:0",
            "--no-tls",
            "--topology",
            &topology,
        ];
        let more = ["--store", &store, "--key", &key, "--tokens", &tokens];
        let words = [words.as_slice(), &more].concat();
        let mut serve = self.program.command(&self.config(), &words);
        let (server, line) = self.program.serve(&mut serve, "booking at ")?;
        let url = line.split("booking at ").nth(1).unwrap_or_default();
        let url = url.split([',', ' ']).next().unwrap_or_default();
        Ok((server, url.trim().to_owned()))
    }

    fn ask(&self, url: &str, words: &[&str]) -> Result<String, String> {
        let token = fs::read_to_string(self.program.aside.join("token"));
        let token = token.map_err(|why| why.to_string())?;
        let words = [words, &["--json", "--scheduler", url]].concat();
        let mut command = self.program.command(&self.config(), &words);
        let output = command
            .env("LIGHTHAUL_SCHEDULER_TOKEN", token.trim())
            .output();
        super::program::printed(&words, &output.map_err(|why| why.to_string())?)
    }

    fn book(&self, url: &str) -> Result<u64, String> {
        let words = ["book", "a", "b", "--size", "1MB", "--tentative"];
        let said = self.ask(url, &words)?;
        identifiers(&said)
            .next()
            .ok_or_else(|| format!("no identifier in {said}"))
    }

    fn listed(&self, url: &str) -> Result<BTreeSet<u64>, String> {
        let said = self.ask(url, &["reservations"])?;
        Ok(identifiers(&said).collect())
    }
}

/// Extracts the values of `"id"` from lines of JSON.
fn identifiers(text: &str) -> impl Iterator<Item = u64> {
    let numbers = text.split("\"id\":").skip(1);
    numbers.filter_map(|rest| {
        let digits = rest.trim_start_matches([' ', '"']);
        let end = digits.find(|letter: char| !letter.is_ascii_digit());
        digits[..end.unwrap_or(digits.len())].parse().ok()
    })
}

impl Scenario for Books {
    fn prepare(&mut self, _disk: &Path) -> Result<(), String> {
        fs::remove_dir_all(&self.program.aside).ok();
        let failed = |why: std::io::Error| why.to_string();
        fs::create_dir_all(&self.program.aside).map_err(failed)?;
        let topology = "[[link]]\nname = \"a-b\"\nfrom = \"a\"\nto = \"b\"\ncapacity = \"1Gb/s\"\n";
        fs::write(self.program.aside.join("network.toml"), topology).map_err(failed)?;
        let tokens = self.program.aside.join("tokens");
        let tokens = tokens.to_string_lossy();
        let words = ["token", "ada", "--role", "user", "--tokens", &tokens];
        let token = self.program.run(&self.config(), &words)?;
        fs::write(self.program.aside.join("token"), token).map_err(failed)
    }

    fn run(&mut self, disk: &Path, promises: &mut Promises<'_>) -> Result<(), String> {
        self.booked.clear();
        let (_server, url) = self.serve(disk)?;
        for _ in 0..BOOKINGS {
            self.booked.push(self.book(&url)?);
            promises.note();
        }
        Ok(())
    }

    fn check(&mut self, disk: &Path, promised: usize) -> Result<(), String> {
        let (_server, url) = self.serve(disk)?;
        let listed = self.listed(&url)?;
        let lost = self.booked[..promised]
            .iter()
            .find(|id| !listed.contains(id));
        if let Some(id) = lost {
            return Err(format!(
                "reservation {id} is lost; {promised} were confirmed"
            ));
        }
        // One may have been written but not confirmed yet.
        let more = listed.len().saturating_sub(promised);
        if more > 1 {
            return Err(format!("{more} reservations exist that were not confirmed"));
        }
        Ok(())
    }

    fn repeat(&mut self, disk: &Path) -> Result<(), String> {
        let (_server, url) = self.serve(disk)?;
        let before = self.listed(&url)?;
        let id = self.book(&url)?;
        if before.contains(&id) {
            return Err(format!("the identifier {id} was assigned twice"));
        }
        Ok(())
    }
}
