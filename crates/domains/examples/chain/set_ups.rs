//! Times of set-ups, one path at a time over three domains. A set-up is three exchanges from end to end: query, hold,
//! commit.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::{Outcome, Request, Signaling};

use super::books;
use super::running::{Chain, Ends, ms, name, percentile, request, wall_now};

/// Times of the set-ups of paths.
pub(crate) struct SetUps {
    pub(crate) signaling: Signaling,
    /// Time of octets from a neighbor to the next one.
    pub(crate) delay: Duration,
    /// Time of each set-up, in ascending order.
    pub(crate) times: Vec<Duration>,
}

impl SetUps {
    /// Sets up this many paths, and compares the books of all domains.
    pub(crate) fn measure(
        folder: &Path,
        signaling: Signaling,
        (delay, rounds): (Duration, usize),
    ) -> Self {
        let chain = Chain {
            folder,
            count: 3,
            capacity: "400Gb/s",
            delay,
            timing: "",
            signaling,
        };
        let services = chain.start();
        let handle = services[0].handle();
        let clock = Clock::start();
        let mut paths = Ends::new();
        let mut times = Vec::new();
        for _ in 0..rounds {
            let from = wall_now() + Duration::from_secs(30);
            let wanted = Request {
                signaling,
                ..request([1, 3], Rate::from_mbps(100), from, Duration::from_secs(1))
            };
            let begun = clock.now();
            let ticket = handle.request(wanted).unwrap();
            let outcome = ticket.wait(Duration::from_mins(1)).unwrap();
            times.push(clock.now().since(begun));
            let is_committed = matches!(outcome, Some(Outcome::Committed { .. }));
            assert!(is_committed, "{outcome:?}");
            paths.insert(ticket.id, [1, 3]);
        }
        books::assert_agree(&services, &paths, 400_000_000_000);
        for one in services {
            one.stop().unwrap();
        }
        times.sort_unstable();
        Self {
            signaling,
            delay,
            times,
        }
    }

    /// Returns three round trips from the first domain to the third.
    pub(crate) fn three_round_trips(&self) -> Duration {
        self.delay * 4 * 3
    }

    /// Returns the median time.
    pub(crate) fn median(&self) -> Duration {
        percentile(&self.times, 50)
    }
}

impl fmt::Display for SetUps {
    /// Writes a line of a table: signaling, delay, three round trips, median, longest, and what the median adds to the round
    /// trips.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trips, median) = (self.three_round_trips(), self.median());
        write!(
            f,
            "| {} | {:.0} ms | {:.0} ms | {:.1} ms | {:.1} ms | {:.1} ms |",
            name(self.signaling),
            ms(self.delay),
            ms(trips),
            ms(median),
            ms(percentile(&self.times, 100)),
            ms(median.saturating_sub(trips)),
        )
    }
}
