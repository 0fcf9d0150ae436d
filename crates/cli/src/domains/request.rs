//! Options of `lighthaul path` as a request for the service.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_domains::Handle;
use lighthaul_domains::control::{PathId, PathRequest};
use lighthaul_grammar::domains::Path;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_session::error::Error;

use crate::error::usage;

/// Returns the request for the options, with a new ID.
pub(super) fn request(args: &Path) -> Result<PathRequest, Error> {
    let earliest = args.start.map_or_else(unix_nanos, |time| time.0.0);
    let usual = earliest.saturating_add(WINDOW.as_nanos() as u64);
    let latest = args.by.map_or(usual, |time| time.0.0);
    if latest <= earliest {
        return Err(usage("--by must be later than the start: give a later end"));
    }
    let bps = |rate: Option<Rate>| rate.map(Rate::as_bps);
    let exact = args.rate;
    Ok(PathRequest {
        id: PathId(Handle::new_id()),
        from: args.from.clone().unwrap_or_default(),
        to: args.to.clone().unwrap_or_default(),
        bytes: bytes(args)?,
        rate_max_bps: bps(args.rate_max.or(exact)),
        rate_min_bps: bps(args.rate_min.or(exact)),
        earliest,
        latest,
        exclude_domains: args.exclude_domain.clone(),
        exclude_links: args.exclude_link.clone(),
        protect: args.protect,
        tree: args.tree,
    })
}

/// Returns the bytes on the wire: the size with its margin, or the rate times the duration.
fn bytes(args: &Path) -> Result<u64, Error> {
    if let Some((rate, hold)) = args.rate.zip(args.hold) {
        return Ok(rate.bytes_in(hold));
    }
    let size = args.size.map_or(0, |size| size.0);
    let more = u128::from(size) * (100 + u128::from(args.margin));
    u64::try_from(more.div_ceil(100))
        .map_err(|_| usage("--size is out of range: give a smaller one"))
}

/// Default time from the start to the latest end: the usual horizon of neighbors.
const WINDOW: Duration = Duration::from_hours(24 * 30);

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lighthaul_grammar::cli::{Cli, Command};

    use super::*;

    fn parsed(options: &[&str]) -> PathRequest {
        let words = [&["lighthaul", "path", "a", "2:3"], options].concat();
        let Some(Command::Path(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is another command");
        };
        request(&args).unwrap()
    }

    #[test]
    fn each_option_has_its_part_of_the_request() {
        let all = [
            "--size=1MB",
            "--rate-max=20Mb/s",
            "--rate-min=10Mb/s",
            "--start=2031-05-01T06:00Z",
            "--by=2031-05-01T07:00Z",
            "--exclude-domain=5,6",
            "--exclude-link=7",
            "--protect",
            "--tree",
        ];
        let found = parsed(&all);
        let hour = Duration::from_hours(1).as_nanos() as u64;
        let expected = PathRequest {
            id: found.id,
            from: "a".to_owned(),
            to: "2:3".to_owned(),
            bytes: 1_030_000,
            rate_max_bps: Some(20_000_000),
            rate_min_bps: Some(10_000_000),
            earliest: found.latest - hour,
            latest: found.latest,
            exclude_domains: vec![5, 6],
            exclude_links: vec![7],
            protect: true,
            tree: true,
        };
        assert_eq!(found, expected);
        let held = parsed(&["--rate=8Mb/s", "--hold=2s"]);
        assert_eq!(held.bytes, 2_000_000);
        assert_eq!(held.rate_max_bps, held.rate_min_bps);
        assert_ne!(held.id, found.id);
    }

    #[test]
    fn end_before_the_start_is_refused() {
        let words = [
            "lighthaul",
            "path",
            "a",
            "b",
            "--size=1MB",
            "--start=2031-05-01T06:00Z",
        ];
        let words = words.into_iter().chain(["--by=2031-05-01T05:00Z"]);
        let Some(Command::Path(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is another command");
        };
        let why = request(&args).unwrap_err().text();
        assert!(why.contains("--by"), "{why}");
    }
}
