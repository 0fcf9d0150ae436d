//! What a file of policies allows, while the scheduler runs.

use std::fs;
use std::path::PathBuf;

use crate::booking::Booking;
use crate::far::Near;
use crate::running::{Outcome, becomes_true};

/// A scheduler that follows a file of policies.
struct Followed {
    booking: Booking,
    policy: PathBuf,
}

impl Followed {
    fn start(name: &str, policies: &str) -> Self {
        let near = Near::new(name, None);
        let (topology, policy) = (near.at("network.toml"), near.at("policy.toml"));
        let link = "[[link]]\nfrom = \"paris\"\nto = \"milan\"\ncapacity = \"1Gb/s\"\n";
        fs::write(&topology, link).unwrap();
        fs::write(&policy, policies).unwrap();
        let options = ["--no-tls", "--questions-max", "10000", "--policy"];
        let options = [&options[..], &[policy.to_str().unwrap()]].concat();
        let booking = Booking::over(near, &topology, &options);
        Self { booking, policy }
    }

    fn write(&self, policies: &str) {
        fs::write(&self.policy, policies).unwrap();
    }

    fn book(&self, token: &str) -> Outcome {
        let words = ["book", "paris", "milan", "--size", "1MB"];
        self.booking.run(token, &words)
    }

    fn books(&self, token: &str) -> bool {
        self.book(token).code == Some(0)
    }
}

#[test]
fn policies_of_a_running_scheduler_follow_their_file() {
    let open = "[identity.ada]\n[identity.ben]\n";
    let mut far = Followed::start("policies-follow", open);
    let [ada, ben] = ["ada", "ben"].map(|name| far.booking.token(name, "user"));
    far.book(&ada).assert_succeeded();

    far.write("[identity.ada]\nlinks = []\n[identity.ben]\n");
    becomes_true("ada may book no link", || !far.books(&ada));
    far.book(&ada)
        .assert_failed(13, "does not allow link paris-milan");
    far.book(&ben).assert_succeeded();

    // one policy that makes no sense is nobody else's matter
    far.write("[identity.ada]\n[identity.ben]\nlink = []\n");
    let line = far.booking.says("allows ben nothing until this is mended");
    assert!(
        line.contains("line 3, column 1: unknown field `link`"),
        "{line}"
    );
    becomes_true("ada may book again", || far.books(&ada));
    assert!(!far.books(&ben));

    // in a file that cannot be read at all, nobody's policy can be told from another's
    far.write("[identity.ada\n");
    let line = far.booking.says("the policies stay as they were");
    assert!(line.contains("line 1, column 14: "), "{line}");
    far.book(&ada).assert_succeeded();
    assert!(!far.books(&ben));

    far.write(open);
    becomes_true("ben may book again", || far.books(&ben));
}
