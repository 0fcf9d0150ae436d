//! Tests of turns.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use lighthaul_testkit::Turn;

#[test]
fn only_shared_turns_of_one_kind_overlap() {
    // busy tests count 1, quiet ones 100, those alone 10,000
    static INSIDE: AtomicU32 = AtomicU32::new(0);
    static TOGETHER: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    let shared = |unit: u32, turn: fn() -> Turn, together: &AtomicU32| {
        let _turn = turn();
        INSIDE.fetch_add(unit, SeqCst);
        // until another turn was held, too, unless none comes
        for round in 0..100_000 {
            if round > 1000 && together.load(SeqCst) > 1 {
                break;
            }
            let inside = INSIDE.load(SeqCst);
            let others = inside % unit + inside / (unit * 100);
            assert_eq!(others, 0, "a turn of another kind was held: {inside}");
            together.fetch_max(inside / unit, SeqCst);
            thread::yield_now();
        }
        INSIDE.fetch_sub(unit, SeqCst);
    };
    let alone = || {
        let _turn = Turn::alone();
        assert_eq!(INSIDE.fetch_add(10_000, SeqCst), 0);
        (0..1000).for_each(|_| thread::yield_now());
        assert_eq!(INSIDE.fetch_sub(10_000, SeqCst), 10_000);
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                (0..20).for_each(|_| shared(1, Turn::beside_others, &TOGETHER[0]));
            });
            scope.spawn(|| (0..20).for_each(|_| shared(100, Turn::quiet, &TOGETHER[1])));
        }
        scope.spawn(|| (0..20).for_each(|_| alone()));
    });
    for together in &TOGETHER {
        assert!(together.load(SeqCst) > 1, "no two tests ran together");
    }
}
