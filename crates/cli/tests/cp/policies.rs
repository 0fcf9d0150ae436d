//! Policies of a running scheduler follow their file.

use std::fs;
use std::path::{Path, PathBuf};

use lighthaul_io::host::clock::unix_nanos;

use crate::booking::{Booking, one};
use crate::far::Near;
use crate::help_claims::{ISSUER, device, issuer_key, rates, signed, trusting};
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
fn policy_file_is_reloaded() {
    let open = "[identity.ada]\n[identity.ben]\n";
    let mut far = Followed::start("policies-follow", open);
    let [ada, ben] = ["ada", "ben"].map(|name| far.booking.token(name, "user"));
    far.book(&ada).assert_succeeded();

    far.write("[identity.ada]\nlinks = []\n[identity.ben]\n");
    becomes_true("ada may book no link", || !far.books(&ada));
    far.book(&ada)
        .assert_failed(13, "does not permit link paris-milan");
    far.book(&ben).assert_succeeded();

    // one malformed policy does not affect others
    far.write("[identity.ada]\n[identity.ben]\nlink = []\n");
    let line = far
        .booking
        .says("ben may book nothing until this fault is corrected");
    assert!(
        line.contains("line 3, column 1: unknown field `link`"),
        "{line}"
    );
    becomes_true("ada may book again", || far.books(&ada));
    assert!(!far.books(&ben));

    // in an unreadable file, the policy of each identity is unknown
    far.write("[identity.ada\n");
    let line = far.booking.says("the previous policies stay in force");
    assert!(line.contains("line 1, column 14: "), "{line}");
    far.book(&ada).assert_succeeded();
    assert!(!far.books(&ben));

    far.write(open);
    becomes_true("ben may book again", || far.books(&ben));
}

/// The text of the code block of a page that begins with these words.
fn example(page: &str, begins: &str) -> String {
    let mut blocks = page
        .split("```\n")
        .filter(|block| block.starts_with(begins));
    blocks.next().unwrap().to_owned()
}

#[test]
fn topology_and_policies_of_the_readme_are_valid() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scheduler/README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let near = Near::new("policies-readme", None);
    let (topology, policy) = (near.at("network.toml"), near.at("policy.toml"));
    fs::write(&topology, example(&readme, "nodes = ")).unwrap();
    fs::write(&policy, example(&readme, "[default]")).unwrap();
    let (program, _) = device(&near);
    let devices = ["eth1", "eth2"].map(|name| format!("{name}={}", program.display()));
    let key = issuer_key();
    let mut options = trusting(&key).to_vec();
    options.extend(["--audience", "lighthaul", "--device"].map(str::to_owned));
    options.push(devices.join(","));
    options.extend(["--policy".to_owned(), policy.display().to_string()]);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let booking = Booking::over(near, &topology, &options);
    let later = unix_nanos() / 1_000_000_000 + 3600;
    // the subject ada of the issuer is the identity ada@idp.example.org here
    let ada = signed(&key, ISSUER, "lighthaul", later);
    let eve = booking.token("eve", "user");
    let book = |token: &str, packets: &str| {
        let words = ["book", "chicago", "amsterdam", "--size", "100GB", "--json"];
        let circuit = ["--interface", "eth1", "--packets", packets];
        booking.run(token, &[&words[..], &circuit].concat())
    };
    book(&ada, "udp 10.2.0.1 5000").assert_succeeded();
    let booked = book(&eve, "udp 10.1.0.1 5000").assert_succeeded();
    assert_eq!(rates(&one(&booked)), [1000]);
    for (token, packets) in [(&ada, "udp 10.1.0.2 5000"), (&eve, "udp 10.2.0.2 5000")] {
        book(token, packets).assert_failed(13, "does not permit packets");
    }
    // the limit holds for all reservations at one time together
    let next = book(&eve, "udp 10.1.0.3 5000").assert_succeeded();
    let end = one(&booked)["promised_end"].as_str().unwrap().to_owned();
    assert!(
        *one(&next)["steps"][0]["from"].as_str().unwrap() >= *end,
        "{next:?}"
    );
}
