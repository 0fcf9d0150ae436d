//! Faulty requests: each gets a problem with a remedy, and the books do not change.

use lighthaul_booking_client::client::Filter;

use crate::test_server::{Setup, TestServer, ahead, bytes};

/// Asserts that the books are empty.
fn assert_balanced(test_server: &TestServer) {
    let olga = test_server.client("olga");
    let all = olga.reservations(&Filter::default(), None).unwrap();
    assert_eq!(all.items, []);
    for link in ["a-b", "b-c", "d-a"] {
        let calendar = olga.calendar(link, ahead(0), ahead(86_400)).unwrap();
        assert!(calendar.allocations.is_empty(), "{calendar:?}");
        assert!(
            calendar.free.iter().all(|free| free.bps == 1_000_000_000),
            "{calendar:?}"
        );
    }
}

/// Request, and the status, kind and words of its problem.
const IMPOSSIBLE: [(&str, u16, &str, &str); 27] = [
    (
        r#"{"from": "a", "to": "c", "size": 0}"#,
        422,
        "impossible",
        "at least 1 byte",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 9223372036854775808}"#,
        409,
        "far",
        "ask for less",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 18446744073709551616}"#,
        400,
        "unreadable",
        "2^64",
    ),
    (
        r#"{"from": "a", "to": "c", "size": -1}"#,
        400,
        "unreadable",
        "whole number",
    ),
    (
        r#"{"from": "a", "to": "c", "size": "much"}"#,
        400,
        "unreadable",
        "450MB",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "start": "2020-01-01T00:00:00Z"}"#,
        422,
        "impossible",
        "ask for a start at 20",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "start": "2553-01-01T00:00:00Z"}"#,
        409,
        "far",
        "the horizon of the calendar",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "by": "9999-12-31T23:59:59Z"}"#,
        400,
        "unreadable",
        "9999-12-31T23:59:59Z is too far ahead",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "start": "tomorrow"}"#,
        400,
        "unreadable",
        "2031-05-01T06:00:00Z",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "rate_max": "2Gb/s"}"#,
        422,
        "impossible",
        "at most 1.000 Gb/s",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "rate_max": 0}"#,
        422,
        "misuse",
        "rate_max is zero",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "rate_max": "1Mb/s", "rate_min": "2Mb/s"}"#,
        422,
        "impossible",
        "at most 1.000 Mb/s",
    ),
    (
        r#"{"from": "a", "to": "nowhere", "size": 1}"#,
        422,
        "misuse",
        "nowhere",
    ),
    (
        r#"{"from": "a", "to": "d", "size": 1}"#,
        422,
        "impossible",
        "no path",
    ),
    (
        r#"{"path": ["a-b", "d-a"], "size": 1}"#,
        422,
        "misuse",
        "not a path",
    ),
    (r#"{"path": ["a-x"], "size": 1}"#, 422, "misuse", "a-x"),
    (
        r#"{"from": "a", "to": "c"}"#,
        422,
        "misuse",
        "give size (--size) or hold (--hold), not both",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "hold": 1}"#,
        422,
        "misuse",
        "give size (--size) or hold (--hold), not both",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "colour": "red"}"#,
        400,
        "unreadable",
        "colour",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "margin_percent": 101}"#,
        422,
        "misuse",
        "at most 100",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "flow": {"interface": "eth0"}}"#,
        422,
        "misuse",
        "omit flow",
    ),
    ("\"all\"", 400, "unreadable", "openapi"),
    (
        r#"["a", "c", null, 1]"#,
        400,
        "unreadable",
        "not a JSON object",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "flow": ["eth0"]}"#,
        400,
        "unreadable",
        "a map",
    ),
    (
        r#"{"from": "a", "to": "c", "size": 1, "priority": 300}"#,
        400,
        "unreadable",
        "a whole number from 0 to 255",
    ),
    (
        r#"{"path": [], "size": 1}"#,
        422,
        "misuse",
        "the path has no links",
    ),
    ("{", 400, "unreadable", "openapi"),
];

#[test]
fn impossible_request_is_refused_with_a_remedy() {
    let test_server = TestServer::new();
    for (body, status, kind, says) in IMPOSSIBLE {
        for path in ["/v1/reservations", "/v1/quotes"] {
            let problem = test_server.problem("POST", path, "ada", body);
            assert_eq!(problem.status, status, "{body}: {problem:?}");
            assert_eq!(
                problem.kind,
                format!("urn:lighthaul:problem:{kind}"),
                "{body}: {problem:?}"
            );
            assert!(problem.detail.contains(says), "{body}: {problem:?}");
        }
    }
    assert_balanced(&test_server);
}

#[test]
fn missed_deadline_gets_a_counter_offer() {
    let test_server = TestServer::new();
    let start = ahead(600);
    let by = lighthaul_booking_client::json::Timestamp(start.0 + 1_000_000_000);
    let body = format!(
        r#"{{"from": "a", "to": "c", "size": 250000000, "margin_percent": 0, "rate_max": "500Mb/s",
                           "start": "{start}", "by": "{by}"}}"#
    );
    let problem = test_server.problem("POST", "/v1/reservations", "ada", &body);
    assert_eq!(
        (problem.status, problem.kind.as_str()),
        (409, "urn:lighthaul:problem:late")
    );
    let offer = problem.counter_offer.unwrap();
    assert_eq!(offer.earliest_end.unwrap().0, start.0 + 4_000_000_000);
    assert_eq!(
        (offer.size_by_then, offer.rate_needed),
        (Some(62_500_000), None)
    );
    assert!(
        problem.detail.contains("62500000 bytes"),
        "{}",
        problem.detail
    );
    assert_balanced(&test_server);
}

#[test]
fn request_without_valid_token_is_refused() {
    let test_server = TestServer::new();
    for token in ["", "eve", "old", "a.b.c", "ada ada"] {
        let problem = test_server.problem("GET", "/v1/reservations", token, "");
        assert_eq!(
            (problem.status, problem.kind.as_str()),
            (401, "urn:lighthaul:problem:unauthorized"),
            "{token}"
        );
        let (_, head, _) = test_server.raw("GET", "/v1/reservations", token, "");
        assert!(
            head.to_lowercase().contains("www-authenticate: bearer"),
            "{head}"
        );
    }
    let long = "x".repeat(20_000);
    assert_eq!(
        test_server
            .problem("GET", "/v1/reservations", &long, "")
            .status,
        401
    );
}

#[test]
fn unknown_path_and_parameter_get_a_problem() {
    let test_server = TestServer::new();
    for (method, path, status) in [
        ("GET", "/v1/reservations/1", 404),
        ("GET", "/v1/reservations/x", 400),
        ("GET", "/v1/reservations/99999999999999999999", 400),
        ("GET", "/v1/reservations?limit=2000", 400),
        ("GET", "/v1/reservations?limit=x", 400),
        ("GET", "/v1/reservations?limit=99999999999999999999", 400),
        ("GET", "/v1/reservations?after=-1", 400),
        ("GET", "/v1/reservations?colour=red", 400),
        ("GET", "/v1/links/x/calendar", 404),
        (
            "GET",
            "/v1/links/a-b/calendar?from=1971-01-01T00:00:00Z",
            422,
        ),
        ("GET", "/v1/reservations?owner=bob", 403),
        ("GET", "/v1/links/a-b/calendar?from=soon", 400),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/reservations", 405),
    ] {
        let problem = test_server.problem(method, path, "ada", "");
        assert_eq!(problem.status, status, "{method} {path}: {problem:?}");
        assert!(!problem.detail.is_empty() && !problem.title.is_empty());
        for says in ["u64", "usize", "serialize", "Cannot"] {
            assert!(!problem.detail.contains(says), "{problem:?}");
        }
    }
}

#[test]
fn calendar_of_the_past_is_refused() {
    let test_server = TestServer::new();
    let path = "/v1/links/a-b/calendar?from=1971-01-01T00:00:00Z";
    let problem = test_server.problem("GET", path, "ada", "");
    let says = "the calendar has no past times: ask for times from 20";
    assert!(problem.detail.contains(says), "{problem:?}");
    // a request from a moment ago is answered from now on
    let now = ahead(0);
    let calendar = test_server
        .client("ada")
        .calendar("a-b", now, ahead(60))
        .unwrap();
    assert!(calendar.free[0].from >= now, "{calendar:?}");
}

#[test]
fn too_long_body_is_refused() {
    let test_server = TestServer::new();
    for length in [70_000, 5_000_000] {
        let body = format!(r#"{{"from": "{}"}}"#, "a".repeat(length));
        let problem = test_server.problem("POST", "/v1/reservations", "ada", &body);
        assert_eq!(problem.status, 413, "{problem:?}");
        assert!(problem.detail.contains("65536 bytes"), "{problem:?}");
    }
    assert_balanced(&test_server);
}

#[test]
fn body_of_another_media_type_is_refused() {
    let test_server = TestServer::new();
    for (kind, status) in [
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/json; charset=latin1", 415),
        ("application/json; charset=utf-8", 422),
        ("Application/JSON", 422),
    ] {
        let (answered, _, body) = test_server.raw_as(kind, ("POST", "/v1/quotes"), "ada", "{}");
        assert_eq!(answered, status, "{kind}: {body}");
    }
}

#[test]
fn rate_limit_of_an_identity_does_not_affect_other_identities() {
    let test_server = TestServer::of(Setup {
        requests_per_second: 2,
        ..Setup::default()
    });
    let ask = |token: &str| test_server.raw("GET", "/v1/topology", token, "");
    let answers: Vec<_> = (0..10).map(|_| ask("ada")).collect();
    let refused: Vec<_> = answers
        .iter()
        .filter(|(status, _, _)| *status == 429)
        .collect();
    assert!(refused.len() >= 4, "{answers:?}");
    assert!(
        refused[0].1.to_lowercase().contains("retry-after: 1"),
        "{}",
        refused[0].1
    );
    assert_eq!(ask("bob").0, 200);
    // failed authentications are limited by address
    let guesses: Vec<u16> = (0..10).map(|nth| ask(&format!("guess-{nth}")).0).collect();
    assert!(
        guesses.contains(&401) && guesses.contains(&429),
        "{guesses:?}"
    );
    assert_eq!(ask("bob").0, 200);
}

#[test]
fn silent_connections_do_not_block_other_clients() {
    let test_server = TestServer::new();
    let mut silent = Vec::new();
    silent.resize_with(200, || {
        std::net::TcpStream::connect(test_server.address).unwrap()
    });
    assert!(test_server.client("ada").reserve(&bytes(1)).is_ok());
    drop(silent);
}

#[test]
fn quota_error_names_the_limit() {
    let mut setup = Setup::default();
    setup.config.policy.quota.reservations = 2;
    let test_server = TestServer::of(setup);
    let ada = test_server.client("ada");
    let made: Vec<_> = (0..2)
        .map(|_| ada.reserve(&bytes(1_000_000_000_000)).unwrap())
        .collect();
    let problem = crate::test_server::problem(ada.reserve(&bytes(1)));
    assert_eq!(
        (problem.status, problem.kind.as_str()),
        (403, "urn:lighthaul:problem:quota")
    );
    assert!(test_server.client("bob").reserve(&bytes(1)).is_ok());
    ada.cancel(made[0].id, "").unwrap();
    assert!(ada.reserve(&bytes(1)).is_ok());
}
