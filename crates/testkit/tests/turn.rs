//! Tests of turns.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use lighthaul_testkit::Turn;

#[test]
fn shared_turns_overlap_and_exclusive_turns_do_not() {
    static INSIDE: AtomicU32 = AtomicU32::new(0);
    static TOGETHER: AtomicU32 = AtomicU32::new(0);
    let beside = || {
        let _turn = Turn::beside_others();
        let others = INSIDE.fetch_add(1, SeqCst);
        for _ in 0..1000 {
            TOGETHER.fetch_max(INSIDE.load(SeqCst), SeqCst);
            thread::yield_now();
        }
        assert!(others < 100, "a test with an exclusive turn was running");
        INSIDE.fetch_sub(1, SeqCst);
    };
    let alone = || {
        let _turn = Turn::alone();
        assert_eq!(INSIDE.fetch_add(100, SeqCst), 0);
        (0..1000).for_each(|_| thread::yield_now());
        assert_eq!(INSIDE.fetch_sub(100, SeqCst), 100);
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| beside()));
        }
        scope.spawn(|| (0..20).for_each(|_| alone()));
    });
    assert!(
        TOGETHER.load(SeqCst) > 1,
        "no two tests ran at the same time"
    );
}
