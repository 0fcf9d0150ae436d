//! Properties that hold for all requests.

use lighthaul_calendar::{Config, Id, RepackLimits, Request, Scope};
use proptest::prelude::*;

use super::{at, calendar, file, nanos};

/// Generates requests on a link with a guard time. Some of them fill the link.
fn wishes() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
    prop::collection::vec((0_u64..2000, 1_u64..300, 1_u64..9, 0_u64..50), 1..60)
}

proptest! {
    #[test]
    fn grants_carry_their_bytes_outside_guard_times(wishes in wishes(), guard in 1_u64..60) {
        let mut calendar = calendar(8, guard, Config::default());
        for (id, (from, bytes, channels, _)) in (0..).zip(wishes) {
            let request = Request { from: at(from), ..file(&calendar, bytes, channels) };
            let grant = calendar.book(at(0), Id(id), &request).unwrap();
            let lit = grant.carrying_steps();
            let carried: u64 = lit.iter().map(|s| s.till.since(s.from).as_nanos() as u64 * (s.rate.as_bps() / 1_000_000_000)).sum();
            let last = grant.steps().last().unwrap().rate.as_bps() / 1_000_000_000;
            prop_assert!((bytes * 8..bytes * 8 + last).contains(&carried), "{} for {}: {:?}", carried, bytes * 8, grant);
            prop_assert!(lit[0].from >= grant.start() + nanos(guard));
            prop_assert_eq!(lit.last().map(|step| step.till), Some(grant.end()));
        }
    }

    #[test]
    fn replay_of_a_journal_restores_the_calendar(wishes in wishes(), guard in 0_u64..9) {
        let mut calendar = calendar(4, guard, Config { horizon: nanos(3000), ..Config::default() });
        let mut again = calendar.clone();
        let mut journal = Vec::new();
        for (id, (from, bytes, channels, release)) in (0..).zip(wishes) {
            let request = Request { from: at(from), ..file(&calendar, bytes, channels) };
            if calendar.book(at(0), Id(id), &request).is_ok() {
                journal.push((Id(id), Some(request)));
            }
            if calendar.release(at(0), Id(release)).is_ok() {
                journal.push((Id(release), None));
                calendar.repack(at(0), Scope::All, RepackLimits::NONE);
            }
        }
        for (id, request) in journal {
            if let Some(request) = request {
                again.book(at(0), id, &request).unwrap();
            } else {
                again.release(at(0), id).unwrap();
                again.repack(at(0), Scope::All, RepackLimits::NONE);
            }
        }
        prop_assert_eq!(again, calendar);
    }
}
