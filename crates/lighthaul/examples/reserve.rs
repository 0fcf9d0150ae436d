//! Program that reserves capacity, waits for its start, and releases it: `reserve URL TOKEN_FILE FROM TO`.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

#[cfg(test)]
#[path = "../tests/copies/books.rs"]
mod books;

use std::env;
use std::time::Duration;

use lighthaul::{Client, Error, IsoDuration, NewReservation, Scheduler, Settings};

fn main() -> Result<(), Error> {
    let mut words = env::args().skip(1);
    let mut word = || words.next().unwrap_or_default();
    let mut settings = Settings::default();
    settings.scheduler = Some(Scheduler {
        url: word(),
        token_file: Some(word().into()),
        pin: None,
        known_hosts: None,
    });
    reserve(&Client::new(settings), &word(), &word())
}

fn reserve(client: &Client, from: &str, to: &str) -> Result<(), Error> {
    let request = NewReservation {
        from: Some(from.to_owned()),
        to: Some(to.to_owned()),
        hold: Some(IsoDuration(Duration::from_mins(10))),
        ..NewReservation::default()
    };
    let quote = client.quote(&request)?;
    println!("capacity is free on the path {}", quote.path.join(", "));
    let mut reservation = client.reserve(&request)?;
    reservation.commit()?;
    println!("reservation {} is committed", reservation.id());
    let mut reservation = reservation.pending_start()?.wait()?;
    println!("it is {}", reservation.state());
    // work that needs the capacity
    reservation.release("the work is done")
}

#[test]
fn example_runs() {
    let books = books::TestBooks::start("example");
    reserve(&books.client("ada"), "here", "far").unwrap();
}
