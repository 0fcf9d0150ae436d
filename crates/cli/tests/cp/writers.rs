//! Two schedulers that share a store, one of which writes.

use std::fs;

use crate::booking::Booking;
use crate::far::Near;
use crate::postgres_server::Server;
use crate::running::becomes_true;

/// URLs at which nothing listens.
const FIRST: &str = "http://127.0.0.1:9";
const SECOND: &str = "http://127.0.0.1:10";

#[test]
fn request_is_forwarded_to_the_url_of_the_writer() {
    let Some(server) = Server::start() else {
        return;
    };
    let place = server.url();
    let folder = place.split(' ').find_map(|word| word.strip_prefix("host="));
    let store = format!(
        "postgres:///postgres?user=lighthaul&host={}",
        folder.unwrap()
    );
    let options = |url| ["--no-tls", "--store", &store, "--url", url];
    let one = Booking::start("writers-one", &options(FIRST));
    let ada = one.token("ada", "user");
    let book = ["book", "paris", "milan", "--size", "1MB"];
    one.run(&ada, &book).assert_succeeded();
    let near = Near::new("writers-two", None);
    fs::copy(one.near.at("tokens"), near.at("tokens")).unwrap();
    let topology = one.near.at("network.toml");
    let two = Booking::over(near, &topology, &options(SECOND));
    let why = format!("cannot reach the writer at {FIRST}: ");
    two.run(&ada, &book).assert_failed(10, &why);
    two.run(&ada, &["reservations"]).assert_succeeded();
    // the other one writes when the first is gone
    drop(one);
    becomes_true("the second one writes", || {
        two.run(&ada, &book).code == Some(0)
    });
}
