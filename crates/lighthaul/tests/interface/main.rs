//! Public items of the library, compared with the accepted list. A change of the interface changes the list, too.
//!
//! - `sources`: files of crates, and where an exported name comes from; `listing`: the lines of an item
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "syntax has many items that no interface has"
)]

mod listing;
mod sources;

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use sources::Crates;

const HEAD: &str = "# Public items of the crate, with those that it exports from others. Types have the names of the sources.\n";

/// List of the public items.
static INTERFACE: LazyLock<String> = LazyLock::new(interface);

fn interface() -> String {
    let crates = Crates::read();
    let mut lines = BTreeSet::new();
    for export in crates.exports("lighthaul") {
        lines.extend(listing::lines(&crates, &export));
    }
    let mut text = HEAD.to_owned();
    for line in lines {
        writeln!(text, "{line}").unwrap();
    }
    text
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the developer accepts by it")]
fn public_items_are_the_accepted_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("interface.txt");
    let made = &*INTERFACE;
    if env::var("LIGHTHAUL_ACCEPT").is_ok_and(|what| what == "interface") {
        fs::write(&path, made).unwrap();
    }
    let accepted = fs::read_to_string(&path).unwrap_or_default();
    let lines = |text| str::lines(text).collect::<BTreeSet<_>>();
    let (before, after) = (lines(&accepted), lines(made));
    let mut difference = String::new();
    for gone in before.difference(&after) {
        writeln!(difference, "- {gone}").unwrap();
    }
    for new in after.difference(&before) {
        writeln!(difference, "+ {new}").unwrap();
    }
    assert!(
        accepted == *made,
        "the interface differs from interface.txt; a line that is gone breaks programs. Accept it with \
         LIGHTHAUL_ACCEPT=interface, and put what users notice into the changelog:\n{difference}"
    );
}

/// Each kind of item has its lines, so that no change of it goes unnoticed.
#[test]
fn list_has_all_kinds_of_items() {
    let made = &*INTERFACE;
    for line in [
        "struct Client",
        "fn Client::new(settings: Settings) -> Self",
        // a method in another file than its type
        "fn Client::reserve(&self, request: &NewReservation) -> Result<Reservation, Error>",
        "field Settings.route: Route",
        // from other crates, under other names
        "struct ReservationRecord",
        "field ReservationRecord.id: u64",
        "enum Code",
        "variant Code::Network",
        "trait User: Debug + Send + Sync",
        "impl Future for Transfer",
        "impl<T> Iterator for Events<T>",
        "derive Rate: Clone",
    ] {
        let has = made
            .lines()
            .any(|one| one == line || one.starts_with(&format!("{line} ")));
        assert!(has, "{line} is missing");
    }
}
