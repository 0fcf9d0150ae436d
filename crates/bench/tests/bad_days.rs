//! List of the bad days of a transfer, with the tests that show what it still carries.

/// All bad days, with the files of their tests and the names of the tests.
const BAD_DAYS: &[(&str, &str, &[&str])] = &[
    (
        "the remembered rate of the path is too high or too low",
        include_str!("../src/grid/simulated/tests/bad_days.rs"),
        &[
            "high_remembered_rate_falls_to_the_rate_of_the_path",
            "low_remembered_rate_rises_to_the_rate_of_the_path",
            "objects_grow_with_a_rate_that_was_found",
            "short_copy_rises_above_half_of_the_rate",
            "search_for_a_rate_does_not_displace_other_flows",
        ],
    ),
    (
        "the remembered path has another MTU, or blocks UDP",
        include_str!("../../cli/tests/cp/paths.rs"),
        &["remembered_path_that_has_changed_is_explored_again"],
    ),
    (
        "the MTU shrinks, or UDP is blocked, during a copy",
        include_str!("../../cli/tests/cp/paths.rs"),
        &[
            "path_mtu_that_shrinks_during_a_copy_falls_back_to_tcp",
            "udp_blocked_during_a_copy_falls_back_to_tcp",
        ],
    ),
    (
        "the receiver becomes ten times slower or faster",
        include_str!("../src/grid/simulated/tests/bad_days.rs"),
        &[
            "rate_follows_a_receiver_that_becomes_ten_times_slower",
            "rate_follows_a_receiver_that_becomes_ten_times_faster_within_two_seconds",
            "rate_follows_a_receiver_that_is_slow_for_some_time",
            "disk_that_is_slow_for_some_time_costs_no_packets",
            "rate_and_lanes_follow_a_disk_that_is_slow_for_long",
        ],
    ),
    (
        "the round-trip time becomes ten times longer",
        include_str!("../src/grid/simulated/tests/bad_days.rs"),
        &[
            "transfer_continues_on_a_route_ten_times_longer",
            "longer_route_does_not_let_a_transfer_displace_other_flows",
        ],
    ),
    (
        "a policer limits the path",
        include_str!("../src/grid/simulated/tests/bad_days.rs"),
        &["transfer_settles_at_the_rate_of_a_policer"],
    ),
    (
        "the path reorders a twentieth of the packets",
        include_str!("../src/grid/simulated/tests/bad_days.rs"),
        &["reordering_of_a_twentieth_does_not_slow_a_transfer"],
    ),
    (
        "another flow comes and goes each second",
        include_str!("../src/grid/simulated/tests/bad_days.rs"),
        &["neighbor_that_comes_and_goes_is_not_starved"],
    ),
    (
        "the controller oscillates: in each test here, and with any reports of a peer",
        include_str!("../../parts/src/transfer_rate.rs"),
        &["rate_changes_have_an_interval_of_ten_round_trips"],
    ),
];

#[test]
fn each_bad_day_has_its_tests() {
    for (day, file, tests) in BAD_DAYS {
        for test in *tests {
            let head = format!("#[test]\nfn {test}()");
            let inner = format!("#[test]\n    fn {test}()");
            let proptest = format!("#[test]\n        fn {test}(");
            let has_test = [head, inner, proptest]
                .iter()
                .any(|text| file.contains(text));
            assert!(has_test, "{day}: there is no test {test}");
        }
    }
}
